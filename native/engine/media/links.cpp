// contention: every link of a message's way carries one message at a time, first come first served. Whole messages are stored and
// forwarded, or (cut through) heads are forwarded as they arrive; a link is held for a whole message in both. What a link that stands still
// for ever has, or would have next, is over `never`.
#include <algorithm>
#include <array>
#include <map>

#include "media/fabric.hpp"
#include "media/link_holds.hpp"

namespace astrarium {
namespace {

template <class Fabric>
class Links final : public Medium {
public:
    Links(const Plan& plan, bool record, Carried&)
        : cut_through_(plan.network.cut_through), traffic_(plan.network, PortRows::each(plan), record), fabric_(plan, traffic_),
          rates_(link_rates(plan, fabric_)), links_(fabric_.links()) {}

    void wake(std::uint32_t, Tick) override {}

    Tick pass(Flight& f, Tick now) override {
        fabric_.go_to(now);
        if (f.left == 0) fabric_.aim(f);
        const Turn turn = take(f, now);
        if (turn.gives_up != never) return f.left = 0, turn.gives_up;
        return cross(f, turn);
    }
    Turn reserve(const Flight& flight, Tick now) override {
        Flight f = flight;
        fabric_.aim(f);
        return take(f, now);
    }
    std::size_t first_link(const Flight& flight) const override { return fabric_.next(flight).number; }
    Tick leave(Flight& f, const Turn& turn) override {
        fabric_.aim(f);
        return cross(f, turn);
    }

    void watch(LinkHolds& holds) override { holds_ = &holds; }
    Traffic* traffic() override { return &traffic_; }
    std::vector<Tick> free_times() const override {
        std::vector<Tick> out;
        for (const Link& link : links_) out.push_back(link.free);
        return out;
    }
    std::vector<std::string> waits(Tick, std::uint64_t) const override {
        return links_that_stand(fabric_, rates_, [this](std::size_t number) { return links_[number].free == never; });
    }

private:
    static constexpr std::uint32_t unknown = 0;
    struct Link {
        Tick free = 0;
        std::int32_t landing = 0;
        std::uint32_t kind = unknown;
    };
    struct Serial {
        std::int64_t size = -1;
        double bandwidth = 0;
        Tick time = 0;
    };
    static Tick later(Tick time, Tick by) { return time == never ? never : add(time, by); }

    // How long a message takes through a link. Few sizes and bandwidths are in use at a time.
    Tick through(std::int64_t size, double bandwidth) {
        Serial& last = serial_[static_cast<std::uint64_t>(size) * 0x9e3779b97f4a7c15ull >> 60];
        if (last.size != size || last.bandwidth != bandwidth) last = {size, bandwidth, ticks(static_cast<double>(size) / bandwidth, false)};
        return last.time;
    }

    // What is known of a link once a message has asked for it.
    Link& known(std::uint32_t number) {
        Link& link = links_[number];
        if (link.kind == unknown) {
            const LinkOf found = fabric_.link(number);
            link.landing = found.landing;
            link.kind = number_of_.try_emplace(found.kind, static_cast<std::uint32_t>(kinds_.size())).first->second;
            if (link.kind == kinds_.size()) kinds_.push_back(found.kind);
        }
        return link;
    }

    // Its next link.
    Turn take(const Flight& f, Tick now) {
        Link& link = known(f.link);
        const LinkKind& kind = kinds_[link.kind];
        const Tick work = through(f.size, kind.bandwidth), start = std::max(now, link.free);
        link.free = rates_.empty() ? add(start, work) : start == never ? never : rates_.finish(f.link, start, work);
        if (const Tick away = fabric_.gives_up(f, now, link.free); away != never) return give_up(f, link, start, away);
        const Tick serial = link.free - start;
        if (holds_) holds_->ask(f.link, now, link.free);
        if (link.free == never) return {f.link, start, serial};
        traffic_.charge(f.link, false, f.size, serial);
        if (kind.leaves_npu) traffic_.use(kind.dim, start, serial, f.at);
        return {f.link, start, serial};
    }

    // The link fails before all of the message has left: it goes another way then, as a whole.
    Turn give_up(const Flight& f, Link& link, Tick start, Tick away) {
        link.free = std::max(start, away);
        if (start < away) traffic_.charge(f.link, false, 0, away - start);
        if (start < away && kinds_[link.kind].leaves_npu) traffic_.use(kinds_[link.kind].dim, start, away - start, f.at);
        return {f.link, start, 0, away};
    }

    // One link further, in its turn: when the message is at the next device.
    Tick cross(Flight& f, const Turn& turn) const {
        const Link& link = links_[f.link];
        const LinkKind& kind = kinds_[link.kind];
        const Tick latency = kind.latency, end = add(turn.start, turn.serial);
        f.link = fabric_.after(f.link, link.landing - f.at, kind.dim), --f.left;
        f.at = f.ends_at_switch ? f.destination : link.landing, f.at_switch = kind.to_switch && !f.ends_at_switch;
        if (!cut_through_) return later(end, latency);
        f.tail = later(std::max(end, f.tail), latency);
        return f.at == f.destination ? f.tail : later(turn.start, latency);
    }

    const bool cut_through_;
    Traffic traffic_;
    const Fabric fabric_;
    const Rates rates_;
    LinkHolds* holds_ = nullptr;
    std::vector<Link> links_;
    std::vector<LinkKind> kinds_ = std::vector<LinkKind>(1);  // the first: unknown
    std::map<LinkKind, std::uint32_t> number_of_;
    std::array<Serial, 16> serial_;
};

const MediumKind kind{
    .name = "contention", .on_links = true, .takes_switches = true, .takes_graph = true, .queues = true, .open = open_on_fabric<Links>};
const Registered registered(kind);

}  // namespace
}  // namespace astrarium
