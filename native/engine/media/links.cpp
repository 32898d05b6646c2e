// contention: every link of a message's way carries one message at a time, first come first served. Whole messages are stored and
// forwarded, or (cut through) heads are forwarded as they arrive; a link is held for a whole message in both. What a link that stands still
// for ever has, or would have next, is over `never`.
#include <algorithm>

#include "media/fabric.hpp"
#include "media/link_holds.hpp"

namespace astrarium {
namespace {

template <class Fabric>
class Links final : public Medium {
public:
    Links(const Plan& plan, bool record, Carried& run)
        : cut_through_(plan.network.cut_through), run_(run), traffic_(plan.network, PortRows::each(plan), record),
          fabric_(plan.network, traffic_), rates_(link_rates(plan, fabric_)) {
        free_.assign(plan.network.graph ? plan.network.graph->links() : 2 * traffic_.ports(), 0);
    }

    void ask(MessageId id, Tick now) override {
        Flight& flight = run_.flight(id);
        if (flight.at == flight.destination) run_.arrived(id);
        else run_.ask_again(id, pass(flight, now));
    }

    void wake(std::uint32_t, Tick) override {}

    Turn reserve(const Flight& f, Tick now) override { return take(fabric_.next(f), f, now); }

    std::size_t first_link(const Flight& flight) const override { return fabric_.next(flight).number; }

    Tick leave(Flight& f, const Turn& turn) override { return cross(fabric_.next(f), f, turn); }

    void watch(LinkHolds& holds) override { holds_ = &holds; }
    Traffic* traffic() override { return &traffic_; }
    std::vector<const std::vector<Tick>*> free_times() const override { return {&free_}; }
    std::vector<std::string> waits(Tick, std::uint64_t) const override {
        return links_that_stand(fabric_, rates_, [this](std::size_t number) { return free_[number] == never; });
    }

private:
    static Tick later(Tick time, Tick by) { return time == never ? never : add(time, by); }

    // One link further, in its turn: when the message is at the next device.
    Tick pass(Flight& f, Tick now) {
        const Hop hop = fabric_.next(f);
        return cross(hop, f, take(hop, f, now));
    }

    Turn take(const Hop& hop, const Flight& f, Tick now) {
        const Tick work = ticks(static_cast<double>(f.size) / fabric_.bandwidth(hop), false);
        Tick& free = free_[hop.number];
        const Tick start = std::max(now, free);
        free = rates_.empty() ? add(start, work) : start == never ? never : rates_.finish(hop.number, start, work);
        const Tick serial = free - start;
        if (holds_) holds_->asks(hop.number, now, free);
        if (free == never) return {hop.number, start, serial};
        traffic_.charge(hop.number, false, f.size, serial);
        if (hop.leaves_npu) traffic_.use(hop.dim, start, serial, f.at);
        return {hop.number, start, serial};
    }

    Tick cross(const Hop& hop, Flight& f, const Turn& turn) const {
        const Tick latency = ticks(fabric_.latency(hop), false), end = add(turn.start, turn.serial);
        f.at = hop.landing, f.at_switch = hop.to_switch;
        if (!cut_through_) return later(end, latency);
        f.tail = later(std::max(end, f.tail), latency);
        return f.at == f.destination ? f.tail : later(turn.start, latency);
    }

    const bool cut_through_;
    Carried& run_;
    Traffic traffic_;
    const Fabric fabric_;
    const Rates rates_;
    LinkHolds* holds_ = nullptr;
    std::vector<Tick> free_;  // when links are free
};

const MediumKind kind{
    .name = "contention", .on_links = true, .takes_switches = true, .takes_graph = true, .queues = true, .open = open_on_fabric<Links>};
const Registered registered(kind);

}  // namespace
}  // namespace astrarium
