// A fabric of nodes and directed links; see astrarium.engine.plan.Graph.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

struct Graph {
    std::int32_t nodes = 0;
    View<std::int32_t> source, target;   // [links]: nodes
    View<double> bandwidth, latency;     // bytes per ns, ns
    View<std::int64_t> buffer;           // bytes, 0: any number
    View<std::int32_t> lanes;
    std::int64_t ecmp = 0;
    static constexpr std::int64_t first_link = -1;  // a value of `ecmp`
    static constexpr std::int32_t longest_way = 0xfffe;  // in links
    std::size_t links() const { return source.size; }
};

// Per node the numbers of the links that have it as one end, ascending.
class LinksOf {
public:
    LinksOf(std::int32_t nodes, const View<std::int32_t>& ends);
    std::span<const std::uint32_t> operator[](std::int32_t node) const {
        const auto at = static_cast<std::size_t>(node);
        return {links_.data() + first_[at], links_.data() + first_[at + 1]};
    }

private:
    std::vector<std::uint32_t> first_, links_;
};

inline constexpr std::int32_t no_way = 0x7fffffff;
// Links between `start` and each node. `links` of nodes and their other ends: those that leave them and their targets, or those that come
// to them and their sources.
std::vector<std::int32_t> distances(std::int32_t nodes, std::int32_t start, const LinksOf& links, const View<std::int32_t>& ends);

// Throws std::invalid_argument for arrays that do not fit each other, Unsupported for what is no graph, leaves NPUs apart, or goes with
// another medium.
void check_graph(const Network& network, int npus);

}  // namespace astrarium
