#include "media/packets/wires.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <optional>

#include "media/packets/growing.hpp"

namespace astrarium::packets {
namespace {

// Dimension-ordered: computed.
class DimsWays final : public Ways {
public:
    DimsWays(const Network& network, const Traffic& traffic) : fabric_(network, traffic) {
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

// Looked up: per destination and node the list of links that begin shortest ways, found as a packet asks. Equal lists are one.
class GraphWays final : public Ways {
public:
    GraphWays(const Network& network, const Traffic& traffic)
        : graph_(*network.graph), spray_(network.packets.spray), out_(graph_.nodes, graph_.source), in_(graph_.nodes, graph_.target) {
        const auto npus = static_cast<std::int32_t>(traffic.rows.rows);
        nodes = graph_.nodes;
        seed_ = graph_.ecmp == Graph::first_link ? 0 : mix64(static_cast<std::uint64_t>(graph_.ecmp));
        for (std::size_t k = 0; k < graph_.links(); ++k)
            wires.push_back({k, 0, graph_.source[k], graph_.target[k], graph_.source[k] < npus, graph_.buffer[k],
                             ticks(graph_.latency[k], false), graph_.bandwidth[k]});
        for (std::int32_t node = 0; node < graph_.nodes; ++node) {
            const auto links = in_[node];
            const bool one = !links.empty() && std::all_of(links.begin(), links.end(),
                                                           [&](std::uint32_t k) { return graph_.source[k] == graph_.source[links[0]]; });
            before_.push_back(one ? graph_.source[links[0]] : node);
        }
        given_.emplace(graph_, [this](std::int32_t source, std::int32_t destination) { return pair(source, destination); });
        rows_.assign(static_cast<std::size_t>(graph_.nodes), nullptr), last_.assign(static_cast<std::size_t>(graph_.nodes), none);
        most_ = std::max<std::size_t>(16, most_bytes / (8 * static_cast<std::size_t>(graph_.nodes)));
        if (spray_)
            for (std::size_t k = 0; k < graph_.links(); ++k) turn_.push_back(static_cast<std::uint32_t>(mix64(seed_ ^ k)));
    }

    std::uint32_t first(std::int32_t source, std::int32_t destination, std::uint64_t pair) override {
        if (const std::uint32_t given = given_->link(pair, source); given != GivenRoutes::none) return given;
        const std::uint32_t found = links(source, destination);
        return found & many ? by_pair(kinds_[found & ~many], source, pair) : found;
    }
    std::uint32_t next(std::uint32_t link, std::int32_t destination, const std::uint64_t& pair) override {
        const std::int32_t at = graph_.target[link];
        if (const std::uint32_t given = given_->link(pair, at); given != GivenRoutes::none) return given;
        const std::uint32_t found = links(at, destination);
        if (!(found & many)) return found;
        const List& list = kinds_[found & ~many];
        return spray_ ? list.links[turn_[link]++ % list.count] : by_pair(list, at, pair);
    }
    void forget() override {
        for (; kept_.size() > most_; kept_.pop_front()) rows_[static_cast<std::size_t>(kept_.front().first)] = nullptr;
    }

private:
    static constexpr std::size_t most_bytes = std::size_t{1} << 29;
    static constexpr std::uint32_t many = 0x80000000u;  // with the number of a list; else the one link
    struct List {
        const std::uint32_t* links = nullptr;
        std::uint32_t count = 0;
    };
    // Ways to one node, found as far as somebody asked. Memory that nobody touches stays the system's zeros.
    struct Place {
        std::uint32_t list;  // and 1; 0: nobody asked
        std::int32_t left;   // links, and 1; 0: not reached
    };
    struct Free {
        void operator()(Place* places) const { std::free(places); }
    };
    struct Row {
        std::unique_ptr<Place[], Free> places;  // per node
        std::vector<std::int32_t> frontier;     // the nodes that are farthest away
        std::int32_t depth = 1;
    };

    std::uint32_t by_pair(const List& list, std::int32_t at, const std::uint64_t& pair) const {
        if (graph_.ecmp == Graph::first_link) return list.links[0];
        return list.links[mix64(pair ^ static_cast<std::uint64_t>(at)) % list.count];
    }

    // Several threads may ask at once: one finds what is not known yet, others see it whole or not at all.
    std::uint32_t links(std::int32_t at, std::int32_t destination) {
        const std::int32_t root = before_[static_cast<std::size_t>(destination)];
        if (at == root) {
            const std::atomic_ref<std::uint32_t> known(last_[static_cast<std::size_t>(destination)]);
            if (const std::uint32_t found = known.load(std::memory_order_acquire); found != none) return found;
            const std::lock_guard<std::mutex> lock(finding_);
            const std::uint32_t found = keep({in_[destination].begin(), in_[destination].end()});
            known.store(found, std::memory_order_release);
            return found;
        }
        const std::atomic_ref<Row*> known(rows_[static_cast<std::size_t>(root)]);
        Row* row = known.load(std::memory_order_acquire);
        if (row != nullptr) {
            const std::uint32_t found = std::atomic_ref<std::uint32_t>(row->places[at].list).load(std::memory_order_acquire);
            if (found != 0) return found - 1;
        }
        const std::lock_guard<std::mutex> lock(finding_);
        if ((row = known.load(std::memory_order_relaxed)) == nullptr) known.store(row = open(root), std::memory_order_release);
        const std::uint32_t found = find(*row, at);
        std::atomic_ref<std::uint32_t>(row->places[at].list).store(found + 1, std::memory_order_release);
        return found;
    }

    Row* open(std::int32_t root) {
        auto* const places = static_cast<Place*>(std::calloc(static_cast<std::size_t>(graph_.nodes), sizeof(Place)));
        if (places == nullptr) throw std::bad_alloc();
        places[root].left = 1;
        kept_.emplace_back(root, Row{std::unique_ptr<Place[], Free>(places), {root}});
        return &kept_.back().second;
    }

    std::uint32_t find(Row& row, std::int32_t at) {
        std::vector<std::int32_t> next;
        for (; row.places[at].left == 0 && !row.frontier.empty(); row.frontier.swap(next)) {
            next.clear(), ++row.depth;
            for (const std::int32_t node : row.frontier)
                for (const std::uint32_t link : in_[node])
                    if (std::int32_t& left = row.places[graph_.source[link]].left; left == 0)
                        left = row.depth, next.push_back(graph_.source[link]);
        }
        std::vector<std::uint32_t> able;
        for (const std::uint32_t link : out_[at])
            if (const std::int32_t left = row.places[graph_.target[link]].left; left != 0 && left == row.places[at].left - 1)
                able.push_back(link);
        return keep(able);
    }

    std::uint32_t keep(const std::vector<std::uint32_t>& list) {
        if (list.size() == 1) return list.front();
        const auto [at, fresh] = known_.try_emplace(list, static_cast<std::uint32_t>(kinds_.size()));
        if (fresh) kinds_.push_back({at->first.data(), static_cast<std::uint32_t>(at->first.size())});
        return at->second | many;
    }

    const Graph& graph_;
    const bool spray_;
    const LinksOf out_, in_;
    std::optional<GivenRoutes> given_;
    std::vector<std::int32_t> before_;  // per node: where all links to it come from, or itself
    std::vector<Row*> rows_;            // per node that ways lead to; null: nobody asked
    std::vector<std::uint32_t> last_;   // per node: the list of links to it, where they come from one node
    std::mutex finding_;
    Growing<List> kinds_;
    std::map<std::vector<std::uint32_t>, std::uint32_t> known_;
    std::deque<std::pair<std::int32_t, Row>> kept_;  // the rows that there are, the oldest first
    std::size_t most_;
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
    if (plan.network.graph) ways = std::make_unique<GraphWays>(plan.network, traffic);
    else ways = std::make_unique<DimsWays>(plan.network, traffic);
    for (Wire& wire : ways->wires)
        if (wire.buffer == 0) wire.buffer = plan.network.packets.buffer;
    return ways;
}

}  // namespace astrarium::packets
