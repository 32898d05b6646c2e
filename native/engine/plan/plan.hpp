// The engine's input: views over the arrays of astrarium.engine.plan.Plan. Times in ps, sizes in bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace astrarium {

using Tick = std::int64_t;
inline constexpr Tick never = std::numeric_limits<Tick>::max();

// A borrowed array; the Python Plan owns the memory for the length of the call.
template <class T>
struct View {
    const T* data = nullptr;
    std::size_t size = 0;
    const T& operator[](std::size_t i) const { return data[i]; }
    const T* begin() const { return data; }
    const T* end() const { return data + size; }
    void skip(std::size_t n) { data += n, size -= n; }
};

// Input that no model here runs (UnsupportedError), faults of a trace (TraceError), runs that cannot go on (StallError).
struct Place {  // of a fault: rank, node's id and what the node does, as far as it has them
    std::optional<std::uint32_t> rank;
    std::optional<std::uint64_t> node;
    std::string work;
};
struct Fault : std::runtime_error {
    explicit Fault(const std::string& what, Place at = {}) : std::runtime_error(what), place(std::move(at)) {}
    Place place;
};
struct Unsupported : Fault {
    using Fault::Fault;
};
struct BadTrace : Fault {
    using Fault::Fault;
};
struct Wait {  // who waits for what, in a sentence; of which rank, and the id of the node that it names first
    std::string text;
    std::optional<std::uint32_t> rank;
    std::optional<std::uint64_t> node;
};
struct Stall : std::runtime_error {
    explicit Stall(std::vector<Wait> all) : std::runtime_error("stall"), waits(std::move(all)) {}
    std::vector<Wait> waits;
};

enum class Kind : std::uint8_t { delay, collective, send, recv, remote, skip };
enum Lane : int { lane_compute, lane_comm, lane_cpu, lane_p2p, lane_copy, lane_count };
enum class Shape : int { ring, switch_, fully_connected, ring_one_way, mesh, hypercube };
enum class Order : int { canonical, astra_sim };
enum class Algorithm : int { schedule, ring, direct, halving_doubling, double_binary_tree, custom };
enum class Pick : int { any, first_half, last_half };
enum class RemoteKind : int { none, per_npu, per_node, pool };
enum Op : int { op_all_reduce, op_reduce, op_all_gather, op_gather, op_scatter, op_broadcast, op_all_to_all, op_reduce_scatter };
enum class PeerMode : int { relative, xor_, absolute };

struct Program {
    View<std::uint64_t> node_id;
    View<std::uint8_t> kind;
    View<std::int16_t> lane;
    View<std::int64_t> duration, busy, size;
    View<std::int32_t> slot, parents, child_ptr, child;
    std::int32_t skipped = 0;  // nodes before the first: `child` counts them
    std::size_t nodes() const { return node_id.size; }
    void skip(std::size_t n) {
        node_id.skip(n), kind.skip(n), lane.skip(n), duration.skip(n), busy.skip(n), size.skip(n), slot.skip(n), parents.skip(n),
            child_ptr.skip(n);
        skipped += static_cast<std::int32_t>(n);
    }
};

struct Schedule {
    PeerMode mode = PeerMode::absolute;
    int n = 0, switches = 0;  // switches that compute are places n and above
    View<std::int32_t> program, send_ptr, send_peer, send_needs, send_match, send_block_ptr, recv_ptr, recv_peer;
    View<std::uint8_t> recv_reduce;
};

// The participant that a send or receive of participant `index` names.
inline int peer_of(const Schedule& s, int index, int peer) {
    if (s.mode == PeerMode::relative) return (index + peer) % s.n;
    return s.mode == PeerMode::xor_ ? index ^ peer : peer;
}

struct InSwitch {     // what the switches of a phase can do; see astrarium.engine.plan.InSwitch
    double rate = 0;  // bytes per ns, 0: the phase has none
    Tick latency = 0;
    std::vector<std::int32_t> nodes;
};

struct Phase {
    int dim = 0, op = 0;
    Algorithm algorithm = Algorithm::schedule;
    std::int64_t size = 0;
    int n = 1, stride = 1;
    Pick pick = Pick::any;
    int window = -1;
    bool local = false;
    const Schedule* schedule = nullptr;
    std::int64_t block_size = 0;
    InSwitch in_switch = {};
    Tick lasts = 0;  // above 0: nobody sends, all end so long after the last of the phase's participants has come
    int switches() const { return schedule ? schedule->switches : 0; }
};

struct Chunk {
    int repeat = 1;
    std::vector<Phase> phases;
};

struct Custom {
    std::vector<Program> programs;
    View<std::int32_t> program_of;
    std::vector<View<std::int32_t>> slot_peer, slot_tag;
    std::vector<View<std::int32_t>> roots;  // ASTRA-sim's order: per program the nodes without parents, as they become free
};

