#include "run/undisturbed.hpp"

#include <numeric>
#include <utility>

#include "plan/slots.hpp"
#include "run/what.hpp"

namespace astrarium {
namespace {

constexpr std::uint32_t most_members = 4096;  // of a collective or a bundle
constexpr int most_runs = 8, bundling_runs = 4;
constexpr std::uint64_t first_gain = 1 << 22;  // events: about half a second
constexpr std::uint64_t first_look = 1 << 20;  // events, timed and handled, after which a run says how many of them were left out

// Every hop and every message takes time, so that what comes within one instant is the same with and without others.
bool takes_time(const Network& network) {
    return std::all_of(network.dims.begin(), network.dims.end(),
                       [](const Dim& dim) { return dim.npus < 2 || ticks(dim.latency, false) > 0; });
}

// Of sets that are joined: the leader of a set leads itself.
std::uint32_t leader_of(std::vector<std::uint32_t>& leaders, std::uint32_t one) {
    while (leaders[one] != one) one = leaders[one] = leaders[leaders[one]];
    return one;
}

void join(std::vector<std::uint32_t>& leaders, std::uint32_t one, std::uint32_t other) {
    leaders[leader_of(leaders, one)] = leader_of(leaders, other);
}

}  // namespace

Undisturbed::Undisturbed(const Plan& plan) : plan_(plan), membership_(plan), times_(plan), groups_(plan.groups.size() + 1) {
    const MediumKind& medium = *plan.network.medium;
    const bool known = (medium.on_ports || (medium.on_links && medium.queues)) && !plan.network.graph && plan.changes.time.size == 0 &&
                       plan.reduce_bandwidth.size == 0 && takes_time(plan.network);
    for (const Collective& c : plan.collectives) able_.push_back(known && able(c));
    if (!known) throw Disturbed{"they cannot be on this network"};
    std::vector<std::uint8_t> used(groups_.size(), 0);
    const std::vector<std::uint32_t> party = parties(used);
    for (std::uint32_t g = 0; g < groups_.size(); ++g) {
        const std::uint32_t size = membership_.size(g);
        if (!used[g] || size < 2 || size > most_members) continue;
        std::vector<AloneTimes::Member> members;
        for (std::uint32_t p = 0; p < size; ++p) members.push_back({membership_.rank(g, p), 0});
        groups_[g].place = times_.place({members}), groups_[g].placed = true, groups_[g].party = party[membership_.rank(g, 0)];
    }
    if (std::none_of(groups_.begin(), groups_.end(), [](const Group& g) { return g.placed; })) throw Disturbed{"none can be"};
    all_ = static_cast<std::uint64_t>(weigh(plan, true).events);
}

// By rank: one of those with which it shares groups and messages, directly or not. Notes groups whose collectives can be timed.
std::vector<std::uint32_t> Undisturbed::parties(std::vector<std::uint8_t>& used) const {
    std::vector<std::uint32_t> leaders(plan_.ranks());
    std::iota(leaders.begin(), leaders.end(), 0);
    std::vector<std::uint8_t> joined(groups_.size(), 0);
    for (std::uint32_t rank = 0; rank < plan_.ranks(); ++rank) {
        const std::vector<SlotUse> uses = slots_of(plan_.program(rank));
        for (std::size_t s = 0; s < uses.size(); ++s) {
            const std::size_t slot = static_cast<std::size_t>(plan_.slot_ptr[rank]) + s;
            if (uses[s].kind == Kind::send) join(leaders, rank, static_cast<std::uint32_t>(plan_.slot_a[slot]));
            if (uses[s].kind != Kind::collective) continue;
            const std::int32_t number = plan_.slot_b[slot];
            const std::uint32_t group = number < 0 ? membership_.all() : static_cast<std::uint32_t>(number);
            used[group] |= able_[static_cast<std::size_t>(plan_.slot_a[slot])];
            if (std::exchange(joined[group], 1)) continue;
            for (std::uint32_t p = 0; p < membership_.size(group); ++p) join(leaders, rank, membership_.rank(group, p));
        }
    }
    for (std::uint32_t rank = 0; rank < plan_.ranks(); ++rank) leaders[rank] = leader_of(leaders, rank);
    return leaders;
}

// Its messages take time, and its links show what it used.
bool Undisturbed::able(const Collective& c) const {
    if (c.custom || c.lasts || c.in_switch || c.meets || c.total_chunks < 1 || c.max_phases < 1) return false;
    const auto& dims = plan_.network.dims;
    const double fastest =
        std::max_element(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.bandwidth < b.bandwidth; })->bandwidth;
    for (const Chunk& chunk : c.chunks)
        for (const Phase& phase : chunk.phases) {
            if (phase.n < 2) continue;
            if (!phase.schedule || ticks(static_cast<double>(phase.block_size) / fastest, false) == 0) return false;
            const auto& blocks = phase.schedule->send_block_ptr;
            if (std::adjacent_find(blocks.begin(), blocks.end()) != blocks.end()) return false;  // a message without bytes
        }
    return true;
}

