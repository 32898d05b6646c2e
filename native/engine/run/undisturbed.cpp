#include "run/undisturbed.hpp"

#include <algorithm>
#include <numeric>

#include "fold/timers/arrivals.hpp"
#include "plan/slots.hpp"
#include "run/what.hpp"

namespace astrarium {
namespace {

constexpr std::uint32_t most_members = 4096;
constexpr std::size_t most_words = 1 << 24;  // of collectives that are kept
constexpr int most_runs = 3;
constexpr std::uint64_t first_look = 1 << 20, first_gain = 1 << 22;  // events: about 0.1 s and half a second

}  // namespace

Undisturbed::Undisturbed(const Plan& plan) : plan_(plan), geometry_(plan.network), membership_(plan), groups_(plan.groups.size() + 1) {
    const bool known = plan.network.medium->on_links && plan.network.medium->queues && !plan.network.graph && plan.changes.time.size == 0 && plan.reduce_bandwidth.size == 0;
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
    if (std::none_of(groups_.begin(), groups_.end(), [](const Group& g) { return g.timed; })) throw Disturbed{};
    together_.assign(places_.size() * plan.collectives.size(), nullptr);
}

// Every message takes time, so that what comes within one instant is the same with and without others; and its links show what it used.
bool Undisturbed::able(const Collective& c) const {
    if (c.custom || c.lasts || c.in_switch || c.total_chunks < 1 || c.max_phases < 1) return false;
    const auto& dims = plan_.network.dims;
    const double fastest = std::max_element(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.bandwidth < b.bandwidth; })->bandwidth;
    for (const Chunk& chunk : c.chunks)
        for (const Phase& phase : chunk.phases) {
            if (phase.n < 2) continue;
            if (!phase.schedule || ticks(static_cast<double>(phase.block_size) / fastest, false) == 0) return false;
            const auto& blocks = phase.schedule->send_block_ptr;
            if (std::adjacent_find(blocks.begin(), blocks.end()) != blocks.end()) return false;  // a message without bytes
        }
    return true;
}

void Undisturbed::place(std::uint32_t group) {
    Group& g = groups_[group];
    const std::uint32_t size = membership_.size(group);
    const std::int32_t first = plan_.npu_of[membership_.rank(group, 0)];
    Places p;
    std::vector<std::uint32_t> ascending(size);
    std::iota(ascending.begin(), ascending.end(), 0);
    std::sort(ascending.begin(), ascending.end(), [&](std::uint32_t a, std::uint32_t b) { return membership_.rank(group, a) < membership_.rank(group, b); });
    p.order.resize(size), p.npus.assign(size, 0);
    for (std::uint32_t i = 0; i < size; ++i) p.order[ascending[i]] = static_cast<std::int32_t>(i);
    g.npus.assign(1, first);
    for (std::size_t d = 0; d < plan_.network.dims.size(); ++d) {
        const int at = geometry_.coordinate(first, d), inner = static_cast<int>(g.npus.size());
        bool differ = false;
        for (std::uint32_t i = 0; i < size; ++i) {
            const int coordinate = geometry_.coordinate(plan_.npu_of[membership_.rank(group, i)], d);
            differ = differ || coordinate != at;
            p.npus[i] += coordinate * inner;
        }
        p.sizes.push_back(differ ? plan_.network.dims[d].npus : 1);
        if (!differ) {
            for (std::int32_t& npu : p.npus) npu -= at * inner;
            continue;
        }
        std::vector<std::int32_t> wider;
        for (int coordinate = 0; coordinate < p.sizes.back(); ++coordinate)
            for (const std::int32_t npu : g.npus) wider.push_back(npu + (coordinate - at) * geometry_.stride(d));
        g.npus = std::move(wider);
    }
    const auto [it, fresh] = numbers_.try_emplace(std::move(p), static_cast<std::uint32_t>(places_.size()));
    if (fresh) places_.push_back(&it->first);
    g.places = it->second, g.timed = true;
}

void Undisturbed::begin(BatchClock& clock, Traffic& traffic) {
    clock_ = &clock, traffic_ = &traffic, events_ = 0, disturbed_ = 0, before_ = measured_, ++runs_;
    holds_.reset(2 * traffic.ports(), groups_.size());
    for (Group& g : groups_) g.open.clear(), g.events = 0;
}

void Undisturbed::gather(std::uint32_t node, std::uint32_t group, std::uint32_t position, std::uint32_t collective, std::uint32_t serial) {
    auto& open = groups_[group].open;
    auto it = std::find_if(open.begin(), open.end(), [serial](const Gathering& g) { return g.serial == serial; });
    const std::uint32_t size = membership_.size(group);
    if (it == open.end()) it = open.insert(open.end(), {serial, collective, 0, std::vector<Tick>(size, 0), std::vector<std::uint32_t>(size, 0)});
    if (it->collective != collective) throw Disturbed{};  // a run of messages says what is wrong
    it->at[position] = clock_->now, it->node[position] = node;
    if (++it->arrived < size) return;
    const Gathering all = std::move(*it);
    open.erase(it);
    over(group, all);
}