struct Visit {  // a chunk in one of its phases
    std::uint32_t chunk = 0, phase = 0;
};

struct Collective {
    int op = 0;
    std::int64_t size = 0;
    std::vector<Chunk> chunks;
    int active_chunks = 1;  // visits of one list at a time; 0: all
    std::optional<Custom> custom;
    Tick lasts = 0;                         // from the last member's coming to the end of all; 0: as long as its messages take
    std::vector<std::vector<Visit>> turns;  // lists of visits; none: one per phase number, chunks in order
    std::vector<std::uint32_t> turn_of;     // per chunk * max_phases + phase: its list
    int total_chunks = 0;
    int max_phases = 0;
    bool in_switch = false;                                                                         // some phase has switches that compute
    bool meets = false;                                                                             // some phase lasts a given time
    bool same_work(const Collective& other) const { return op == other.op && size == other.size; }  // whatever the algorithm

    std::size_t lists() const { return turns.empty() ? static_cast<std::size_t>(max_phases) : turns.size(); }
    std::size_t visits(std::uint32_t list) const { return turns.empty() ? static_cast<std::size_t>(total_chunks) : turns[list].size(); }
    Visit visit(std::uint32_t list, std::uint32_t number) const { return turns.empty() ? Visit{number, list} : turns[list][number]; }
    std::uint32_t list_of(std::uint32_t chunk, std::uint32_t phase) const {
        return turns.empty() ? phase : turn_of[static_cast<std::size_t>(chunk) * static_cast<std::size_t>(max_phases) + phase];
    }
};

struct Speed {
    double bandwidth = 1, latency = 0;  // of a link: bytes per ns, ns
};

struct Dim {
    Shape shape = Shape::ring;
    int npus = 1;
    double bandwidth = 1, latency = 0;
    std::vector<Speed> ends = {};  // of a switch: its last places are memories with links of their own
    Speed link(int place) const {  // between a place and the switch
        const int first = npus - static_cast<int>(ends.size());
        return place < first ? Speed{bandwidth, latency} : ends[static_cast<std::size_t>(place - first)];
    }
};

class Medium;
class Carried;
struct Plan;
struct Network;
struct Graph;

// A class of media and its traits (design/0008). `name` is the back end's.
struct MediumKind {
    std::string_view name;
    bool astra_sim = false;                   // serves ASTRA-sim's rule book, and no other
    bool meets = true;                        // messages may wait for each other
    bool on_ports = false;                    // they wait only at ports of their two ends: any collective may fold
    bool on_links = false;                    // they wait at links between NPUs: only collectives of all ranks may fold
    bool takes_switches = false;              // messages may begin and end at switches
    bool takes_graph = false;                 // Network::graph may give its links, and Plan::changes may change them
    bool own_clock = false;                   // the medium keeps a clock beside the run's: Medium::next, run, busy
    bool receives = false;                    // receives are posted as messages, too: Carried::receives tells which a message is
    bool queues = false;                      // messages queue at their first link (Medium::reserve, leave): those that wait need not exist
    bool (*pulls)(const Network&) = nullptr;  // the medium calls for the message behind one that has left (Carried::follow): nor need they
    const char* never_folds = nullptr;        // the reason why no run on it folds
    void (*check)(const Network&) = nullptr;  // throws Unsupported
    std::unique_ptr<Medium> (*open)(const Plan&, bool record, Carried&) = nullptr;  // null: the run has it, or a plug-in serves
};

// See astrarium.engine.plan.PacketRules.
struct PacketRules {
    std::int64_t size = 4096, header = 0, buffer = 0;  // bytes
    bool spray = false;
    std::int64_t seed = 0;
    std::string transport = "credits";
    std::map<std::string, double, std::less<>> settings;             // of the transport
    std::map<std::string, std::vector<double>, std::less<>> tables;  // of the transport: rows, one after the other
    std::string inside;                                              // 1: inside a host; per link of the graph, else per dim; or empty
    bool queues = false;                                             // record each link's queue over time
    std::int64_t threads = 1;                                        // change no integer
};

struct Network {
    const MediumKind* medium = nullptr;
    std::vector<Dim> dims;
    bool whole_ns = false, cut_through = false;
    PacketRules packets;                 // for media of packets
    std::shared_ptr<const Graph> graph;  // null: the dims say it all
    std::size_t memories() const {       // at switches
        std::size_t count = 0;
        for (const Dim& dim : dims) count += dim.ends.size();
        return count;
    }
};

enum class Changing : std::uint8_t { npu, link };
struct Changes {  // of speed, while it runs; see astrarium.engine.plan.Changes
    View<std::int64_t> time;
    View<std::uint8_t> what;
    View<std::int32_t> number;
    View<std::int64_t> factor;
};
class Rates;