void Undisturbed::begin(BatchClock& clock, Traffic& traffic) {
    clock_ = &clock, traffic_ = &traffic, events_ = 0, before_ = measured(), next_look_ = 0, ++runs_;
    holds_.reset(2 * traffic.ports()), held_.clear(), pairs_.clear();
    for (Group& g : groups_) g.open.clear();
    for (Bundle& b : bundles_) b.complete.clear(), b.arrived = 0, b.parted = false;
}

void Undisturbed::gather(const Member& member, std::uint32_t collective, std::uint32_t serial) {
    Group& group = groups_[member.group];
    auto& open = group.open;
    auto it = std::find_if(open.begin(), open.end(), [serial](const Gathering& g) { return g.number.serial == serial; });
    const std::uint32_t size = membership_.size(member.group);
    if (it == open.end())
        it = open.insert(open.end(),
                         {{member.group, serial}, collective, 0, std::vector<Coming>(size), std::vector<std::uint32_t>(size, nothing)});
    if (it->collective != collective) throw Disturbed{"members of a group issue different ones"};  // a run of messages says so
    it->at[member.position] = {clock_->now, member.late}, it->node[member.position] = member.node;
    if (++it->arrived < size) return;
    Gathering all = std::move(*it);
    open.erase(it);
    const std::uint32_t mode = group.mode(serial);
    if (mode == by_itself) return over_alone(std::move(all));
    Bundle& bundle = bundles_[mode - first_bundle];
    if (bundle.parted) return over_alone(std::move(all)), holds_.meets(static_cast<std::uint32_t>(held_.size() - 1));
    const auto at = std::lower_bound(bundle.collectives.begin(), bundle.collectives.end(), all.number) - bundle.collectives.begin();
    bundle.complete.resize(bundle.collectives.size());
    bundle.complete[static_cast<std::size_t>(at)] = std::move(all);
    if (++bundle.arrived < bundle.collectives.size()) return;
    const std::vector<Gathering> complete = std::move(bundle.complete);
    over(complete, place_of(complete));
}

bool Undisturbed::part_bundles() {
    bool any = false;
    for (Bundle& bundle : bundles_) {
        if (bundle.arrived == 0 || bundle.arrived == bundle.collectives.size() || std::exchange(bundle.parted, true)) continue;
        any = true;
        for (Gathering& each : bundle.complete)
            if (each.arrived > 0) over_alone(std::move(each)), holds_.meets(static_cast<std::uint32_t>(held_.size() - 1));
    }
    return any;
}

void Undisturbed::over_alone(Gathering all) {
    const AloneTimes::Place& place = groups_[all.number.group].place;
    std::vector<Gathering> one;
    one.push_back(std::move(all));
    over(one, place);
}

