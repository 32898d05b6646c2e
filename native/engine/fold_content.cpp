// Folding: what the time of a collective depends on, as words, so that plans can share what is measured.
#include <bit>

#include "fold.hpp"

namespace astrarium {
namespace {

// A list of NPUs as strides and counts, innermost first; the list itself where it is no product of these.
void factor(const std::vector<int>& npus, Words& out) {
    const std::size_t before = out.size();
    std::size_t block = 1;
    while (block < npus.size()) {
        const int stride = npus[block] - npus[0];
        std::size_t end = block;
        while (end + block <= npus.size() && npus[end] == npus[end - block] + stride) {
            for (std::size_t i = 1; i < block; ++i)
                if (npus[end + i] != npus[end + i - block] + stride) return out.resize(before), out.insert(out.end(), npus.begin(), npus.end()), void();
            end += block;
        }
        if (npus.size() % end != 0 || end == block) return out.resize(before), out.insert(out.end(), npus.begin(), npus.end()), void();
        out.insert(out.end(), {static_cast<std::uint64_t>(stride), end / block});
        block = end;
    }
}

}  // namespace

std::uint32_t Fold::schedule(const Schedule* schedule) {
    const auto [it, fresh] = schedule_number_.try_emplace(schedule, 0);
    if (fresh) it->second = store_->schedule(*schedule);
    return it->second;
}

// Where the members of a kind of group are, and the dims in which they differ.
const Words& Fold::group_content(std::size_t kind, const std::vector<std::uint32_t>& members) {
    kind_content_.resize(classes_.first_group.size());
    Words& out = kind_content_[kind];
    if (!out.empty()) return out;
    const Geometry geometry(plan_.network);
    const std::vector<std::size_t> moved = moved_dims(kind);
    std::vector<int> npus;
    for (const std::uint32_t m : members) npus.push_back(plan_.npu_of[m]);
    out = {members.size(), plan_.network.dims.size(), moved.size()};
    for (const Dim& dim : plan_.network.dims) out.push_back(static_cast<std::uint64_t>(dim.npus));
    for (const std::size_t d : moved) {
        const Dim& dim = plan_.network.dims[d];
        out.insert(out.end(), {d, static_cast<std::uint64_t>(dim.shape), std::bit_cast<std::uint64_t>(dim.bandwidth), std::bit_cast<std::uint64_t>(dim.latency),
                               static_cast<std::uint64_t>(geometry.coordinate(npus[0], d))});
    }
    factor(npus, out);
    return out;
}

Words Fold::content(const Collective& c, std::size_t kind, const std::vector<std::uint32_t>& members) {
    Words out = group_content(kind, members);
    out.insert(out.end(), {static_cast<std::uint64_t>(plan_.policy.endpoint_delay), std::bit_cast<std::uint64_t>(plan_.policy.reduce_bandwidth),
                           static_cast<std::uint64_t>(c.active_chunks), c.chunks.size(), c.turns.size()});
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
