#include "plan/check_plan.hpp"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "plan/graph.hpp"
#include "plan/rates.hpp"

namespace astrarium {
namespace {

constexpr double longest_ns = 9.2e15;  // 2^63 ps

class Checker {
public:
    Checker(const Plan& plan, const Sound& sound) : plan_(plan), sound_(sound) {}

    void check() {
        check_network();
        check_policy();
        check_changes(plan_);
        check_accesses();
        check_size(static_cast<double>(sound_.largest));
        for (const Schedule& s : plan_.schedules) check_schedule(s), widest_.emplace(&s, widest(s));
        for (const Collective& c : plan_.collectives) check_collective(c);
        require(sound_.collectives <= plan_.collectives.size(), "collective out of range");
        for (const auto& [collective, members] : sound_.served) check_fits(plan_.collectives[collective], members);
    }

private:
    const Plan& plan_;
    const Sound& sound_;
    double slowest_ = 0;                                        // bandwidth of reductions, 0: they are free
    double heaviest_ = 0;                                       // bytes of a message that every link can carry in 2^63 ps
    std::unordered_map<const Schedule*, std::int64_t> widest_;  // blocks of its largest message

    bool astra() const { return plan_.policy.order == Order::astra_sim; }

    void check_network() {
        const Network& network = plan_.network;
        require(plan_.npus >= 1 && !network.dims.empty(), "no npus");
        std::int64_t npus = 1;
        heaviest_ = 9.2e18;
        for (const Dim& dim : network.dims) {
            require(dim.shape >= Shape::ring && dim.shape <= Shape::hypercube, "shape out of range");
            require(dim.npus >= 1 && dim.bandwidth > 0 && dim.latency >= 0, "dim out of range");
            require(dim.shape != Shape::hypercube || std::has_single_bit(static_cast<unsigned>(dim.npus)),
                    "a hypercube needs a power of two");
            npus *= dim.npus;
            require(npus <= plan_.npus, "npus is not the product of the dims");
            heaviest_ = std::min(heaviest_, longest_ns / dim.npus * dim.bandwidth);
            check_ends(dim);
        }
        require(npus == plan_.npus, "npus is not the product of the dims");
        const MediumKind& medium = *network.medium;
        require(medium.astra_sim == astra(), "a back end of the other rule book");
        require(network.whole_ns == astra(), "ASTRA-sim counts whole ns, and only it");
        if (network.graph) check_links_of_graph();
        if (medium.check) medium.check(network);
        if (!medium.astra_sim || !medium.on_links) return;
        const Dim& dim = network.dims[0];
        require(dim.shape <= Shape::fully_connected, "a shape that ASTRA-sim's links do not know");
        if (dim.shape == Shape::fully_connected && dim.npus > 16384) throw Unsupported("a network of more than 2^28 links");
    }

    void check_ends(const Dim& dim) {
        require(dim.ends.empty() || (dim.shape == Shape::switch_ && static_cast<int>(dim.ends.size()) < dim.npus),
                "memory of a switch out of range");
        for (const Speed& end : dim.ends) {
            require(end.bandwidth > 0 && end.latency >= 0, "memory of a switch out of range");
            if (end.latency >= longest_ns / dim.npus) throw Unsupported("a delay of more than 2^63 ps (106 days)");
            heaviest_ = std::min(heaviest_, longest_ns / dim.npus * end.bandwidth);
        }
    }

    // Remote accesses over the network name memories that there are, in a network that has them.
    void check_accesses() const {
        const auto memories = static_cast<std::int64_t>(plan_.network.memories());
        require(memories == 0 || (!plan_.network.graph && !plan_.network.medium->own_clock), "memories that are at no switch");
        for (const Program& p : plan_.programs)
            for (std::size_t i = 0; i < p.nodes(); ++i) {
                if (static_cast<Kind>(p.kind[i]) != Kind::remote || p.slot[i] >= -1) continue;
                require(p.slot[i] >= -1 - 2 * memories, "memory out of range");
                check_size(static_cast<double>(p.size[i]));
            }
    }

    void check_links_of_graph() {
        check_graph(plan_.network, plan_.npus);
        const Graph& graph = *plan_.network.graph;
        const double most = longest_ns / graph.nodes;  // along all nodes
        if (*std::max_element(graph.latency.begin(), graph.latency.end()) >= most)
            throw Unsupported("a delay of more than 2^63 ps (106 days)");
        heaviest_ = most * *std::min_element(graph.bandwidth.begin(), graph.bandwidth.end());
    }

