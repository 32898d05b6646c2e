// The checks of a graph.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "plan/check_plan.hpp"
#include "plan/graph.hpp"

namespace astrarium {
namespace {

const char* wrong_with(const Graph& g, std::size_t link) {
    const auto node = [&g](std::int32_t n) { return n >= 0 && n < g.nodes; };
    if (!node(g.source[link]) || !node(g.target[link])) return "of a node that does not exist";
    if (!(g.bandwidth[link] > 0 && std::isfinite(g.bandwidth[link]))) return "its bandwidth is no number above 0";
    if (!(g.latency[link] >= 0 && std::isfinite(g.latency[link]))) return "its latency is no number of 0 or more";
    if (g.buffer[link] < 0) return "its buffer is below 0";
    if (g.lanes[link] < 1) return "its lanes are below 1";
    return g.cost(link) < 1 || g.cost(link) > Graph::most_cost / g.nodes ? "its cost is below 1 or too much to add up" : nullptr;
}

void check_links(const Graph& g) {
    for (std::size_t link = 0; link < g.links(); ++link)
        if (const char* why = wrong_with(g, link))
            throw Unsupported("link " + std::to_string(link) + " of the graph, from node " + std::to_string(g.source[link]) + " to " +
                              std::to_string(g.target[link]) + ": " + why);
}

void check_ways(const Graph& g, int npus) {
    const LinksOf out(g.nodes, g.source), in(g.nodes, g.target);
    for (int npu = 0; npu < npus; ++npu)
        if (out[npu].empty() || in[npu].empty())
            throw Unsupported("NPU " + std::to_string(npu) + " has no link " + (out[npu].empty() ? "from" : "to") + " it in the graph");
    const std::vector<std::int32_t> there = distances(g.nodes, 0, out, g.target), back = distances(g.nodes, 0, in, g.source);
    std::int32_t farthest = 0, nearest = 0;
    for (int npu = 0; npu < npus; ++npu) {
        const std::int32_t to = there[static_cast<std::size_t>(npu)], from = back[static_cast<std::size_t>(npu)];
        if (to == no_way || from == no_way)
            throw Unsupported("the graph has no way from NPU " + std::to_string(to == no_way ? 0 : npu) + " to NPU " +
                              std::to_string(to == no_way ? npu : 0));
        farthest = std::max(farthest, to), nearest = std::max(nearest, from);
    }
    if (std::int64_t{farthest} + nearest > Graph::longest_way) throw Unsupported("ways of more than 65,534 links through the graph");
}

// Each given route leads from its source to its destination, and to no node twice.
class RouteCheck {
public:
    RouteCheck(const Graph& g, int npus) : g_(g), npus_(npus) {}
    void run() {
        require(g_.route_source.size == g_.route_link.size && g_.route_destination.size == g_.route_link.size,
                "route arrays differ in length");
        for (std::size_t row = 0; row < g_.route_link.size; ++row) step(row);
        if (open_) refuse("ends at node " + std::to_string(at_));
    }

private:
    void step(std::size_t row) {
        if (!open_) begin(row);
        const std::int32_t link = g_.route_link[row];
        if (g_.route_source[row] != source_ || g_.route_destination[row] != destination_) refuse("ends at node " + std::to_string(at_));
        if (link < 0 || static_cast<std::size_t>(link) >= g_.links() || g_.source[static_cast<std::size_t>(link)] != at_)
            refuse("link " + std::to_string(link) + " does not begin at node " + std::to_string(at_));
        at_ = g_.target[static_cast<std::size_t>(link)];
        if (!been_.insert(at_).second) refuse("comes to node " + std::to_string(at_) + " twice");
        open_ = at_ != destination_;
    }
    void begin(std::size_t row) {
        source_ = g_.route_source[row], destination_ = g_.route_destination[row];
        const auto npu = [this](std::int32_t n) { return n >= 0 && n < npus_; };
        if (!npu(source_) || !npu(destination_) || source_ == destination_) refuse("is not between two NPUs");
        if (!pairs_.emplace(source_, destination_).second) refuse("is there twice");
        open_ = true, at_ = source_, been_ = {source_};
    }
    [[noreturn]] void refuse(const std::string& why) const {
        throw Unsupported("the route from NPU " + std::to_string(source_) + " to NPU " + std::to_string(destination_) + " " + why);
    }

    const Graph& g_;
    const int npus_;
    std::int32_t source_ = 0, destination_ = 0, at_ = 0;
    bool open_ = false;
    std::set<std::int32_t> been_;
    std::set<std::pair<std::int32_t, std::int32_t>> pairs_;
};

}  // namespace

void check_graph(const Network& network, int npus) {
    const Graph& g = *network.graph;
    if (!network.medium->takes_graph)
        throw Unsupported(std::string(network.medium->name) +
                          " has no links of a graph: a graph that is no dims takes contention or fluid");
    require(g.ecmp >= Graph::first_link, "graph out of range");
    for (const std::size_t size : {g.target.size, g.bandwidth.size, g.latency.size, g.buffer.size, g.lanes.size})
        require(size == g.links(), "graph arrays differ in length");
    require(g.costs.size == 0 || g.costs.size == g.links(), "graph arrays differ in length");
    if (g.links() >= 0xffffffffu) throw Unsupported("a graph of more than 2^32 links");
    if (g.nodes < npus || static_cast<std::size_t>(g.nodes - npus) > g.links())
        throw Unsupported("a graph of " + std::to_string(g.nodes) + " nodes and " + std::to_string(g.links()) + " links for " +
                          std::to_string(npus) + " NPUs");
    check_links(g);
    check_ways(g, npus);
    RouteCheck(g, npus).run();
}

}  // namespace astrarium
