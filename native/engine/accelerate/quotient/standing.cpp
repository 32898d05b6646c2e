#include "accelerate/quotient/standing.hpp"

#include <algorithm>

#include "media/distance.hpp"

namespace astrarium {
namespace {

using Words = std::vector<std::uint64_t>;

// A list of places as strides and counts, innermost first; false where it is no product of these.
bool factored(const std::vector<int>& places, Words& out) {
    for (std::size_t block = 1; block < places.size();) {
        const int stride = places[block] - places[0];
        std::size_t end = block;  // of those that are the places one block before, moved by the stride
        while (end < places.size() && places[end] == places[end - block] + stride) ++end;
        end -= end % block;
        if (end == block || places.size() % end != 0) return false;
        out.insert(out.end(), {static_cast<std::uint64_t>(stride), end / block});
        block = end;
    }
    return true;
}

Words described(const Plan& plan, const Standing& of) {
    const Geometry geometry(plan.network);
    std::vector<int> at(of.members.size(), 0);  // as if the network had no other dims
    int stride = 1;
    bool meshes = false;  // ports are not told apart where there is any
    for (const Dim& dim : plan.network.dims) meshes = meshes || dim.shape == Shape::mesh;
    for (const std::size_t d : of.dims) {
        const Dim& dim = plan.network.dims[d];
        const auto coordinate = [&](std::size_t p) { return geometry.coordinate(plan.npu_of[of.members[p]], d); };
        const int first = dim.shape == Shape::mesh ? 0 : coordinate(0);  // a line is not the same everywhere
        for (std::size_t p = 0; p < at.size(); ++p) at[p] += away(dim, first, coordinate(p)) * stride;
        stride *= dim.npus;
    }
    Words places;
    if (!factored(at, places)) places.assign(at.begin(), at.end());
    if (!std::is_sorted(of.members.begin(), of.members.end())) {  // ties go by rank
        std::vector<std::uint32_t> sorted = of.members;
        std::sort(sorted.begin(), sorted.end());
        for (const std::uint32_t m : of.members)
            places.push_back(static_cast<std::uint64_t>(std::lower_bound(sorted.begin(), sorted.end(), m) - sorted.begin()));
    }
    Words out{of.members.size(), of.dims.size(), meshes, places.size()};
    out.insert(out.end(), places.begin(), places.end());
    return out;
}

Standing found(const Plan& plan, std::int32_t group) {
    Standing out;
    const std::size_t size = group < 0 ? plan.ranks() : plan.groups[static_cast<std::size_t>(group)].size;
    for (std::uint32_t p = 0; p < size; ++p)
        out.members.push_back(group < 0 ? p : static_cast<std::uint32_t>(plan.groups[static_cast<std::size_t>(group)][p]));
    const Geometry geometry(plan.network);
    const auto npu = [&](std::size_t p) { return plan.npu_of[out.members[p]]; };
    for (std::size_t d = 0; d < plan.network.dims.size(); ++d) {
        bool differs = false;
        for (std::size_t p = 1; p < size && !differs; ++p) differs = geometry.coordinate(npu(p), d) != geometry.coordinate(npu(0), d);
        if (differs) out.dims.push_back(d);
    }
    out.whole = group < 0 && size == static_cast<std::size_t>(plan.npus);
    for (std::size_t p = 0; out.whole && p < size; ++p) out.whole = npu(p) == static_cast<std::int32_t>(p);
    out.places = described(plan, out);
    return out;
}

}  // namespace

const Standing& Standings::of(const Plan& plan, std::int32_t group) {
    const std::lock_guard<std::mutex> held(lock_);
    auto& known = known_[group];
    if (!known) known = std::make_unique<const Standing>(found(plan, group));
    return *known;
}

std::size_t Standings::bytes() const {
    const std::lock_guard<std::mutex> held(lock_);
    std::size_t out = 0;
    for (const auto& [group, standing] : known_) out += 128 + 4 * standing->members.size() + 8 * standing->places.size();
    return out;
}

// --- Compare the members of a collective phase by phase: do all send to and receive from equal places?

namespace {

constexpr std::size_t most_ways = 4096 * 4096;  // that are compared for one phase

// The way from one NPU to another, as far as it matters: per dim that differs, its shape's hops and direction. Messages of a phase that
// cross several dims share a port of fully_connected where they go to one coordinate.
void way(const Network& network, const Geometry& geometry, int from, int to, bool lowest_only, std::vector<int>& out) {
    out.clear();
    for (std::size_t d = 0; d < network.dims.size(); ++d) {
        const Dim& dim = network.dims[d];
        const int a = geometry.coordinate(from, d), b = geometry.coordinate(to, d);
        if (a == b) continue;
        out.push_back(static_cast<int>(d));
        const int forward = (b - a + dim.npus) % dim.npus, hops = geometry.hops(d, a, b);
        switch (dim.shape) {
            case Shape::ring: out.push_back(hops == forward ? hops : -hops); break;
            case Shape::hypercube: out.push_back(a ^ b); break;
            case Shape::mesh: return out.clear();  // nobody on a line stands like another
            case Shape::fully_connected: out.push_back(forward); break;
            default: out.push_back(hops);
        }
        if (lowest_only) {
            out.back() = hops;
            break;
        }
    }
}

// Members of a phase that differ in one dim only, of a shape in which every pair is equally far apart.
bool equally_far(const Plan& plan, const Phase& phase, const std::vector<int>& npus, const Geometry& geometry) {
    if (phase.dim < 0) return false;
    const auto dim = static_cast<std::size_t>(phase.dim);
    const Shape shape = plan.network.dims[dim].shape;
    if (shape != Shape::switch_ && shape != Shape::fully_connected) return false;
    for (std::size_t p = 0; p < npus.size(); ++p) {
        const int index = index_in(phase, static_cast<std::uint32_t>(p));
        const int first = npus[p - static_cast<std::size_t>(index) * static_cast<std::size_t>(phase.stride)];
        const int moved = (geometry.coordinate(npus[p], dim) - geometry.coordinate(first, dim)) * geometry.stride(dim);
        if (npus[p] != first + moved || (index > 0 && moved == 0)) return false;
    }
    return true;
}

// The steps of a phase, as (index of a participant) -> index of its peer.
std::vector<std::pair<bool, int>> steps(const Phase& phase) {  // (xor, distance)
    std::vector<std::pair<bool, int>> out;
    if (phase.schedule) {
        const bool exclusive = phase.schedule->mode == PeerMode::xor_;
        std::vector<bool> seen(static_cast<std::size_t>(phase.n), false);
        for (const std::int32_t peer : phase.schedule->send_peer) {
            if (seen[static_cast<std::size_t>(peer)]) continue;
            seen[static_cast<std::size_t>(peer)] = true;
            out.emplace_back(exclusive, peer);
        }
    } else if (phase.algorithm == Algorithm::halving_doubling) {
        for (int distance = 1; distance < phase.n; distance *= 2) out.emplace_back(true, distance);
    } else if (phase.algorithm == Algorithm::ring) {
        out.emplace_back(false, 1);
        out.emplace_back(false, phase.n - 1);
    } else {
        for (int distance = 1; distance < phase.n; ++distance) out.emplace_back(false, distance);
    }
    return out;
}

bool same_ways(const Plan& plan, const Phase& phase, const std::vector<int>& npus, const Geometry& geometry) {
    if (equally_far(plan, phase, npus, geometry)) return true;
    const bool lowest = !plan.network.medium->meets;
    const auto all = steps(phase);
    if (npus.size() * all.size() > most_ways) return false;
    std::vector<int> first, mine;
    for (const auto& [exclusive, distance] : all) {
        for (std::size_t p = 0; p < npus.size(); ++p) {
            const int index = index_in(phase, static_cast<std::uint32_t>(p));
            const int peer = exclusive ? index ^ distance : (index + distance) % phase.n;
            const auto there = static_cast<std::size_t>(static_cast<int>(p) + (peer - index) * phase.stride);
            way(plan.network, geometry, npus[p], npus[there], lowest, mine);
            if (mine.empty()) return false;
            if (p == 0) first = mine;
            else if (mine != first) return false;
        }
    }
    return true;
}

}  // namespace

bool stand_alike(const Plan& plan, const Phase& phase, const View<std::int32_t>& group, bool whole) {
    if (phase.algorithm == Algorithm::double_binary_tree || phase.algorithm == Algorithm::custom) return false;
    if (phase.schedule && phase.schedule->mode == PeerMode::absolute) return false;
    if (phase.schedule && !std::all_of(phase.schedule->program.begin(), phase.schedule->program.end(),
                                       [&](std::int32_t p) { return p == phase.schedule->program[0]; }))
        return false;
    const Geometry geometry(plan.network);
    const bool exclusive = phase.schedule ? phase.schedule->mode == PeerMode::xor_ : phase.algorithm == Algorithm::halving_doubling;
    const Dim* dim = phase.dim < 0 ? nullptr : &plan.network.dims[static_cast<std::size_t>(phase.dim)];
    if (dim && dim->shape == Shape::mesh) return false;
    const bool ring = dim && (dim->shape == Shape::ring || dim->shape == Shape::ring_one_way);
    if (exclusive && ring && phase.n > 2 && plan.network.medium->meets) return false;
    const bool cube = dim && dim->shape == Shape::hypercube && !exclusive;  // its ways are those of xor
    if (whole && !cube && dim && phase.n == dim->npus && phase.stride == geometry.stride(static_cast<std::size_t>(phase.dim))) return true;
    const std::size_t members = group.data ? group.size : plan.ranks();
    std::vector<int> npus;
    for (std::size_t p = 0; p < members; ++p) npus.push_back(plan.npu_of[group.data ? static_cast<std::size_t>(group[p]) : p]);
    return same_ways(plan, phase, npus, geometry);
}

}  // namespace astrarium
