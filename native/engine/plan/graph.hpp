// A fabric of nodes and directed links; see astrarium.engine.plan.Graph.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

struct Graph {
    std::int32_t nodes = 0;
    View<std::int32_t> source, target;  // [links]: nodes
    View<double> bandwidth, latency;    // bytes per ns, ns
    View<std::int64_t> buffer;          // bytes, 0: any number
    View<std::int32_t> lanes;
    View<std::int64_t> costs;  // empty: 1 of each link
    std::int64_t ecmp = 0;
    View<std::int32_t> route_source, route_destination, route_link;   // [rows of given routes]; see astrarium.engine.plan.GivenRoutes
    static constexpr std::int64_t first_link = -1;                    // a value of `ecmp`
    static constexpr std::int32_t longest_way = 0xfffe;               // in links
    static constexpr std::int64_t most_cost = std::int64_t{1} << 62;  // of a way
    std::size_t links() const { return source.size; }
    std::int64_t cost(std::size_t link) const { return costs.size == 0 ? 1 : costs[link]; }
};

// Per node the numbers of the links that have it as one end, ascending.
class LinksOf {
public:
    // `dead` [links]: those left out; empty: none.
    LinksOf(std::int32_t nodes, const View<std::int32_t>& ends, const std::vector<bool>& dead = {});
    std::span<const std::uint32_t> operator[](std::int32_t node) const {
        const auto at = static_cast<std::size_t>(node);
        return {links_.data() + first_[at], links_.data() + first_[at + 1]};
    }

private:
    std::vector<std::uint32_t> first_, links_;
};

// Ways that are given, by their pair of NPUs.
class GivenRoutes {
public:
    static constexpr std::uint32_t none = 0xffffffffu;
    // `key` (source, destination): a number of its own for each pair. Routes over `dead` links [links] are not given.
    template <class Key>
    GivenRoutes(const Graph& graph, Key&& key, const std::vector<bool>& dead = {}) : graph_(graph) {
        for (std::size_t row = 0; row < graph.route_link.size; ++row)
            rows_.try_emplace(key(graph.route_source[row], graph.route_destination[row]), Rows{row, row}).first->second.end = row + 1;
        for (std::size_t row = 0; !dead.empty() && row < graph.route_link.size; ++row)
            if (dead[static_cast<std::size_t>(graph.route_link[row])])
                rows_.erase(key(graph.route_source[row], graph.route_destination[row]));
    }
    // The link by which a message of this pair leaves `at`; none where its way is not given.
    std::uint32_t link(std::uint64_t pair, std::int32_t at) const {
        if (rows_.empty()) return none;
        const auto found = rows_.find(pair);
        if (found == rows_.end()) return none;
        for (std::size_t row = found->second.first; row < found->second.end; ++row)
            if (const auto link = static_cast<std::size_t>(graph_.route_link[row]); graph_.source[link] == at)
                return static_cast<std::uint32_t>(link);
        return none;
    }

private:
    struct Rows {
        std::size_t first, end;
    };
    const Graph& graph_;
    std::unordered_map<std::uint64_t, Rows> rows_;
};

inline constexpr std::int32_t no_way = 0x7fffffff;
// Links between `start` and each node. `links` of nodes and their other ends: those that leave them and their targets, or those that come
// to them and their sources.
std::vector<std::int32_t> distances(std::int32_t nodes, std::int32_t start, const LinksOf& links, const View<std::int32_t>& ends);

// Throws std::invalid_argument for arrays that do not fit each other, Unsupported for what is no graph, leaves NPUs apart, or goes with
// another medium.
void check_graph(const Network& network, int npus);

}  // namespace astrarium
