#include "media/packets/wires.hpp"

#include <algorithm>

namespace astrarium::packets {
namespace {

// Dimension-ordered: computed.
class DimsWays final : public Ways {
public:
    DimsWays(const Plan& plan, const Traffic& traffic) : fabric_(plan, traffic) {
        const Network& network = plan.network;
        const auto npus = static_cast<std::int32_t>(traffic.rows.rows);
        std::vector<std::int32_t> switches;  // per dim: the node of its first one
        std::int32_t stride = 1;
        std::vector<std::int32_t> strides;
        nodes = npus;
        for (const Dim& dim : network.dims) {
            switches.push_back(nodes), strides.push_back(stride);
            if (dim.shape == Shape::switch_ && dim.npus > 1) nodes += npus / dim.npus;
            stride *= dim.npus;
        }
        fabric_.each_link([&](std::size_t number) { place(network, traffic, number, switches, strides); });
    }

    std::uint32_t first(std::int32_t source, std::int32_t destination, std::uint64_t) override {
        return follow(source, false, destination);
    }
    std::uint32_t next(std::uint32_t link, std::int32_t destination, const std::uint64_t&) override {
        return follow(lands_[link].at, lands_[link].at_switch, destination);
    }

private:
    struct Landing {
        std::int32_t at;
        bool at_switch;
    };
    std::uint32_t follow(std::int32_t at, bool at_switch, std::int32_t destination) const {
        Flight f(at, destination, 0);
        f.at_switch = at_switch;
        return link_of_.at(fabric_.next(f).number);
    }

    void place(const Network& network, const Traffic& traffic, std::size_t number, const std::vector<std::int32_t>& switches,
               const std::vector<std::int32_t>& strides) {
        const Geometry geometry(network);
        const bool down = number >= traffic.ports();
        const std::size_t port = down ? number - traffic.ports() : number;
        const Load name = traffic.named(port, false);
        const auto d = static_cast<std::size_t>(name.dim);
        const Dim& dim = network.dims[d];
        const auto npu = static_cast<std::int32_t>((port - traffic.first(d, 0)) / Traffic::ports_per_npu(dim));
        const std::int32_t device = switches[d] + npu / (strides[d] * dim.npus) * strides[d] + npu % strides[d];
        Wire w{number, d, npu, device, !down, 0, ticks(dim.latency, false), dim.bandwidth};
        if (down) std::swap(w.source, w.target);
        Landing land{npu, !down};
        if (dim.shape != Shape::switch_) {
            const int at = geometry.coordinate(npu, d);
            land = {npu + (geometry.neighbour(d, at, name.port) - at) * strides[d], false};
            w.target = land.at;
        }
        link_of_.resize(std::max(link_of_.size(), number + 1), none);
        link_of_[number] = static_cast<std::uint32_t>(wires.size());
        wires.push_back(w), lands_.push_back(land);
    }

    const DimsFabric fabric_;
    std::vector<Landing> lands_;          // per link
    std::vector<std::uint32_t> link_of_;  // per number in the traffic
};

// Looked up.
class GraphWays final : public Ways {
public:
    GraphWays(const Plan& plan, const Traffic& traffic)
        : graph_(*plan.network.graph), spray_(plan.network.packets.spray),
          epochs_(graph_, static_cast<std::int32_t>(traffic.rows.rows), std::size_t{1} << 29, plan.link_rates.get(), key(graph_)) {
        const auto npus = static_cast<std::int32_t>(traffic.rows.rows);
        nodes = graph_.nodes;
        seed_ = seed_of(graph_);
        wires.reserve(graph_.links());
        for (std::size_t k = 0; k < graph_.links(); ++k)
            wires.push_back({k, 0, graph_.source[k], graph_.target[k], graph_.source[k] < npus, graph_.buffer[k],
                             ticks(graph_.latency[k], false), graph_.bandwidth[k]});
        if (spray_)
            for (std::size_t k = 0; k < graph_.links(); ++k) turn_.push_back(static_cast<std::uint32_t>(mix64(seed_ ^ k)));
    }

    std::uint32_t first(std::int32_t source, std::int32_t destination, std::uint64_t pair) override {
        return onward(source, destination, pair);
    }
    std::uint32_t next(std::uint32_t link, std::int32_t destination, const std::uint64_t& pair) override {
        const std::int32_t at = graph_.target[link];
        if (!spray_) return onward(at, destination, pair);
        Routing& routing = epochs_.from(at, destination);
        if (const std::uint32_t given = routing.given.link(pair, at); given != GivenRoutes::none) return given;
        const std::uint32_t found = routing.shortest(at, destination);
        if (!(found & Shortest::many)) return found;
        const auto list = routing.shortest.list(found);
        return list[turn_[link]++ % list.size()];
    }
    std::uint32_t usual(std::uint32_t link, std::int32_t destination, const std::uint64_t& pair) override {
        return onward(graph_.target[link], destination, pair);
    }
    std::uint32_t onward(std::int32_t at, std::int32_t destination, const std::uint64_t& pair) override {
        Routing& routing = epochs_.from(at, destination);
        if (const std::uint32_t given = routing.given.link(pair, at); given != GivenRoutes::none) return given;
        const std::uint32_t found = routing.shortest(at, destination);
        if (!(found & Shortest::many)) return found;
        const auto list = routing.shortest.list(found);
        if (graph_.ecmp == Graph::first_link) return list[0];
        return list[mix64(pair ^ static_cast<std::uint64_t>(at)) % list.size()];
    }
    Epochs* epochs() override { return epochs_.change() ? &epochs_ : nullptr; }
    void forget() override { epochs_.forget(); }

private:
    static std::uint64_t seed_of(const Graph& graph) {
        return graph.ecmp == Graph::first_link ? 0 : mix64(static_cast<std::uint64_t>(graph.ecmp));
    }
    static std::function<std::uint64_t(std::int32_t, std::int32_t)> key(const Graph& graph) {
        return [seed = seed_of(graph)](std::int32_t source, std::int32_t destination) { return hash(seed, source, destination); };
    }

    const Graph& graph_;
    const bool spray_;
    Epochs epochs_;
    std::vector<std::uint32_t> turn_;  // per link, where packets are sprayed
};

}  // namespace

std::uint64_t mix64(std::uint64_t word) {
    word += 0x9E3779B97F4A7C15ull;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ word >> 27) * 0x94D049BB133111EBull;
    return word ^ word >> 31;
}

std::unique_ptr<Ways> open_ways(const Plan& plan, const Traffic& traffic) {
    std::unique_ptr<Ways> ways;
    if (plan.network.graph) ways = std::make_unique<GraphWays>(plan, traffic);
    else ways = std::make_unique<DimsWays>(plan, traffic);
    const PacketRules& rules = plan.network.packets;
    for (std::size_t k = 0; k < ways->wires.size(); ++k) {
        Wire& wire = ways->wires[k];
        if (wire.buffer == 0) wire.buffer = rules.buffer;
        const std::size_t place = plan.network.graph ? k : wire.dim;
        wire.inside = !rules.inside.empty() && rules.inside[place] != 0;
    }
    return ways;
}

}  // namespace astrarium::packets
