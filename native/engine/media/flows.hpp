// fluid: each message draws on all links of its way at once, at max-min fair rates that change as others come and go; its bytes arrive
// the latency of all links after they left. With the same integers: astrarium.engine.reference.native_flows.
#pragma once
#include <unordered_map>
#include <vector>

#include "media/activities.hpp"
#include "media/medium.hpp"
#include "media/traffic.hpp"

namespace astrarium {

class Flows final : public Medium {
public:
    Flows(const Plan& plan, bool record, Carried& run);
    void ask(MessageId id, Tick now) override;
    void wake(std::uint32_t what, Tick now) override;
    Traffic* traffic() override { return &traffic_; }

private:
    enum What : std::uint32_t { share, end };
    struct Link {
        std::size_t dim, number;
        bool down;  // out of a switch
    };
    void route(const Flight& flight, std::vector<Link>& out) const;
    void run_to(Tick now);
    void end_flow(MessageId id, const Activities::Resources& drawn, Tick now);
    void look(Tick now);

    const Network& network_;
    Carried& run_;
    const Geometry geometry_;
    Traffic traffic_;
    Activities under_way_;
    std::vector<Link> links_;  // of the resources
    std::unordered_map<std::size_t, std::uint32_t> resource_of_;  // per link
    Tick due_ = never;  // the earliest look at ends that is scheduled
    bool looked_at_ = false;
};

}  // namespace astrarium