struct Remote {
    RemoteKind kind = RemoteKind::none;
    std::int64_t latency = 0;
    double bandwidth = 1;
    int npus_per_node = 1;
};

struct SharedBus {
    Tick L = 0, o = 0, g = 0;
    double G = 0;
    std::int64_t reduction_delay = 1;
};

struct Policy {
    Order order = Order::canonical;
    int queues_per_dim = 1, active_chunks = 1, lifo = 1;
    Tick endpoint_delay = 0;
    double reduce_bandwidth = 0;
    bool rendezvous = false;
    std::optional<SharedBus> shared_bus;
};

struct Plan {
    int npus = 0;
    std::vector<Program> programs;
    View<std::int32_t> program_of, npu_of;
    View<std::int64_t> slot_ptr;
    View<std::int32_t> slot_a, slot_b, slot_c;
    std::vector<View<std::int32_t>> groups;
    std::vector<Collective> collectives;
    std::vector<Schedule> schedules;
    Network network;
    Policy policy;
    Remote remote;
    int lanes[lane_count] = {1, 1, 1, 1, 1};
    View<double> reduce_bandwidth;  // per NPU, or empty: the policy's
    Changes changes;
    std::shared_ptr<const Rates> npu_rates, link_rates;  // of the changes; null where there are none

    std::size_t ranks() const { return program_of.size; }
    double reduction_rate(std::int32_t npu) const {
        return reduce_bandwidth.size ? reduce_bandwidth[static_cast<std::size_t>(npu)] : policy.reduce_bandwidth;
    }
    const Program& program(std::size_t rank) const { return programs[program_of[rank]]; }
};

// Why equal ranks cannot run once, or null.
inline const char* never_folds(const Plan& plan) {
    if (plan.changes.time.size > 0) return "speeds that change while it runs";
    if (plan.network.memories() > 0) return "memories at switches";
    for (const Collective& c : plan.collectives)
        if (c.in_switch && !plan.network.medium->on_ports) return "switches that compute, over links";
    for (const Collective& c : plan.collectives)
        for (const Chunk& chunk : c.chunks)
            for (const Phase& p : chunk.phases)
                if (p.switches() > 0 && p.n != plan.network.dims[static_cast<std::size_t>(p.dim)].npus)
                    return "groups that share a switch that computes";
    return plan.network.graph ? "links of a graph" : plan.network.medium->never_folds;
}

// What a medium of packets measured; see astrarium.engine.outcome.Packets. Per link, and per message.
struct PacketCounts {
    std::int64_t hops = 0;
    std::vector<std::int64_t> queue, buffer, marks, pauses;
    std::vector<Tick> paused;
    std::vector<std::int32_t> source, destination;
    std::vector<std::int64_t> size, lost;
    std::vector<Tick> asked, arrived;
    Tick width = 0;                     // of a bin of the timelines, ps
    std::vector<std::int32_t> watched;  // links with timelines
    std::vector<std::int64_t> longest;  // [watched * bins]
    std::vector<Tick> paused_in;
};

// What a run measured; see astrarium.engine.outcome.Outcome.
struct Outcome {
    std::vector<std::int32_t> row;
    std::vector<Tick> finish, busy;
    std::vector<std::int64_t> node_ptr;
    std::vector<Tick> start, end;
    std::vector<std::int32_t> link_dim, link_from, link_to;
    std::vector<std::int32_t> link_port;    // native networks: which of the NPU's ports of the dim; not reported
    std::vector<std::int32_t> link_number;  // of a graph
    std::vector<std::int64_t> link_bytes;
    std::vector<Tick> link_busy;
    Tick use_width = 0;                     // of a bin, ps
    std::vector<Tick> use_busy;             // [dims * bins]
    std::uint64_t events = 0, counted = 0;  // counted: of them, those of periods that recur, which did not run
    bool folded = false;
    std::string unfolded_because;
    std::vector<std::string> how;  // plan/how.hpp
    PacketCounts packets;
};

// The number of a rank's first node among those of all ranks.
inline std::uint32_t node_number(std::size_t nodes) {
    if (nodes > 0xffffffffu) throw Unsupported("more than 2^32 nodes of all ranks together; with fold: auto equal ranks count once");
    return static_cast<std::uint32_t>(nodes);
}

// Apart, so that what calls it stays short.
[[noreturn, gnu::cold, gnu::noinline]] inline void refuse(const char* what) { throw Unsupported(what); }

inline Tick add(Tick a, Tick b) {
    Tick sum;
    if (__builtin_add_overflow(a, b, &sum)) refuse("time exceeds 2^63 ps (106 days)");
    return sum;
}

inline Tick times(std::int64_t n, Tick t) {
    Tick product;
    if (__builtin_mul_overflow(n, t, &product)) refuse("time exceeds 2^63 ps (106 days)");
    return product;
}

}  // namespace astrarium
