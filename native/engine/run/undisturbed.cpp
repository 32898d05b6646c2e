#include "run/undisturbed.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/slots.hpp"
#include "run/what.hpp"

namespace astrarium {
namespace {

constexpr std::uint32_t most_members = 4096;
constexpr std::size_t most_words = 1 << 24;  // of collectives that are kept
constexpr int most_runs = 8;
constexpr std::uint64_t first_gain = 1 << 22;  // events: about half a second
constexpr std::uint64_t first_look = 1 << 20;  // events, timed and handled, after which a run says how many of them were left out

// A member of a collective by itself: node 0 ends as it comes.
class OneCollective {
public:
    static Program program() {
        return {{ids, 2}, {kinds, 2}, {lanes, 2}, {zeros, 2}, {zeros, 2}, {zeros, 2}, {slots, 2}, {parents, 2}, {child_ptr, 3}, {child, 1}};
    }

private:
    static constexpr std::uint64_t ids[] = {0, 1};
    static constexpr std::uint8_t kinds[] = {static_cast<std::uint8_t>(Kind::skip), static_cast<std::uint8_t>(Kind::collective)};
    static constexpr std::int16_t lanes[] = {-1, lane_comm};
    static constexpr std::int64_t zeros[] = {0, 0};
    static constexpr std::int32_t slots[] = {-1, 0}, parents[] = {1, 1}, child_ptr[] = {0, 1, 1}, child[] = {1};
};

// Every hop and every message takes time, so that what comes within one instant is the same with and without others.
bool takes_time(const Network& network) {
    return std::all_of(network.dims.begin(), network.dims.end(),
                       [](const Dim& dim) { return dim.npus < 2 || ticks(dim.latency, false) > 0; });
}

}  // namespace

Undisturbed::Undisturbed(const Plan& plan) : plan_(plan), geometry_(plan.network), membership_(plan), groups_(plan.groups.size() + 1) {
    const MediumKind& medium = *plan.network.medium;
    const bool known = (medium.on_ports || (medium.on_links && medium.queues)) && !plan.network.graph && plan.changes.time.size == 0 &&
                       plan.reduce_bandwidth.size == 0 && takes_time(plan.network);
    for (const Collective& c : plan.collectives) able_.push_back(known && able(c));
    std::vector<std::uint8_t> used(groups_.size(), 0);
    for (std::size_t rank = 0; rank < plan.ranks() && known; ++rank) {
        const std::vector<SlotUse> uses = slots_of(plan.program(rank));
        for (std::size_t s = 0; s < uses.size(); ++s) {
            if (uses[s].kind != Kind::collective) continue;
            const std::size_t slot = static_cast<std::size_t>(plan.slot_ptr[rank]) + s;
            const std::int32_t group = plan.slot_b[slot];
            used[group < 0 ? plan.groups.size() : static_cast<std::size_t>(group)] |= able_[static_cast<std::size_t>(plan.slot_a[slot])];
        }
    }
    for (std::uint32_t g = 0; g < groups_.size(); ++g)
        if (used[g] && membership_.size(g) > 1 && membership_.size(g) <= most_members) place(g);
    if (std::none_of(groups_.begin(), groups_.end(), [](const Group& g) { return g.placed; })) throw Disturbed{};
    together_.assign(places_.size() * plan.collectives.size(), nullptr);
    all_ = static_cast<std::uint64_t>(weigh(plan, true).events);
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

// The coordinates of the machine that a dim of the small network has, in its order: groups that are moved along dims have one place. A
// message meets nobody outside of them; NPUs of a switch are all alike.
std::vector<int> Undisturbed::coordinates(const Dim& dim, const std::vector<int>& members) const {
    std::vector<int> out;
    const bool differ = std::any_of(members.begin(), members.end(), [&](int at) { return at != members[0]; });
    if (!differ) return {members[0]};
    if (dim.ends.empty() && (dim.shape == Shape::switch_ || dim.shape == Shape::fully_connected)) {
        std::vector<std::uint8_t> known(static_cast<std::size_t>(dim.npus), 0);
        for (const int at : members)
            if (!std::exchange(known[static_cast<std::size_t>(at)], 1)) out.push_back(at);
        return out;
    }
    if (dim.shape == Shape::mesh) {
        const auto [low, high] = std::minmax_element(members.begin(), members.end());
        for (int at = *low; at <= *high; ++at) out.push_back(at);
        return out;
    }
    const bool whole = !dim.ends.empty();
    for (int at = 0; at < dim.npus; ++at)
        out.push_back(whole ? at : dim.shape == Shape::hypercube ? at ^ members[0] : (at + members[0]) % dim.npus);
    return out;
}

void Undisturbed::place(std::uint32_t group) {
    Group& g = groups_[group];
    const std::uint32_t size = membership_.size(group);
    Places p;
    std::vector<std::uint32_t> ascending(size);
    std::iota(ascending.begin(), ascending.end(), 0);
    std::sort(ascending.begin(), ascending.end(),
              [&](std::uint32_t a, std::uint32_t b) { return membership_.rank(group, a) < membership_.rank(group, b); });
    p.order.resize(size), p.npus.assign(size, 0);
    for (std::uint32_t i = 0; i < size; ++i) p.order[ascending[i]] = static_cast<std::int32_t>(i);
    std::int32_t inner = 1;
    for (std::size_t d = 0; d < plan_.network.dims.size(); ++d) {
        std::vector<int> members, place(static_cast<std::size_t>(plan_.network.dims[d].npus), 0);
        for (std::uint32_t i = 0; i < size; ++i) members.push_back(geometry_.coordinate(plan_.npu_of[membership_.rank(group, i)], d));
        g.coordinates.push_back(coordinates(plan_.network.dims[d], members));
        for (std::size_t c = 0; c < g.coordinates[d].size(); ++c)
            place[static_cast<std::size_t>(g.coordinates[d][c])] = static_cast<int>(c);
        for (std::uint32_t i = 0; i < size; ++i) p.npus[i] += place[static_cast<std::size_t>(members[i])] * inner;
        p.sizes.push_back(static_cast<int>(g.coordinates[d].size()));
        inner *= p.sizes.back();
    }
    const auto [it, fresh] = numbers_.try_emplace(std::move(p), static_cast<std::uint32_t>(places_.size()));
    if (fresh) places_.push_back(&it->first);
    g.places = it->second, g.placed = true;
}

void Undisturbed::begin(BatchClock& clock, Traffic& traffic) {
    clock_ = &clock, traffic_ = &traffic, events_ = 0, before_ = measured_, next_look_ = 0, ++runs_;
    holds_.reset(2 * traffic.ports()), held_.clear();
    for (Group& g : groups_) g.open.clear();
}

void Undisturbed::gather(const Member& member, std::uint32_t collective, std::uint32_t serial) {
    auto& open = groups_[member.group].open;
    auto it = std::find_if(open.begin(), open.end(), [serial](const Gathering& g) { return g.serial == serial; });
    const std::uint32_t size = membership_.size(member.group);
    if (it == open.end())
        it = open.insert(open.end(), {serial, collective, 0, std::vector<Coming>(size), std::vector<std::uint32_t>(size, 0)});
    if (it->collective != collective) throw Disturbed{};  // a run of messages says what is wrong
    it->at[member.position] = {clock_->now, member.late}, it->node[member.position] = member.node;
    if (++it->arrived < size) return;
    const Gathering all = std::move(*it);
    open.erase(it);
    over(member.group, all);
}

// The number that a link of the small network has on the machine.
std::size_t Undisturbed::link(const Group& group, const LinkUse& use) const {
    std::int32_t npu = 0, at = use.npu;
    for (std::size_t d = 0; d < group.coordinates.size(); ++d) {
        const auto size = static_cast<std::int32_t>(group.coordinates[d].size());
        npu += group.coordinates[d][static_cast<std::size_t>(at % size)] * geometry_.stride(d);
        at /= size;
    }
    const bool per_peer = plan_.network.dims[use.dim].shape == Shape::fully_connected;
    const std::size_t port =
        traffic_->port(use.dim, npu, per_peer ? group.coordinates[use.dim][static_cast<std::size_t>(use.port)] : use.port);
    return port + (use.inward ? traffic_->ports() : 0);
}

// All members have come: when each ends.
void Undisturbed::over(std::uint32_t group, const Gathering& all) {
    const Tick first = std::min_element(all.at.begin(), all.at.end(), [](const Coming& a, const Coming& b) { return a.at < b.at; })->at;
    const Timed& t = timed(group, all, first);
    const std::uint32_t holder = holds_.add_holder();
    held_.push_back({group, all.serial, t.events});
    for (const LinkUse& use : t.links) {
        const std::size_t number = link(groups_[group], use);
        holds_.hold(number, add(first, use.from), add(first, use.until), holder);
        traffic_->charge(use.inward ? number - traffic_->ports() : number, use.inward, use.bytes, use.busy);
    }
    if (traffic_->records()) traffic_->usage.repeat(t.steps, first, 1);
    events_ += t.events;
    check_gain();
    for (std::uint32_t p = 0; p < all.at.size(); ++p) {
        const std::uint32_t rank = membership_.rank(group, p);
        Tick end = add(first, t.done[p]);
        if (end <= clock_->now) holds_.meets(holder), end = clock_->now + 1;  // before the last has come: too late to say
        const std::uint64_t key = static_cast<std::uint64_t>(rank) << 32 | all.node[p];
        clock_->at(end, t.late[p] ? BatchClock::arrive : BatchClock::done,
                   {key, 0, t.late[p] ? measured_over : node_over, rank, all.node[p]});
    }
}

// Ends a run that will not pay: hardly anything comes twice, or most collectives meet others. These are counted each time that twice as many
// are timed.
void Undisturbed::check_gain() {
    const std::uint64_t measured = measured_ - before_, run = events_ + clock_->handled;
    if (measured > std::max(first_gain, all_ / 8) && 2 * measured > events_) throw Disturbed{};
    if (held_.size() < next_look_ || (measured < first_look && run < std::max(first_look, all_ / 32))) return;
    next_look_ = 2 * held_.size();
    if (4 * left_out() < run) throw Disturbed{};
}

// Events of the timed collectives that have met no others.
std::uint64_t Undisturbed::left_out() const {
    std::uint64_t out = 0;
    for (std::size_t holder = 0; holder < held_.size(); ++holder)
        if (!holds_.met()[holder]) out += held_[holder].events;
    return out;
}

const Undisturbed::Timed& Undisturbed::timed(std::uint32_t group, const Gathering& all, Tick first) {
    const std::uint32_t places = groups_[group].places;
    std::vector<Coming> comings;
    bool together = true, early = false;
    for (const Coming& c : all.at) together = together && c.at == first, early = early || (c.at == first && !c.late);
    for (const Coming& c : all.at) comings.push_back({c.at - first, c.late && (early || c.at > first)});  // nobody is late if all are
    together = together && std::none_of(comings.begin(), comings.end(), [](const Coming& c) { return c.late; });
    const Timed** const known = &together_[places * plan_.collectives.size() + all.collective];
    if (together && *known) return **known;
    std::vector<std::int64_t> key{places, all.collective};
    for (const Coming& c : comings) key.push_back(2 * c.at + c.late);
    auto it = timed_.find(key);
    if (it == timed_.end()) {
        if (kept_ > most_words) timed_.clear(), together_.assign(together_.size(), nullptr), kept_ = 0;
        Timed found = measure(*places_[places], plan_.collectives[all.collective], comings);
        measured_ += found.events;
        kept_ += 2 * key.size() + 8 * found.links.size() + 3 * found.steps.size();
        it = timed_.emplace(std::move(key), std::move(found)).first;
    }
    if (together) *known = &it->second;
    return it->second;
}

// Members as ranks in the order of their numbers, as ties go by rank; the group has its own order.
Undisturbed::Timed Undisturbed::measure(const Places& places, const Collective& collective, const std::vector<Coming>& comings) const {
    const std::size_t size = comings.size();
    Plan small;
    small.network = plan_.network, small.policy = plan_.policy, small.npus = 1;
    for (std::size_t d = 0; d < places.sizes.size(); ++d) {
        Dim& dim = small.network.dims[d];
        if (dim.npus != places.sizes[d]) dim.npus = places.sizes[d], dim.blocks.clear();
        small.npus *= dim.npus;
    }
    small.collectives.push_back(collective);
    small.programs.push_back(OneCollective::program());
    std::vector<std::int32_t> npu_of(size), zeros(size, 0);
    std::vector<std::int64_t> slot_ptr(size + 1);
    std::vector<Coming> by_rank(size);
    std::iota(slot_ptr.begin(), slot_ptr.end(), 0);
    for (std::size_t p = 0; p < size; ++p) {
        const auto rank = static_cast<std::size_t>(places.order[p]);
        by_rank[rank] = comings[p], npu_of[rank] = places.npus[p];
    }
    small.groups.push_back({places.order.data(), size});
    small.program_of = {zeros.data(), size}, small.npu_of = {npu_of.data(), size}, small.slot_ptr = {slot_ptr.data(), size + 1};
    small.slot_a = small.slot_b = small.slot_c = {zeros.data(), size};
    const AloneOnLinks alone = run_alone_on_links(small, by_rank);
    if (alone.done.empty()) throw Disturbed{};
    Timed out;
    for (std::size_t p = 0; p < size; ++p) {
        const auto rank = static_cast<std::size_t>(places.order[p]);
        out.done.push_back(alone.done[rank]), out.late.push_back(alone.late[rank]);
    }
    out.steps = alone.steps, out.events = alone.events;
    const Outcome& t = alone.traffic;
    for (std::size_t k = 0; k < t.link_dim.size(); ++k) {
        const bool inward = t.link_from[k] < 0;
        out.links.push_back({static_cast<std::size_t>(t.link_dim[k]), inward ? t.link_to[k] : t.link_from[k], t.link_port[k], inward,
                             t.link_bytes[k], t.link_busy[k], alone.windows[k].from, alone.windows[k].until});
    }
    return out;
}

bool Undisturbed::exact() const {
    return std::none_of(holds_.met().begin(), holds_.met().end(), [](std::uint8_t met) { return met != 0; });
}

bool Undisturbed::worth_another(std::uint64_t handled) {
    for (std::size_t holder = 0; holder < held_.size(); ++holder) {
        if (!holds_.met()[holder]) continue;
        const Held& held = held_[holder];
        auto& all = groups_[held.group].met;
        if (all.size() <= held.serial) all.resize(held.serial + std::size_t{1}, false);
        all[held.serial] = true;
    }
    return runs_ < most_runs && 2 * left_out() >= events_ + handled;
}

}  // namespace astrarium
