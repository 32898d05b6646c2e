// fluid: each message draws on all links of its way at once, at max-min fair rates that change as others come and go; its bytes arrive
// the latency of all links after they left. With the same integers: astrarium.oracle.flows.
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <unordered_map>

#include "media/activities.hpp"
#include "media/fabric.hpp"

namespace astrarium {
namespace {

__extension__ typedef __int128 Wide;

std::int64_t parts_per_ps(double bandwidth) {
    return static_cast<std::int64_t>(std::nearbyint(bandwidth / 1000 * static_cast<double>(Activities::unit)));
}

void check(const Network& network) {
    const auto one = [](double bandwidth) {
        if (!(bandwidth >= 1e-6 && bandwidth <= 1e9)) throw Unsupported("flows over links of less than 1e-6 or more than 1e9 bytes per ns");
    };
    if (network.graph)
        for (const double bandwidth : network.graph->bandwidth) one(bandwidth);
    else
        for (const Dim& dim : network.dims) {
            one(dim.bandwidth);
            for (const Speed& end : dim.ends) one(end.bandwidth);
        }
}

constexpr std::int64_t whole_link = std::int64_t{1} << 30;  // parts of a busy link of a graph, whatever its bandwidth

template <class Fabric>
class Flows final : public Medium {
public:
    Flows(const Plan& plan, bool record, Carried& run)
        : network_(plan.network), npus_(plan.npus), run_(run), traffic_(plan.network, PortRows::each(plan), record),
          fabric_(plan, traffic_), rates_(link_rates(plan, fabric_)), changes_(rates_.changes()) {
        if (record) count_use();
    }

    void ask(MessageId id, Tick now) override {
        Flight flight = run_.flight(id);
        if (std::max(flight.source, flight.destination) >= npus_ && !takes_turn(id, flight)) return;
        if (under_way_.now() != now) run_to(now);
        Activities::Resources drawn;
        fabric_.go_to(now);
        while (flight.at != flight.destination) {
            const Hop hop = fabric_.next(flight);
            flight.at = hop.landing, flight.at_switch = hop.to_switch;
            drawn.push_back(resource(hop));
        }
        under_way_.start(flight.size, std::move(drawn), id);
        look(now);
    }

    // What goes to a switch that computes, or comes from there, goes one after the other.
    bool takes_turn(MessageId id, const Flight& flight) {
        const auto [at, fresh] = turns_.try_emplace({flight.source, flight.destination}, Turns{id, {}});
        if (!fresh && at->second.first != id) at->second.waiting.push_back(id);
        return at->second.first == id;
    }

    void wake(std::uint32_t what, Tick now) override {
        if (what == end) return run_to(now);
        looked_at_ = false;
        Tick next = under_way_.next_time();
        if (changed_ < changes_.size() && !under_way_.idle()) next = std::min(next, changes_[changed_].first);
        if (next >= due_) return;
        due_ = next;
        run_.wake(end, next, Carried::Turn::before);
    }

    Traffic* traffic() override { return &traffic_; }
    std::vector<std::string> waits(Tick, std::uint64_t) const override {
        return links_that_stand(fabric_, rates_, [this](std::size_t number) {
            const auto known = resource_of_.find(number);
            return known != resource_of_.end() && under_way_.drawn(known->second);
        });
    }

private:
    enum What : std::uint32_t { share, end };
    struct Link {
        Hop hop;
        Tick latency;
        std::int64_t parts;  // per ps
    };

    std::uint32_t resource(const Hop& hop) {
        const auto [at, fresh] = resource_of_.try_emplace(hop.number, 0);
        if (fresh) {
            links_.push_back({hop, fabric_.latency(hop), parts_per_ps(fabric_.bandwidth(hop))});
            at->second = under_way_.add_resource(capacity(links_.back()));
        }
        return at->second;
    }

    std::int64_t capacity(const Link& link) const {
        return rates_.empty() ? link.parts : Rates::parts(link.parts, rates_.speed(link.hop.number, run_.now()));
    }

    // Links are from now on as they have become since.
    void change(Tick now) {
        for (; changed_ < changes_.size() && changes_[changed_].first <= now; ++changed_)
            if (const auto known = resource_of_.find(changes_[changed_].second); known != resource_of_.end())
                under_way_.set_capacity(known->second, capacity(links_[known->second]));
    }

    void count_use() {
        std::vector<std::int64_t> whole;
        for (const Dim& dim : network_.dims) whole.push_back(parts_per_ps(dim.bandwidth));
        if (network_.graph) whole.assign(1, whole_link);
        traffic_.usage.count_parts(whole);
        under_way_ = Activities([this, whole](const Activities::Resources& drawn, Tick from, Tick to, std::int64_t rate) {
            for (const std::uint32_t resource : drawn)
                if (const Link& link = links_[resource]; link.hop.leaves_npu) {
                    const std::int64_t parts = whole[link.hop.dim];
                    traffic_.usage.add(
                        link.hop.dim, from, to - from,
                        parts == link.parts ? rate : static_cast<std::int64_t>(static_cast<Wide>(rate) * parts / link.parts));
                }
        });
    }

    void run_to(Tick now) {
        if (due_ == now) due_ = never;
        under_way_.advance(now, [this, now](MessageId id, const Activities::Resources& links) { end_flow(id, links, now); });
        change(now);
        look(now);
    }

    // The last byte has left: it arrives after the latency of all links.
    void end_flow(MessageId id, const Activities::Resources& drawn, Tick now) {
        const Flight& flight = run_.flight(id);
        const std::int64_t size = flight.size;
        if (std::max(flight.source, flight.destination) >= npus_) end_turn({flight.source, flight.destination}, now);
        Tick arrives = now;
        for (const std::uint32_t resource : drawn) {
            const Link& link = links_[resource];
            arrives = add(arrives, link.latency);
            traffic_.charge(link.hop.number, false, size, static_cast<Tick>(static_cast<Wide>(size) * Activities::unit / link.parts));
        }
        run_.deliver(id, arrives);
    }

    void end_turn(std::pair<std::int32_t, std::int32_t> ends, Tick now) {
        Turns& turns = turns_.at(ends);
        if (turns.waiting.empty()) return void(turns_.erase(ends));
        turns.first = turns.waiting.front();
        turns.waiting.pop_front();
        run_.ask_again(turns.first, now);
    }

    // Once an instant, after all that begins and ends in it: when is the next end?
    void look(Tick now) {
        if (looked_at_) return;
        looked_at_ = true;
        run_.wake(share, now, Carried::Turn::end);
    }

    struct Turns {  // of messages between an NPU and a switch that computes: the one under way, and those behind it
        MessageId first;
        std::deque<MessageId> waiting;
    };
    const Network& network_;
    const std::int32_t npus_;
    std::map<std::pair<std::int32_t, std::int32_t>, Turns> turns_;
    Carried& run_;
    Traffic traffic_;
    const Fabric fabric_;
    Activities under_way_;
    std::vector<Link> links_;                                     // of the resources
    std::unordered_map<std::size_t, std::uint32_t> resource_of_;  // per link
    const Rates rates_;
    const std::vector<std::pair<Tick, std::size_t>> changes_;  // of links, in order of time: those before `changed_` are over
    std::size_t changed_ = 0;
    Tick due_ = never;  // the earliest look at ends that is scheduled
    bool looked_at_ = false;
};

const MediumKind kind{.name = "fluid",
                      .takes_switches = true,
                      .takes_graph = true,
                      .never_folds = "flows share links",
                      .check = check,
                      .open = open_on_fabric<Flows>};
const Registered registered(kind);

}  // namespace
}  // namespace astrarium