    void check_policy() {
        const Policy& p = plan_.policy;
        require(p.order == Order::canonical || p.order == Order::astra_sim, "tie order out of range");
        require(p.queues_per_dim >= 1 && p.active_chunks >= 0 && p.endpoint_delay >= 0 && !(p.reduce_bandwidth < 0), "policy out of range");
        require(plan_.reduce_bandwidth.size == 0 || plan_.reduce_bandwidth.size == static_cast<std::size_t>(plan_.npus),
                "reduction bandwidths differ in length");
        slowest_ = p.reduce_bandwidth;
        for (const double rate : plan_.reduce_bandwidth) {
            require(rate >= 0, "reduction bandwidth out of range");
            if (rate > 0) slowest_ = slowest_ > 0 ? std::min(slowest_, rate) : rate;
        }
        if (static_cast<std::int64_t>(p.queues_per_dim) * static_cast<std::int64_t>(plan_.network.dims.size()) > 16384)
            throw Unsupported("more than 16,384 queues at one NPU");
        require(p.active_chunks <= 1 << 30, "policy out of range");
        if (p.shared_bus) {
            const SharedBus& bus = *p.shared_bus;
            const Tick most = static_cast<Tick>(longest_ns / 8);
            require(bus.L >= 0 && bus.o >= 0 && bus.g >= 0 && bus.G >= 0 && bus.reduction_delay >= 0, "shared bus out of range");
            if (bus.L > most || bus.o > most || bus.g > most) throw Unsupported("a delay of more than 2^63 ps (106 days)");
        }
        const Remote& r = plan_.remote;
        require(r.kind >= RemoteKind::none && r.kind <= RemoteKind::pool && r.npus_per_node >= 1 && r.bandwidth > 0 && r.latency >= 0,
                "remote memory out of range");
        if (static_cast<double>(r.latency) >= longest_ns) throw Unsupported("a delay of more than 2^63 ps (106 days)");
        for (const int room : plan_.lanes) require(room >= 1, "lane without room");
    }

    void check_size(double bytes) const {
        if (bytes > heaviest_) throw Unsupported("a delay of more than 2^63 ps (106 days)");
    }

    static std::int64_t widest(const Schedule& s) {
        std::int64_t most = 0;
        for (std::size_t k = 0; k < s.send_peer.size; ++k)
            most = std::max<std::int64_t>(most, s.send_block_ptr[k + 1] - s.send_block_ptr[k]);
        return most;
    }

    void check_collective(const Collective& c) const {
        require(c.op >= 0 && c.op <= 15, "collective op out of range");
        require(c.size >= 0, "collective size out of range");
        require(c.turns.empty() || !astra(), "turns under ASTRA-sim's order");
        require(c.lasts >= 0 && (c.lasts == 0 || (!astra() && !c.custom && c.chunks.empty())), "a collective of given time with messages");
        if (c.custom) check_custom(*c.custom);
        for (const Chunk& chunk : c.chunks)
            for (const Phase& p : chunk.phases) check_phase(p, c.custom.has_value());
    }

    void check_phase(const Phase& p, bool custom) const {
        require(p.dim < static_cast<int>(plan_.network.dims.size()), "phase dim out of range");
        require(p.n >= 1 && p.stride >= 1 && p.size >= 0 && p.block_size >= 0, "phase out of range");
        require(p.op >= 0 && p.op <= 15 && p.pick >= Pick::any && p.pick <= Pick::last_half, "phase out of range");
        require((p.algorithm == Algorithm::schedule) == (p.schedule != nullptr), "schedule missing");
        if (p.schedule) {
            require(!astra() && p.schedule->n == p.n, "schedule of another size");
            require(p.lasts >= 0 && (p.lasts == 0 || (p.schedule->send_peer.size == 0 && p.schedule->recv_peer.size == 0)),
                    "a phase of given time with messages");
            check_switches(p);
            return check_size(static_cast<double>(widest_.at(p.schedule)) * static_cast<double>(p.block_size));
        }
        require(astra() && p.algorithm > Algorithm::schedule && p.algorithm <= Algorithm::custom, "algorithm out of range");
        require((p.algorithm == Algorithm::custom) == custom, "custom program missing");
        if (p.n > 32767) throw Unsupported("ASTRA-sim's machines with more than 32,767 NPUs in a phase");
        const double most = static_cast<double>(p.size) * (p.op == op_all_gather ? p.n : 1);  // halving_doubling sends up to this
        check_size(most);
        const Policy& policy = plan_.policy;
        if (slowest_ > 0 && most / slowest_ * 3e9 >= longest_ns) throw Unsupported("a delay of more than 2^63 ps (106 days)");
        if (policy.shared_bus &&
            most * (policy.shared_bus->G + 0.01 * static_cast<double>(policy.shared_bus->reduction_delay) + 1) >= longest_ns / 8)
            throw Unsupported("a delay of more than 2^63 ps (106 days)");
    }

