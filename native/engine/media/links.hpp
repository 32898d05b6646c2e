// contention: every link of a dimension-ordered route carries one message at a time, first come first served. Whole messages are stored
// and forwarded, or (cut through) heads are forwarded as they arrive; a link is held for a whole message in both.
#pragma once
#include <vector>

#include "media/medium.hpp"
#include "media/traffic.hpp"

namespace astrarium {

class Links final : public Medium {
public:
    Links(const Plan& plan, bool record, Carried& run)
        : network_(plan.network), run_(run), geometry_(plan.network), traffic_(plan.network, PortRows::each(plan), record) {
        up_.assign(traffic_.ports(), 0), down_.assign(traffic_.ports(), 0);
    }
    void ask(MessageId id, Tick now) override;
    void wake(std::uint32_t, Tick) override {}
    Turn reserve(const Flight& flight, Tick now) override;
    std::size_t first_link(const Flight& flight) const override { return next(flight).link; }
    Tick leave(Flight& flight, const Turn& turn) override;
    Traffic* traffic() override { return &traffic_; }
    std::vector<const std::vector<Tick>*> free_times() const override { return {&up_, &down_}; }

private:
    struct Next {
        std::size_t dim, link;
        int landing;      // the NPU where it ends, or that of the switch's port
        bool down, leaves_for_switch;
    };
    Next next(const Flight& flight) const;

    const Network& network_;
    Carried& run_;
    const Geometry geometry_;
    Traffic traffic_;
    std::vector<Tick> up_, down_;  // when links are free: those that leave an NPU, those that come to it from a switch
};

}  // namespace astrarium
