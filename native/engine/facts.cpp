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
    std::vector<int> npus;
    for (const std::uint32_t m : group.members) npus.push_back(plan_.npu_of[m]);
    Words& out = group.places;
    out = {group.members.size(), plan_.network.dims.size(), group.dims.size()};
    for (const Dim& dim : plan_.network.dims) out.push_back(static_cast<std::uint64_t>(dim.npus));
    out.push_back(static_cast<std::uint64_t>(meshes_));  // ports are not told apart in such a network
    for (const std::size_t d : group.dims) out.insert(out.end(), {d, static_cast<std::uint64_t>(plan_.network.dims[d].shape), static_cast<std::uint64_t>(geometry.coordinate(npus[0], d))});
    Words places;
    if (!factored(npus, places)) places.assign(npus.begin(), npus.end());
    if (!std::is_sorted(group.members.begin(), group.members.end())) places.insert(places.end(), group.members.begin(), group.members.end());  // ties go by rank
    out.push_back(places.size());
    out.insert(out.end(), places.begin(), places.end());
}

Words Facts::content(const Collective& c, std::int32_t number) {
    const Group& group = known(number);
    Words out = group.places;
    out.push_back(number < 0);
    for (const std::size_t d : group.dims)
        out.insert(out.end(), {std::bit_cast<std::uint64_t>(plan_.network.dims[d].bandwidth), std::bit_cast<std::uint64_t>(plan_.network.dims[d].latency)});
    out.insert(out.end(), {static_cast<std::uint64_t>(plan_.policy.endpoint_delay), std::bit_cast<std::uint64_t>(plan_.policy.reduce_bandwidth), static_cast<std::uint64_t>(c.active_chunks), c.chunks.size(), c.turns.size()});
    for (const Chunk& chunk : c.chunks) {
        out.insert(out.end(), {static_cast<std::uint64_t>(chunk.repeat), chunk.phases.size()});
        for (const Phase& p : chunk.phases)
            out.insert(out.end(), {static_cast<std::uint64_t>(p.dim), p.schedule ? schedule(p.schedule) : static_cast<std::uint64_t>(LineStore::none),
                                   static_cast<std::uint64_t>(p.n), static_cast<std::uint64_t>(p.stride), static_cast<std::uint64_t>(p.block_size)});
    }
    for (const auto& visits : c.turns) {
        out.push_back(visits.size());
        for (const Visit& v : visits) out.push_back(static_cast<std::uint64_t>(v.chunk) << 32 | v.phase);
    }
    return out;
}

}  // namespace astrarium