    // A phase's switches are in the network, and the medium ends messages there.
    void check_switches(const Phase& p) const {
        const InSwitch& able = p.in_switch;
        const Network& network = plan_.network;
        require((able.rate == 0) == (p.switches() == 0), "switches without what they can do");
        if (p.switches() == 0) return;
        require(able.rate > 0 && able.latency >= 0, "switch out of range");
        if (network.graph) {
            require(able.nodes.size() == static_cast<std::size_t>(p.switches()), "a switch that is no node of the graph");
            for (const std::int32_t node : able.nodes)
                require(node >= plan_.npus && node < network.graph->nodes, "a switch that is no node of the graph");
        } else {
            const bool at_dim = p.dim >= 0 && network.dims[static_cast<std::size_t>(p.dim)].shape == Shape::switch_;
            require(able.nodes.empty() && p.switches() == 1 && at_dim, "a switch that is in no dim");
        }
        require(network.medium->takes_switches, "a medium without ends at switches");
    }

    void check_custom(const Custom& c) const {
        require(c.slot_peer.size() == c.programs.size() && c.slot_tag.size() == c.programs.size(), "custom programs differ in length");
        require(c.roots.size() == (astra() ? c.programs.size() : 0), "custom programs without the order of their roots");
        for (std::size_t q = 0; q < c.programs.size(); ++q) {
            const Program& p = c.programs[q];
            check_program(p);
            if (astra()) check_roots(p, c.roots[q]);
            check_size(static_cast<double>(largest_message(p)));
            require(c.slot_peer[q].size == c.slot_tag[q].size, "custom slots differ in length");
            for (std::size_t i = 0; i < p.nodes(); ++i) {
                const auto kind = static_cast<Kind>(p.kind[i]);
                if (kind != Kind::send && kind != Kind::recv) continue;
                require(p.slot[i] >= 0 && static_cast<std::size_t>(p.slot[i]) < c.slot_peer[q].size, "custom slot out of range");
                const auto slot = static_cast<std::size_t>(p.slot[i]);
                require(c.slot_peer[q][slot] >= 0 && static_cast<std::size_t>(c.slot_peer[q][slot]) < c.program_of.size &&
                            c.slot_tag[q][slot] >= 0,
                        "custom peer out of range");
            }
        }
        for (std::size_t position = 0; position < c.program_of.size; ++position) {
            require(c.program_of[position] >= 0 && static_cast<std::size_t>(c.program_of[position]) < c.programs.size(),
                    "custom program out of range");
            const auto q = static_cast<std::size_t>(c.program_of[position]);
            const Program& p = c.programs[q];
            for (std::size_t i = 0; i < p.nodes(); ++i)
                if (const auto kind = static_cast<Kind>(p.kind[i]); kind == Kind::send || kind == Kind::recv)
                    require(static_cast<std::size_t>(c.slot_peer[q][static_cast<std::size_t>(p.slot[i])]) != position,
                            "a custom message to itself");
        }
    }

    // Every node without parents, once.
    static void check_roots(const Program& p, const View<std::int32_t>& roots) {
        std::vector<bool> seen(p.nodes());
        for (std::size_t i = 0; i < roots.size; ++i) {
            const auto node = static_cast<std::size_t>(roots[i]);
            require(roots[i] >= 0 && node < p.nodes() && p.parents[node] == 0 && !seen[node], "custom roots out of range");
            seen[node] = true;
        }
        require(static_cast<std::size_t>(std::count(p.parents.begin(), p.parents.end(), 0)) == roots.size, "custom roots missing");
    }

    // The participants of a phase, stride apart, must all be members.
    static void check_fits(const Collective& c, std::size_t members) {
        if (c.custom) require(c.custom->program_of.size == members, "a custom collective of another size");
        for (const Chunk& chunk : c.chunks)
            for (const Phase& p : chunk.phases)
                require(p.n == 1 || members % (static_cast<std::size_t>(p.n) * static_cast<std::size_t>(p.stride)) == 0,
                        "a phase that does not fit its group");
    }
};

}  // namespace

void check_plan(const Plan& plan, const Sound& sound) { Checker(plan, sound).check(); }

}  // namespace astrarium
