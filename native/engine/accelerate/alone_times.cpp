#include "accelerate/alone_times.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "accelerate/alone.hpp"

namespace astrarium {
namespace {

constexpr std::size_t most_words = 1 << 24;  // of collectives that are kept

}  // namespace

// The coordinates of the machine that a dim of the small network has, in its order: groups that are moved along dims have one place. A
// message meets nobody outside of them; NPUs of a switch are all alike.
std::vector<int> AloneTimes::coordinates(const Dim& dim, const std::vector<int>& members) const {
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

AloneTimes::Place AloneTimes::place(const std::vector<std::uint32_t>& ranks) {
    Layout l;
    Place out;
    std::vector<std::uint32_t> ascending(ranks.size());
    std::iota(ascending.begin(), ascending.end(), 0);
    std::sort(ascending.begin(), ascending.end(), [&](std::uint32_t a, std::uint32_t b) { return ranks[a] < ranks[b]; });
    l.order.resize(ranks.size()), l.npus.assign(ranks.size(), 0);
    for (std::uint32_t i = 0; i < ranks.size(); ++i) l.order[ascending[i]] = static_cast<std::int32_t>(i);
    std::int32_t inner = 1;
    for (std::size_t d = 0; d < plan_.network.dims.size(); ++d) {
        std::vector<int> at, small(static_cast<std::size_t>(plan_.network.dims[d].npus), 0);
        for (const std::uint32_t rank : ranks) at.push_back(geometry_.coordinate(plan_.npu_of[rank], d));
        const std::vector<int> here = coordinates(plan_.network.dims[d], at);
        for (std::size_t c = 0; c < here.size(); ++c) small[static_cast<std::size_t>(here[c])] = static_cast<int>(c);
        for (std::size_t i = 0; i < ranks.size(); ++i) l.npus[i] += small[static_cast<std::size_t>(at[i])] * inner;
        l.sizes.push_back(static_cast<int>(here.size()));
        inner *= l.sizes.back();
        out.coordinates.push_back(here);
    }
    const auto [it, fresh] = numbers_.try_emplace(std::move(l), static_cast<std::uint32_t>(layouts_.size()));
    if (fresh) layouts_.push_back(&it->first);
    out.number = it->second;
    return out;
}

std::size_t AloneTimes::link(const Place& place, const LinkUse& use, const Traffic& traffic) const {
    std::int32_t npu = 0, at = use.npu;
    for (std::size_t d = 0; d < place.coordinates.size(); ++d) {
        const auto size = static_cast<std::int32_t>(place.coordinates[d].size());
        npu += place.coordinates[d][static_cast<std::size_t>(at % size)] * geometry_.stride(d);
        at /= size;
    }
    const bool per_peer = plan_.network.dims[use.dim].shape == Shape::fully_connected;
    const std::size_t port =
        traffic.port(use.dim, npu, per_peer ? place.coordinates[use.dim][static_cast<std::size_t>(use.port)] : use.port);
    return port + (use.inward ? traffic.ports() : 0);
}

const AloneTimes::Timed* AloneTimes::timed(const Place& place, std::uint32_t collective, const std::vector<Coming>& comings) {
    const bool together = std::all_of(comings.begin(), comings.end(), [](const Coming& c) { return c.at == 0 && !c.late; });
    const std::size_t number = place.number * plan_.collectives.size() + collective;
    if (together && number < together_.size() && together_[number]) return together_[number];
    std::vector<std::int64_t> key{place.number, collective};
    for (const Coming& c : comings) key.push_back(2 * c.at + c.late);
    auto it = timed_.find(key);
    if (it == timed_.end()) {
        if (kept_ > most_words) timed_.clear(), together_.clear(), kept_ = 0;
        Timed found = measure(*layouts_[place.number], collective, comings);
        if (found.done.empty()) return nullptr;
        measured_ += found.events;
        kept_ += 2 * key.size() + 8 * found.links.size() + 3 * found.use->steps.size();
        it = timed_.emplace(std::move(key), std::move(found)).first;
    }
    if (together) {
        if (number >= together_.size()) together_.resize(layouts_.size() * plan_.collectives.size(), nullptr);
        together_[number] = &it->second;
    }
    return &it->second;
}

// Members as ranks in the order of their ranks, by which ties go; the group has its own order.
AloneTimes::Timed AloneTimes::measure(const Layout& layout, std::uint32_t collective, const std::vector<Coming>& comings) const {
    const std::size_t size = comings.size();
    Plan small;
    small.network = plan_.network, small.policy = plan_.policy, small.npus = 1;
    for (std::size_t d = 0; d < layout.sizes.size(); ++d) {
        small.network.dims[d].npus = layout.sizes[d];
        small.npus *= layout.sizes[d];
    }
    small.collectives.push_back(plan_.collectives[collective]);
    small.programs.push_back(Arrivals::when_told());
    small.groups.push_back({layout.order.data(), size});
    std::vector<std::int32_t> npu_of(size), zeros(size, 0);
    std::vector<std::int64_t> slot_ptr(size + 1);
    std::vector<Coming> by_rank(size);
    std::iota(slot_ptr.begin(), slot_ptr.end(), 0);
    for (std::size_t member = 0; member < size; ++member) {
        const auto rank = static_cast<std::size_t>(layout.order[member]);
        by_rank[rank] = comings[member], npu_of[rank] = layout.npus[member];
    }
    small.program_of = {zeros.data(), size}, small.npu_of = {npu_of.data(), size}, small.slot_ptr = {slot_ptr.data(), size + 1};
    small.slot_a = small.slot_b = small.slot_c = {zeros.data(), size};
    const AloneOnLinks alone = run_alone_on_links(small, by_rank);
    Timed out;
    if (alone.done.empty()) return out;
    for (const std::int32_t rank : layout.order) {
        out.done.push_back(alone.done[static_cast<std::size_t>(rank)]);
        out.late.push_back(alone.late[static_cast<std::size_t>(rank)]);
    }
    out.use = std::make_shared<const UsePattern>(alone.steps), out.events = alone.events;
    const Outcome& t = alone.traffic;
    for (std::size_t k = 0; k < t.link_dim.size(); ++k) {
        const bool inward = t.link_from[k] < 0;
        out.links.push_back({static_cast<std::size_t>(t.link_dim[k]), inward ? t.link_to[k] : t.link_from[k], t.link_port[k], inward,
                             t.link_bytes[k], t.link_busy[k], alone.windows[k].from, alone.windows[k].until});
    }
    return out;
}

}  // namespace astrarium
