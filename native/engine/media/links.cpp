// contention: every link of a message's way carries one message at a time, first come first served. Whole messages are stored and
// forwarded, or (cut through) heads are forwarded as they arrive; a link is held for a whole message in both.
#include <algorithm>

#include "media/fabric.hpp"

namespace astrarium {
namespace {

template <class Fabric>
class Links final : public Medium {
public:
    Links(const Plan& plan, bool record, Carried& run)
        : cut_through_(plan.network.cut_through), run_(run), traffic_(plan.network, PortRows::each(plan), record), fabric_(plan.network, traffic_) {
        free_.assign(plan.network.graph ? plan.network.graph->links() : 2 * traffic_.ports(), 0);
    }

    void ask(MessageId id, Tick now) override {
        Flight& flight = run_.flight(id);
        if (flight.at == flight.destination)
            run_.delivered(id, now);
        else
            run_.ask_again(id, leave(flight, reserve(flight, now)));
    }

    void wake(std::uint32_t, Tick) override {}

    Turn reserve(const Flight& f, Tick now) override {
        const Hop hop = fabric_.next(f);
        const Tick serial = ticks(static_cast<double>(f.size) / fabric_.bandwidth(hop), false);
        Tick& free = free_[hop.number];
        const Tick start = std::max(now, free);
        free = add(start, serial);
        traffic_.charge(hop.number, false, f.size, serial);
        if (hop.leaves_npu) traffic_.use(hop.dim, start, serial, f.at);
        return {hop.number, start, serial};
    }

    std::size_t first_link(const Flight& flight) const override { return fabric_.next(flight).number; }

    Tick leave(Flight& f, const Turn& turn) override {
        const Hop hop = fabric_.next(f);
        const Tick latency = ticks(fabric_.latency(hop), false), end = add(turn.start, turn.serial);
        f.at = hop.landing, f.at_switch = hop.to_switch;
        if (!cut_through_) return add(end, latency);
        f.tail = add(std::max(end, f.tail), latency);
        return f.at == f.destination ? f.tail : add(turn.start, latency);
    }

    Traffic* traffic() override { return &traffic_; }
    std::vector<const std::vector<Tick>*> free_times() const override { return {&free_}; }

private:
    const bool cut_through_;
    Carried& run_;
    Traffic traffic_;
    const Fabric fabric_;
    std::vector<Tick> free_;  // when links are free
};

const MediumKind kind{.name = "contention", .links = true, .has_links = true, .queues = true, .open = open_on_fabric<Links>};
const Registered registered(kind);

}  // namespace
}  // namespace astrarium