AloneTimes::Place Undisturbed::place_of(const std::vector<Gathering>& all) {
    std::vector<std::uint32_t> key;
    for (const Gathering& each : all) key.push_back(each.number.group);
    const auto known = places_.find(key);
    if (known != places_.end()) return known->second;
    std::vector<std::vector<AloneTimes::Member>> members;
    std::vector<std::uint32_t> ranks;
    for (const Gathering& each : all) {
        members.emplace_back();
        for (std::uint32_t p = 0; p < each.at.size(); ++p) {
            ranks.push_back(membership_.rank(each.number.group, p));
            members.back().push_back({ranks.back(), each.node[p]});
        }
    }
    std::sort(ranks.begin(), ranks.end());
    AloneTimes::Place place = times_.place(members);
    const bool apart = std::adjacent_find(ranks.begin(), ranks.end()) == ranks.end();  // else the nodes count
    return apart ? places_.emplace(std::move(key), std::move(place)).first->second : place;
}

// All members of a collective or of a bundle have come: when each ends.
void Undisturbed::over(const std::vector<Gathering>& all, const AloneTimes::Place& place) {
    Tick first = never;
    std::vector<std::uint32_t> collectives;
    std::vector<Number> numbers;
    std::vector<Coming> comings;
    for (const Gathering& each : all) {
        collectives.push_back(each.collective), numbers.push_back(each.number);
        for (const Coming& c : each.at) comings.push_back(c), first = std::min(first, c.at);
    }
    const bool early = std::any_of(comings.begin(), comings.end(), [first](const Coming& c) { return c.at == first && !c.late; });
    for (Coming& c : comings) c = {c.at - first, c.late && (early || c.at > first)};  // nobody is late if all are
    const AloneTimes::Timed* const t = times_.timed(place, collectives, comings);
    if (!t) throw Disturbed{"one does not end"};
    const std::uint32_t holder = holds_.add_holder();
    held_.push_back({std::move(numbers), t->events, add(first, *std::min_element(t->done.begin(), t->done.end()))});
    for (const AloneTimes::LinkUse& use : t->links) {
        const std::size_t link = times_.link(place, use, *traffic_);
        holds_.hold(link, add(first, use.from), add(first, use.until), holder);
        traffic_->charge(use.inward ? link - traffic_->ports() : link, use.inward, use.bytes, use.busy);
    }
    if (traffic_->records()) traffic_->usage.add(t->use, first);
    events_ += t->events;
    meet_holders();
    check_gain();
    end(all, *t, first, holder);
}

void Undisturbed::end(const std::vector<Gathering>& all, const AloneTimes::Timed& t, Tick first, std::uint32_t holder) {
    std::size_t member = 0;
    for (const Gathering& each : all)
        for (std::uint32_t p = 0; p < each.at.size(); ++p, ++member) {
            const std::uint32_t rank = membership_.rank(each.number.group, p);
            Tick end = add(first, t.done[member]);
            if (end <= clock_->now) holds_.meets(holder), end = clock_->now + 1;  // before the last has come: too late to say
            const std::uint64_t key = static_cast<std::uint64_t>(rank) << 32 | each.node[p];
            clock_->at(end, t.late[member] ? BatchClock::arrive : BatchClock::done,
                       {key, 0, t.late[member] ? measured_over : node_over, rank, each.node[p]});
        }
}

// Holders that the last one meets can be in one bundle with it where none of them ends before it has come. What ranks of different
// parties do together hardly ever comes again.
void Undisturbed::meet_holders() {
    const auto party = [this](std::uint32_t holder) { return groups_[held_[holder].collectives[0].group].party; };
    std::vector<LinkHolds::Pair> pairs = holds_.take_pairs();  // one for each link
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    for (const LinkHolds::Pair& pair : pairs) {
        const auto [earlier, later] = pair;
        if (runs_ <= bundling_runs && party(earlier) == party(later) && held_[earlier].first_end > clock_->now) pairs_.push_back(pair);
        else holds_.meets(earlier), holds_.meets(later);
    }
}

