#include "fold/quotient/standing.hpp"

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

}  // namespace astrarium
