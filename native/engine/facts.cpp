#include "facts.hpp"

#include <algorithm>
#include <bit>

#include "distance.hpp"

namespace astrarium {
namespace {

// A list of NPUs as strides and counts, innermost first; false where it is no product of these.
bool factored(const std::vector<int>& npus, Words& out) {
    for (std::size_t block = 1; block < npus.size();) {
        const int stride = npus[block] - npus[0];
        std::size_t end = block;  // of those that are the NPUs one block before, moved by the stride
        while (end < npus.size() && npus[end] == npus[end - block] + stride) ++end;
        end -= end % block;
        if (end == block || npus.size() % end != 0) return false;
        out.insert(out.end(), {static_cast<std::uint64_t>(stride), end / block});
        block = end;
    }
    return true;
}

}  // namespace

std::uint32_t Facts::schedule(const Schedule* schedule) {
    const auto [it, fresh] = schedules_.try_emplace(schedule, 0);
    if (fresh) it->second = store->schedule(*schedule);
    return it->second;
}

Facts::Group& Facts::known(std::int32_t number) {
    Group& out = group_[number < 0 ? group_.size() - 1 : static_cast<std::size_t>(number)];
    if (!out.members.empty()) return out;
    const std::size_t size = number < 0 ? plan_.ranks() : plan_.groups[static_cast<std::size_t>(number)].size;
    for (std::uint32_t p = 0; p < size; ++p)
        out.members.push_back(number < 0 ? p : static_cast<std::uint32_t>(plan_.groups[static_cast<std::size_t>(number)][p]));
    const Geometry geometry(plan_.network);
    const auto npu = [&](std::size_t p) { return plan_.npu_of[out.members[p]]; };
    for (std::size_t d = 0; d < plan_.network.dims.size(); ++d) {
        bool differs = false;
        for (std::size_t p = 1; p < size && !differs; ++p) differs = geometry.coordinate(npu(p), d) != geometry.coordinate(npu(0), d);
        if (differs) out.dims.push_back(d);
    }
    describe(out);
    return out;
}

void Facts::describe(Group& group) const {
    const Geometry geometry(plan_.network);
    std::vector<int> at(group.members.size(), 0);  // as if the network had no other dims, relative to the first
    Words& out = group.places;
    out = {group.members.size(), group.dims.size(), static_cast<std::uint64_t>(meshes_)};  // ports are not told apart where there are meshes
    int stride = 1;
    for (const std::size_t d : group.dims) {
        const Dim& dim = plan_.network.dims[d];
        const auto coordinate = [&](std::size_t p) { return geometry.coordinate(plan_.npu_of[group.members[p]], d); };
        const int first = dim.shape == Shape::mesh ? 0 : coordinate(0);  // a line is not the same everywhere
        out.insert(out.end(), {static_cast<std::uint64_t>(dim.shape), static_cast<std::uint64_t>(dim.npus)});
        for (std::size_t p = 0; p < at.size(); ++p) at[p] += away(dim, first, coordinate(p)) * stride;
        stride *= dim.npus;
    }
    Words places;
    if (!factored(at, places)) places.assign(at.begin(), at.end());
    if (!std::is_sorted(group.members.begin(), group.members.end())) {  // ties go by rank
        std::vector<std::uint32_t> sorted = group.members;
        std::sort(sorted.begin(), sorted.end());
        for (const std::uint32_t m : group.members) places.push_back(static_cast<std::uint64_t>(std::lower_bound(sorted.begin(), sorted.end(), m) - sorted.begin()));
    }
    out.push_back(places.size());
    out.insert(out.end(), places.begin(), places.end());
}

std::uint64_t Facts::dim_in(std::int32_t group, int dim) {
    if (dim < 0) return LineStore::none;
    const std::vector<std::size_t>& dims = known(group).dims;
    const auto at = std::find(dims.begin(), dims.end(), static_cast<std::size_t>(dim));
    return at == dims.end() ? 1ull << 32 | static_cast<std::uint64_t>(dim) : static_cast<std::uint64_t>(at - dims.begin());
}

std::uint32_t Facts::content(std::uint32_t collective, std::int32_t group) {
    const auto [it, fresh] = contents_.try_emplace({collective, group}, 0);
    if (fresh) it->second = store->number(described(plan_.collectives[collective], group));
    return it->second;
}

Words Facts::described(const Collective& c, std::int32_t number) {
    const Group& group = known(number);
    Words out = group.places;
    out.reserve(out.size() + 2 * group.dims.size() + 6 + 16 * c.chunks.size());
    out.push_back(number < 0);
    for (const std::size_t d : group.dims)
        out.insert(out.end(), {std::bit_cast<std::uint64_t>(plan_.network.dims[d].bandwidth), std::bit_cast<std::uint64_t>(plan_.network.dims[d].latency)});
    out.insert(out.end(), {static_cast<std::uint64_t>(plan_.policy.endpoint_delay), std::bit_cast<std::uint64_t>(plan_.policy.reduce_bandwidth), static_cast<std::uint64_t>(c.active_chunks), c.chunks.size(), c.turns.size()});
    for (const Chunk& chunk : c.chunks) {
        out.insert(out.end(), {static_cast<std::uint64_t>(chunk.repeat), chunk.phases.size()});
        for (const Phase& p : chunk.phases)
            out.insert(out.end(), {dim_in(number, p.dim), p.schedule ? schedule(p.schedule) : static_cast<std::uint64_t>(LineStore::none),
                                   static_cast<std::uint64_t>(p.n), static_cast<std::uint64_t>(p.stride), static_cast<std::uint64_t>(p.block_size)});
    }
    for (const auto& visits : c.turns) {
        out.push_back(visits.size());
        for (const Visit& v : visits) out.push_back(static_cast<std::uint64_t>(v.chunk) << 32 | v.phase);
    }
    return out;
}

bool Facts::alike(const Phase& p, std::int32_t group) {
    const auto [it, fresh] = alike_.try_emplace({group, p.schedule, p.algorithm, p.dim, p.n, p.stride}, false);
    if (fresh) it->second = stands_alike(p, group);
    return it->second;
}

// Phases that were looked at are known by content: they stand in many plans.
bool Facts::stands_alike(const Phase& phase, std::int32_t group) {
    bool whole = group < 0 && plan_.ranks() == static_cast<std::size_t>(plan_.npus);
    for (std::size_t r = 0; whole && r < plan_.ranks(); ++r) whole = plan_.npu_of[r] == static_cast<std::int32_t>(r);
    const View<std::int32_t> members = group < 0 ? View<std::int32_t>{} : plan_.groups[static_cast<std::size_t>(group)];
    Words content = places(group);
    content.insert(content.end(), {whole, static_cast<std::uint64_t>(plan_.network.backend), dim_in(group, phase.dim), static_cast<std::uint64_t>(phase.algorithm),
                                   static_cast<std::uint64_t>(phase.n), static_cast<std::uint64_t>(phase.stride), phase.schedule ? schedule(phase.schedule) : LineStore::none,
                                   phase.dim < 0 ? LineStore::none : static_cast<std::uint64_t>(plan_.network.dims[static_cast<std::size_t>(phase.dim)].shape)});
    return store->alike(content, [&] { return stand_alike(plan_, phase, members, whole); });
}

}  // namespace astrarium