// All members have come: when each ends.
void Undisturbed::over(std::uint32_t group, const Gathering& all) {
    const Tick first = *std::min_element(all.at.begin(), all.at.end());
    const Timed& t = timed(group, all, first);
    Group& g = groups_[group];
    for (const LinkUse& use : t.links) {
        const std::size_t port = traffic_->port(use.dim, g.npus[static_cast<std::size_t>(use.npu)], use.port);
        holds_.hold(port + (use.inward ? traffic_->ports() : 0), first, add(first, t.until), group);
        traffic_->charge(port, use.inward, use.bytes, use.busy);
    }
    if (traffic_->records()) traffic_->usage.repeat(t.steps, first, 1);
    g.events += t.events, events_ += t.events;
    if (holds_.met()[group]) disturbed_ += t.events;
    check_gain();
    for (std::uint32_t p = 0; p < all.at.size(); ++p) {
        const std::uint32_t rank = membership_.rank(group, p);
        Tick end = add(first, t.done[p]);
        if (end <= clock_->now) holds_.meets(group), end = clock_->now + 1;  // before the last has come: too late to say
        const std::uint64_t key = static_cast<std::uint64_t>(rank) << 32 | all.node[p];
        clock_->at(end, t.late[p] ? BatchClock::arrive : BatchClock::done, {key, 0, t.late[p] ? measured_over : node_over, rank, all.node[p]});
    }
}

// Ends a run that will not pay: most of what it leaves out meets others, or hardly anything comes twice.
void Undisturbed::check_gain() const {
    const std::uint64_t measured = measured_ - before_;
    if (events_ + clock_->handled > first_look && 2 * disturbed_ > events_ + clock_->handled) throw Disturbed{};
    if (measured > first_gain && 2 * measured > events_) throw Disturbed{};
}

const Undisturbed::Timed& Undisturbed::timed(std::uint32_t group, const Gathering& all, Tick first) {
    const std::uint32_t places = groups_[group].places;
    const bool together = std::all_of(all.at.begin(), all.at.end(), [first](Tick t) { return t == first; });
    const Timed** const known = &together_[places * plan_.collectives.size() + all.collective];
    if (together && *known) return **known;
    std::vector<std::int64_t> key{places, all.collective};
    for (const Tick t : all.at) key.push_back(t - first);
    auto it = timed_.find(key);
    if (it == timed_.end()) {
        if (kept_ > most_words) timed_.clear(), together_.assign(together_.size(), nullptr), kept_ = 0;
        Timed found = measure(*places_[places], plan_.collectives[all.collective], {key.begin() + 2, key.end()});
        measured_ += found.events;
        kept_ += 2 * key.size() + 6 * found.links.size() + 3 * found.steps.size();
        it = timed_.emplace(std::move(key), std::move(found)).first;
    }
    if (together) *known = &it->second;
    return it->second;
}

// Members as ranks in the order of their numbers, as ties go by rank; the group has its own order.
Undisturbed::Timed Undisturbed::measure(const Places& places, const Collective& collective, const std::vector<Tick>& offsets) const {
    const std::size_t size = offsets.size();
    Plan small;
    small.network = plan_.network, small.policy = plan_.policy, small.npus = 1;
    for (std::size_t d = 0; d < places.sizes.size(); ++d) {
        Dim& dim = small.network.dims[d];
        if (dim.npus != places.sizes[d]) dim.npus = places.sizes[d], dim.blocks.clear();
        small.npus *= dim.npus;
    }
    small.collectives.push_back(collective);
    std::vector<std::int32_t> npu_of(size), program_of(size), zeros(size, 0);
    std::vector<std::int64_t> slot_ptr(size + 1);
    std::iota(slot_ptr.begin(), slot_ptr.end(), 0);
    std::map<Tick, std::int32_t> program_at;
    Arrivals arrivals;
    for (std::size_t p = 0; p < size; ++p) {
        const auto rank = static_cast<std::size_t>(places.order[p]);
        const auto [program, fresh] = program_at.try_emplace(offsets[p], static_cast<std::int32_t>(program_at.size()));
        if (fresh) small.programs.push_back(arrivals.at(offsets[p]));
        program_of[rank] = program->second, npu_of[rank] = places.npus[p];
    }
    small.groups.push_back({places.order.data(), size});
    small.program_of = {program_of.data(), size}, small.npu_of = {npu_of.data(), size}, small.slot_ptr = {slot_ptr.data(), size + 1};
    small.slot_a = small.slot_b = small.slot_c = {zeros.data(), size};
    const AloneOnLinks alone = run_alone_on_links(small);
    if (alone.done.empty()) throw Disturbed{};
    Timed out;
    for (std::size_t p = 0; p < size; ++p) {
        const auto rank = static_cast<std::size_t>(places.order[p]);
        out.done.push_back(alone.done[rank]), out.late.push_back(alone.late[rank]);
    }
    out.until = *std::max_element(out.done.begin(), out.done.end());
    out.steps = alone.steps, out.events = alone.events;
    const Outcome& t = alone.traffic;
    for (std::size_t k = 0; k < t.link_dim.size(); ++k) {
        const bool inward = t.link_from[k] < 0;
        out.links.push_back({static_cast<std::size_t>(t.link_dim[k]), inward ? t.link_to[k] : t.link_from[k], t.link_port[k], inward, t.link_bytes[k], t.link_busy[k]});
    }
    return out;
}

bool Undisturbed::exact() const {
    return std::none_of(holds_.met().begin(), holds_.met().end(), [](std::uint8_t met) { return met != 0; });
}

bool Undisturbed::worth_another(std::uint64_t handled) {
    std::uint64_t left_out = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (holds_.met()[g]) groups_[g].timed = false;
        if (groups_[g].timed) left_out += groups_[g].events;
    }
    return runs_ < most_runs && 2 * left_out >= events_ + handled;
}

}  // namespace astrarium
