// Fabrics: which links a message takes. Media are compiled for each of them, so that dims need no table.
#pragma once
#include <compare>
#include <cstdint>
#include <vector>

#include "media/medium.hpp"
#include "media/epochs.hpp"
#include "media/traffic.hpp"
#include "plan/graph.hpp"
#include "plan/rates.hpp"

namespace astrarium {

// The next link of a message's way.
struct Hop {
    std::size_t number = 0;    // of the link
    std::size_t dim = 0;       // of the traffic
    std::int32_t landing = 0;  // where it ends: Flight::at then
    bool to_switch = false;    // Flight::at_switch then
    bool leaves_npu = true;
};

// A link as such: few kinds make up a network.
struct LinkKind {
    double bandwidth = 0;  // bytes per ns
    Tick latency = 0;
    std::size_t dim = 0;  // of the traffic
    bool to_switch = false, leaves_npu = true;
    auto operator<=>(const LinkKind&) const = default;
};
struct LinkOf {
    LinkKind kind;
    std::int32_t landing = 0;  // Flight::at of what has crossed it
};

// Dimension-ordered, innermost dim first. A link has the number of its port; those out of switches come after these.
class DimsFabric {
public:
    DimsFabric(const Plan& plan, const Traffic& traffic) : network_(plan.network), geometry_(plan.network), traffic_(traffic) {}
    void go_to(Tick) const {}  // its routes never change
    Tick gives_up(const Flight&, Tick, Tick) const { return never; }
    Hop next(const Flight& flight) const;
    void aim(Flight& flight) const;  // at its next links in one direction
    // The link in that direction so many NPUs further on.
    std::uint32_t after(std::uint32_t link, std::int32_t npus, std::size_t dim) const {
        return link + static_cast<std::uint32_t>(npus) * static_cast<std::uint32_t>(traffic_.per_npu(dim));
    }
    std::size_t links() const { return 2 * traffic_.ports(); }
    template <class Visit>
    void each_link(Visit&& visit) const;  // visit(number of the link), in the order of the dims' graph
    LinkOf link(std::size_t number) const;
    double bandwidth(const Hop& hop) const { return speed(hop).bandwidth; }
    Tick latency(const Hop& hop) const { return ticks(speed(hop).latency, false); }

private:
    Hop half(const Flight& flight) const;
    // Both links of a switch end, for `landing`, at the place whose link it is.
    Speed speed(const Hop& hop) const {
        const Dim& dim = network_.dims[hop.dim];
        return dim.ends.empty() || geometry_.is_switch(hop.landing) ? Speed{dim.bandwidth, dim.latency}
                                                                    : dim.link(geometry_.coordinate(hop.landing, hop.dim));
    }

    const Network& network_;
    const Geometry geometry_;
    const Traffic& traffic_;
};

// Ways of the least cost, looked up when messages ask.
class GraphFabric {
public:
    GraphFabric(const Plan& plan, const Traffic& traffic);
    // From now on routes are those of this time.
    void go_to(Tick now) const {
        if (epochs_.change() && epochs_.go_to(now)) asked_ = {};
    }
    // When a message that waits for `flight.link` goes another way: see Epochs.
    Tick gives_up(const Flight& f, Tick after, Tick until) const {
        return epochs_.change() ? epochs_.gives_up(f.link, f.at, f.destination, after, until) : never;
    }
    Hop next(const Flight& flight) const;
    void aim(Flight& flight) const { flight.link = static_cast<std::uint32_t>(next(flight).number), flight.left = 1; }
    std::uint32_t after(std::uint32_t link, std::int32_t, std::size_t) const { return link; }
    std::size_t links() const { return graph_.links(); }
    LinkOf link(std::size_t number) const {
        return {{graph_.bandwidth[number], ticks(graph_.latency[number], false), 0, false, graph_.source[number] < npus_},
                graph_.target[number]};
    }
    template <class Visit>
    void each_link(Visit&& visit) const {
        for (std::size_t link = 0; link < graph_.links(); ++link) visit(link);
    }
    double bandwidth(const Hop& hop) const { return graph_.bandwidth[hop.number]; }
    Tick latency(const Hop& hop) const { return ticks(graph_.latency[hop.number], false); }

private:
    std::uint32_t choose(const Flight& flight) const;

    const Graph& graph_;
    const std::int32_t npus_;
    mutable Epochs epochs_;
    struct Asked {
        std::int32_t source = -1, destination = -1, at = -1;
        bool operator==(const Asked&) const = default;
    };
    mutable Asked asked_;  // last: media ask for a turn, and again as it is taken
    mutable std::uint32_t answer_ = 0;
};

template <class Visit>
void DimsFabric::each_link(Visit&& visit) const {
    const auto npus = static_cast<std::int32_t>(traffic_.rows.rows);
    for (std::size_t d = 0; d < network_.dims.size(); ++d)
        for (std::int32_t npu = 0; npu < npus; ++npu)
            for (std::size_t port = 0; port < Traffic::ports_per_npu(network_.dims[d]); ++port)
                if (has_link(network_.dims[d], geometry_.coordinate(npu, d), port)) visit(traffic_.port(d, npu, static_cast<int>(port)));
    for (std::size_t d = 0; d < network_.dims.size(); ++d)
        for (std::int32_t npu = 0; npu < npus && network_.dims[d].shape == Shape::switch_ && network_.dims[d].npus > 1; ++npu)
            visit(traffic_.port(d, npu, 0) + traffic_.ports());
}

// The changes of a plan's links, by their numbers in the fabric.
template <class Fabric>
Rates link_rates(const Plan& plan, const Fabric& fabric) {
    Rates out;
    std::size_t given = 0;
    if (plan.link_rates) fabric.each_link([&](std::size_t number) { plan.link_rates->copy(given++, number, out); });
    return out;
}

// For a stall: says which of the wanted links stand still for ever, by their numbers in the plan.
template <class Fabric, class Wanted>
std::vector<std::string> links_that_stand(const Fabric& fabric, const Rates& rates, Wanted&& wanted) {
    std::vector<std::string> out;
    std::size_t given = 0;
    if (rates.empty()) return out;
    fabric.each_link([&](std::size_t number) {
        if (const Tick since = rates.stops(number); since != never && wanted(number))
            out.push_back("link " + std::to_string(given) + " stands still for ever, since " + std::to_string(since) + " ps");
        ++given;
    });
    return out;
}

// A medium for the fabric of a plan.
template <template <class> class Of>
std::unique_ptr<Medium> open_on_fabric(const Plan& plan, bool record, Carried& run) {
    if (plan.network.graph) return std::make_unique<Of<GraphFabric>>(plan, record, run);
    return std::make_unique<Of<DimsFabric>>(plan, record, run);
}

}  // namespace astrarium
