// fluid: a message leaves its source over its first link, after those that asked for that link before, and crosses the links behind it,
// after those of the same two ends, at rates that change as others come and go (media/shares). Its last byte arrives the latency of all links
// after it left the last of them. With the same integers: astrarium.oracle.flows.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "media/fabric.hpp"
#include "media/shares.hpp"

namespace astrarium {
namespace {

__extension__ typedef __int128 Wide;

std::int64_t parts_per_ps(double bandwidth) {
    return static_cast<std::int64_t>(std::nearbyint(bandwidth / 1000 * static_cast<double>(Shares::unit)));
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
constexpr std::uint32_t no_number = 0xffffffffu;

template <class Fabric>
class Flows final : public Medium {
public:
    Flows(const Plan& plan, bool record, Carried& run)
        : network_(plan.network), run_(run), traffic_(plan.network, PortRows::each(plan), record), fabric_(plan, traffic_),
          shares_(record ? count_use() : nullptr), known_(fabric_.links(), no_number), rates_(link_rates(plan, fabric_)),
          changes_(rates_.changes()) {}

    void ask(MessageId id, Tick now) override {
        const Flight& flight = run_.flight(id);
        if (flight.source == flight.destination) return run_.deliver(id, now);
        if (shares_.now() != now) run_to(now);
        begin(id, now);
        look(now);
    }

    void wake(std::uint32_t what, Tick now) override {
        if (what == end) return run_to(now);
        looked_at_ = false;
        Tick next = shares_.next_time();
        if (changed_ < changes_.size() && !shares_.idle()) next = std::min(next, changes_[changed_].first);
        if (next >= due_) return;
        due_ = next;
        run_.wake(end, next, Carried::Turn::before);
    }

    std::size_t first_link(const Flight& flight) const override { return fabric_.next(flight).number; }
    Traffic* traffic() override { return &traffic_; }
    std::vector<std::string> waits(Tick, std::uint64_t) const override {
        return links_that_stand(fabric_, rates_,
                                [this](std::size_t number) { return known_[number] != no_number && shares_.used(known_[number]); });
    }

private:
    enum What : std::uint32_t { share, end };
    struct Link {
        Hop hop;
        Tick latency;
        std::int64_t parts;  // per ps
        bool busy = false;   // a message leaves over it
        std::size_t next = 0;
        std::vector<MessageId> waiting{};  // from `next` on
    };
    struct UnderWay {  // by the number that the shares have for it
        MessageId id = 0;
        Tick latency = 0;
        std::uint64_t ends = 0;            // its source and destination
        std::uint32_t behind = no_number;  // the message that crosses after it
    };

    std::uint32_t link(const Hop& hop) {
        std::uint32_t& known = known_[hop.number];
        if (known == no_number) {
            links_.push_back({hop, fabric_.latency(hop), parts_per_ps(fabric_.bandwidth(hop))});
            known = shares_.add_link(capacity(links_.back()));
        }
        return known;
    }

    std::int64_t capacity(const Link& link) const {
        return rates_.empty() ? link.parts : Rates::parts(link.parts, rates_.speed(link.hop.number, run_.now()));
    }

    // Links are from now on as they have become since.
    void change(Tick now) {
        for (; changed_ < changes_.size() && changes_[changed_].first <= now; ++changed_)
            if (const std::uint32_t known = known_[changes_[changed_].second]; known != no_number)
                shares_.set_capacity(known, capacity(links_[known]));
    }

    Shares::Spent count_use() {
        std::vector<std::int64_t> whole;
        for (const Dim& dim : network_.dims) whole.push_back(parts_per_ps(dim.bandwidth));
        if (network_.graph) whole.assign(1, whole_link);
        traffic_.usage.count_parts(whole);
        return [this, whole](std::uint32_t number, Tick from, Tick to, std::int64_t rate) {
            const Link& link = links_[number];
            if (!link.hop.leaves_npu) return;
            const std::int64_t parts = whole[link.hop.dim];
            traffic_.usage.add(link.hop.dim, from, to - from,
                               parts == link.parts ? rate : static_cast<std::int64_t>(static_cast<Wide>(rate) * parts / link.parts));
        };
    }

    // It leaves, or waits for the first link of its route, which is that of now.
    void begin(MessageId id, Tick now) {
        fabric_.go_to(now);
        Link& first = links_[link(fabric_.next(run_.flight(id)))];
        if (first.busy) return first.waiting.push_back(id);
        first.busy = true;
        leave(id);
    }

    void leave(MessageId id) {
        Flight f = run_.flight(id);
        Tick latency = 0;
        way_.clear();
        while (f.at != f.destination) {
            const Hop hop = fabric_.next(f);
            f.at = hop.landing, f.at_switch = hop.to_switch;
            way_.push_back(link(hop));
            latency = add(latency, links_[way_.back()].latency);
        }
        const std::uint32_t number = shares_.leave(f.size, way_);
        if (number == under_way_.size()) under_way_.emplace_back();
        const std::uint64_t ends = std::uint64_t{static_cast<std::uint32_t>(f.source)} << 32 | static_cast<std::uint32_t>(f.destination);
        under_way_[number] = {id, latency, ends};
        if (way_.size() == 1) return;
        const auto [last, first] = last_.try_emplace(ends, number);
        if (first) return shares_.cross(number);
        under_way_[std::exchange(last->second, number)].behind = number;
    }

    void run_to(Tick now) {
        if (due_ == now) due_ = never;
        shares_.advance(
            now, [this, now](std::uint32_t number) { has_left(number, now); },
            [this, now](std::uint32_t number) { has_crossed(number, now); });
        change(now);
        look(now);
    }

    // The next one leaves: that of the same sender, where it was not made yet, before what waits. What waited may have another route by now.
    void has_left(std::uint32_t number, Tick now) {
        const Shares::Way& way = shares_.way(number);
        const std::uint32_t first = way[0].link;
        const MessageId follower = run_.follow(under_way_[number].id);
        if (way.size() == 1) arrive(number, now);
        links_[first].busy = false;
        if (follower != Carried::no_message) begin(follower, now);
        while (!links_[first].busy && links_[first].next < links_[first].waiting.size()) {
            Link& link = links_[first];
            const MessageId next = link.waiting[link.next];
            if (++link.next == link.waiting.size()) link.waiting.clear(), link.next = 0;
            begin(next, now);
        }
    }

    void has_crossed(std::uint32_t number, Tick now) {
        const UnderWay ended = under_way_[number];
        if (ended.behind != no_number) shares_.cross(ended.behind);
        else last_.erase(ended.ends);
        arrive(number, now);
    }

    // The last byte has left the last link.
    void arrive(std::uint32_t number, Tick now) {
        const UnderWay& ended = under_way_[number];
        const std::int64_t size = run_.flight(ended.id).size;
        if (traffic_.records())
            for (const Shares::Step& step : shares_.way(number)) {
                const Link& link = links_[step.link];
                traffic_.charge(link.hop.number, false, size, static_cast<Tick>(static_cast<Wide>(size) * Shares::unit / link.parts));
            }
        run_.deliver(ended.id, add(now, ended.latency));
        shares_.end(number);
    }

    // Once an instant, after all that begins and ends in it: when is the next end?
    void look(Tick now) {
        if (looked_at_) return;
        looked_at_ = true;
        run_.wake(share, now, Carried::Turn::end);
    }

    const Network& network_;
    Carried& run_;
    Traffic traffic_;
    const Fabric fabric_;
    Shares shares_;
    std::vector<Link> links_;           // that messages took
    std::vector<std::uint32_t> known_;  // of these, by number in the fabric
    std::vector<UnderWay> under_way_;
    std::unordered_map<std::uint64_t, std::uint32_t> last_;  // per two ends: the last message under way that crosses links
    std::vector<std::uint32_t> way_;
    const Rates rates_;
    const std::vector<std::pair<Tick, std::size_t>> changes_;  // of links, in order of time: those before `changed_` are over
    std::size_t changed_ = 0;
    Tick due_ = never;  // the earliest look at ends that is scheduled
    bool looked_at_ = false;
};

const MediumKind kind{.name = "fluid",
                      .takes_switches = true,
                      .takes_graph = true,
                      .pulls = [](const Network&) { return true; },
                      .never_folds = "flows share links",
                      .check = check,
                      .open = open_on_fabric<Flows>};
const Registered registered(kind);

}  // namespace
}  // namespace astrarium