// Ends a run that will not pay: hardly anything comes twice, or most collectives meet messages. These are counted each time that twice as
// many are timed.
void Undisturbed::check_gain() {
    const std::uint64_t measured = this->measured() - before_, run = events_ + clock_->handled;
    if (measured > std::max(first_gain, all_ / 8) && 2 * measured > events_) throw Disturbed{"hardly any comes twice"};
    const bool early =
        runs_ > 1 ? clock_->handled < expected_ + expected_ / 2 : measured < first_look && run < std::max(first_look, all_ / 32);
    if (held_.size() < next_look_ || early) return;
    next_look_ = 2 * held_.size();
    if (4 * left_out() < run) throw Disturbed{"most of what is simulated meets other traffic"};
}

// Events of what was timed and met no messages.
std::uint64_t Undisturbed::left_out() const {
    std::uint64_t out = 0;
    for (std::size_t holder = 0; holder < held_.size(); ++holder)
        if (!holds_.met()[holder]) out += held_[holder].events;
    return out;
}

void Undisturbed::set_mode(const std::vector<Number>& collectives, std::uint32_t mode) {
    for (const Number& each : collectives) {
        auto& modes = groups_[each.group].modes;
        if (modes.size() <= each.serial) modes.resize(each.serial + std::size_t{1}, by_itself);
        modes[each.serial] = mode;
    }
}

bool Undisturbed::exact() const {
    return pairs_.empty() && std::none_of(holds_.met().begin(), holds_.met().end(), [](std::uint8_t met) { return met != 0; });
}

std::string Undisturbed::found() const {
    std::vector<std::uint8_t> met = holds_.met();
    for (const auto& [one, other] : pairs_) met[one] = met[other] = 1;
    return "collectives timed alone, run " + std::to_string(runs_) + ": " +
           std::to_string(std::count_if(met.begin(), met.end(), [](std::uint8_t each) { return each != 0; })) + " of " +
           std::to_string(met.size()) + " met other traffic";
}

// What met messages, and what met that, are messages; of the others those that met each other are a bundle.
bool Undisturbed::worth_another(std::uint64_t handled) {
    const std::uint64_t good = left_out();
    expected_ = events_ + handled - good;
    std::vector<std::uint8_t> sends = holds_.met();
    for (const auto& [one, other] : pairs_)
        if (holds_.met()[one] || holds_.met()[other]) sends[one] = sends[other] = 1;
    std::vector<std::uint32_t> leaders(held_.size());
    std::iota(leaders.begin(), leaders.end(), 0);
    for (const auto& [one, other] : pairs_)
        if (!sends[one] && !sends[other]) join(leaders, one, other);
    std::map<std::uint32_t, std::vector<std::uint32_t>> sets;  // holders by their leader
    for (std::uint32_t holder = 0; holder < held_.size(); ++holder) {
        if (sends[holder]) set_mode(held_[holder].collectives, as_messages);
        else sets[leader_of(leaders, holder)].push_back(holder);
    }
    for (const auto& [leader, holders] : sets)
        if (holders.size() > 1) bundle(holders);
    return runs_ < most_runs && good >= expected_;
}

void Undisturbed::bundle(const std::vector<std::uint32_t>& holders) {
    std::size_t members = 0;
    std::vector<Number> all;
    for (const std::uint32_t holder : holders)
        for (const Number& each : held_[holder].collectives) all.push_back(each), members += membership_.size(each.group);
    if (members > most_members) return set_mode(all, as_messages);
    std::sort(all.begin(), all.end());
    set_mode(all, first_bundle + static_cast<std::uint32_t>(bundles_.size()));
    bundles_.push_back({std::move(all), {}, 0});
}

}  // namespace astrarium
