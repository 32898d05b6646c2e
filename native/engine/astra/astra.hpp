// ASTRA-sim's rule book: first scheduled, first run within a ns; token machines over per-dim queues.
// One class, its members by layer: astra_nodes.inl, astra_collectives.inl, astra_machines.inl, astra_messages.inl,
// astra_custom.inl. Every rule is one that ASTRA-sim was measured to follow.
#pragma once
#include <deque>
#include <map>
#include <numeric>
#include <unordered_map>

#include "astra/astra_bus.hpp"
#include "clock/clock.hpp"
#include "media/distance.hpp"
#include "nodes/groups.hpp"
#include "astra/hash_order.hpp"
#include "nodes/message_key.hpp"
#include "nodes/ready.hpp"
#include "plan/run.hpp"
#include "media/usage.hpp"

namespace astrarium {

class Astra {
public:
    Astra(const Plan& plan, bool record, bool alone = false);
    Outcome run();
    Alone run_alone();    // one member of collectives[0]; its messages arrive at itself
    Alone run_members();

private:
    static constexpr std::uint32_t none = 0xffffffffu;

    // Events of the global queue.
    enum Kind_ : std::uint32_t { own_batch, chunk_arrives, chunk_received, message_arrives, callback_due, next_hop, link_free };

    // Events of one NPU: all of one instant run as one batch, where the first of them was scheduled.
    enum Own_ : std::uint32_t { node_done, bundle_ready, remote_free, custom_done, bus_event };
    struct Own {
        std::uint32_t next, kind, a, b;
    };
    struct Batch {
        Tick time;
        std::uint32_t head, tail;
    };

    // --- nodes
    struct Rank {
        std::uint32_t program, node_base;  // node_base: into left_/start_/end_
        std::uint32_t inflight[lane_count] = {};
        std::uint32_t ongoing = 0;
        bool finished = false;
        int priority_counter = 0;
        ReadySet ready;
    };
    void fire(std::uint32_t rank);
    void complete(std::uint32_t rank, std::uint32_t node);
    void finish_node(std::uint32_t rank, std::uint32_t node, bool inside_issue);
    void issue_ready(std::uint32_t rank);
    void issue(std::uint32_t rank, std::uint32_t node);
    void check_finished(std::uint32_t rank);
    void issue_remote(std::uint32_t rank, std::uint32_t node);
    void start_remote(std::uint32_t rank, std::uint32_t node, std::uint32_t port);
    void remote_done(std::uint32_t port);

    // --- collectives
    struct Instance {  // one collective of one group in flight
        std::uint32_t collective, group, members, streams, serial;
        std::uint32_t issued = 0, done = 0;
        bool live = false;
        std::vector<std::uint32_t> node, left;  // per member: its node, its unfinished chunks
        std::vector<std::uint16_t> route;       // per member, chunk, phase: queue | direction << 14 | tree << 15
        std::vector<std::int16_t> surplus;      // per member, chunk, phase, source: arrivals minus posted receives
        std::vector<std::uint32_t> phase_offset;  // per chunk kind, phase: into surplus
        std::uint32_t surplus_width = 0, phases = 0;
    };
    struct Group {
        std::vector<std::uint32_t> next;  // per member: how many collectives it has issued here
        std::deque<std::pair<std::uint32_t, std::uint32_t>> open;  // serial, instance
    };
    enum State : std::uint8_t { at_begin, wait_two, wait_one, send_parent, wait_parent, send_children, at_end };
    enum class Signal { init, received, general };
    struct Stream {  // one chunk at one member
        const Phase* phase;
        std::uint32_t instance, position, rank, chunk;
        std::int32_t phase_number, priority;
        std::uint32_t queue, next;  // next: of equal priority, while it waits in its queue
        bool initialized, local, toggle;
        State state;
        std::int32_t n, index, base;  // place in the phase's ring
        std::int32_t parallel, sends_left, free, inserted, popped, received, zero, nonzero;
        std::int32_t offset, step, packet_step, direction;  // halving_doubling: partner distance, visit; direction +1, -1
        bool halving;
        std::int64_t message, packet_size;
        Tick reduce_delay, delay;
        std::int32_t parent, left, right;  // double_binary_tree: positions in the ring, or -1
        bool tree_min;
        std::int32_t reductions;
        Tick last_wait, last_received, begun;
    };
    std::uint32_t instance_for(std::uint32_t group, std::uint32_t position, const Collective& c, std::uint32_t id,
                               std::uint32_t rank, std::uint32_t node);
    void issue_collective(std::uint32_t rank, std::uint32_t node);
    void start_chunks(std::uint32_t instance, std::uint32_t position, std::uint32_t rank, int priority);
    void choose_routes(Instance& instance, std::uint32_t position, std::uint32_t chunk, std::uint32_t rank);
    void proceed(std::uint32_t s);
    void member_chunk_done(std::uint32_t s);
    void insert_stream(std::uint32_t rank, std::uint32_t queue, std::uint32_t s);
    void start_waiting(std::uint32_t rank, std::uint32_t queue);
    void note_insert(std::size_t queue, std::uint32_t s);
    void settle_ties();
    const std::vector<Phase>& phases_of(const Stream& s) const;
    std::uint32_t take_streams(std::uint32_t count);

    // --- machines
    void enter_phase(std::uint32_t s);
    void init_machine(std::uint32_t s);
    void init_tree(Stream& s);
    struct Packet {
        bool first, reduces, sends_back;
    };
    Packet next_packet(Stream& s);
    void insert_packet(std::uint32_t s);
    void make_steps(Stream& s);
    bool moves_alone(const Stream& s) const;
    static bool own_delay_is_fixed(const Stream& s);
    Tick own_delay(const Stream& s) const;
    void bundle(std::uint32_t s, bool to_ma, bool reduces, bool sends_back, std::int64_t size);
    Tick reduction(const Stream& s, std::int64_t size) const;
    void run_general(std::uint32_t s);
    void run_received(std::uint32_t s);
    bool send_next(std::uint32_t s);
    void try_exit(std::uint32_t s);
    void run_tree(std::uint32_t s, Signal signal);
    std::uint32_t rank_at(const Stream& s, int index) const;
    std::uint32_t stream_at(const Stream& s, int index) const;

    // --- messages
    struct Callback {
        enum What : std::uint8_t { nothing, node, stream, request_in, request_out, custom } what = nothing;
        std::uint32_t a = 0, b = 0;
    };
    struct Entry {  // one message matched by (tag, source, destination, size) in order
        Callback sent, received;
        bool arrived = false, wanted = false;
    };
    struct Lane_ {
        std::uint32_t sends = 0, receives = 0;
        std::deque<std::uint32_t> entries;  // numbers first..
        std::uint32_t first = 0;
    };
    struct Pending {  // a message that waits for its rendezvous
        MessageKey key;
        Callback callback;
    };
    struct Message {  // a message between two devices (links)
        Event then;
        std::int64_t size;
        std::uint32_t next;
        std::int32_t at, destination, direction;
        bool first;  // on its first link
    };
    struct Link {
        std::uint32_t head = none, tail = none;
        bool busy = false;
        Tick last_first = -1, last_later = -1;  // when a message last asked, on its first link or a later one
    };
    void chunk_send(std::uint32_t s, int to_index, std::uint32_t source_number, std::int64_t size);
    void chunk_receive(std::uint32_t s, int from_index, std::uint32_t source_number, std::int64_t size);
    void chunk_arrived(std::uint32_t s, std::uint32_t phase, std::uint32_t source_number);
    void note_arrival(std::uint32_t rank, std::uint32_t stream, std::uint32_t source);
    std::int16_t& surplus(const Stream& s, std::uint32_t phase, std::uint32_t source_number);
    void send(MessageKey key, Callback sent, bool may_rendezvous);
    void receive(MessageKey key, Callback received, bool may_rendezvous);
    std::uint32_t entry(Lane_& lane, std::uint32_t number);
    void message_arrived(std::uint32_t id);
    void call(Callback callback);
    void transmit(std::uint32_t from, std::uint32_t to, std::int64_t size, Event then);
    Tick unshared_delay(std::uint32_t from_npu, std::uint32_t to_npu, std::int64_t size);
    void hop(std::uint32_t message);
    void note_use(std::uint32_t link, std::int64_t size);
    void start_link(std::uint32_t link, std::uint32_t message);
    std::uint32_t next_link(Message& m) const;
    void link_freed(std::uint32_t link);

    // --- custom collectives
    struct CustomRun {
        std::uint32_t stream = none, ongoing = 0;
        std::vector<std::int32_t> left;
        std::vector<std::uint32_t> ready;  // in the order in which they became free
        std::uint32_t grown = 0;           // how often ASTRA-sim's set of free nodes has grown, see hash_order
    };
    void start_custom(std::uint32_t s);
    void issue_custom(std::uint32_t s);
    void custom_completed(std::uint32_t s, std::uint32_t node);

    // --- clock
    void own(std::uint32_t npu, Tick delta, std::uint32_t kind, std::uint32_t a, std::uint32_t b = 0);
    void run_batch(std::uint32_t npu);
    void handle(const Event& event);
    void handle_own(std::uint32_t npu, const Own& own);

    Outcome outcome();
    void explain_stall() const;
    std::string describe(std::uint32_t rank, std::uint32_t node) const;

    const Plan& plan_;
    const Policy& policy_;
    bool record_, alone_;
    bool watch_ = false, issuing_ = false, tie_ = false;  // watch_: notice ties, see Alone::tie
    Tick alone_done_ = 0;
    struct Tied {  // streams that entered a queue at one instant: their order is a choice unless they start together
        std::size_t queue;
        Tick instant;
        std::vector<std::uint32_t> streams;
    };
    std::vector<Tied> tied_;
    struct Arrival {  // the last instant at which chunks of a rank received messages
        Tick instant = -1;
        std::uint32_t stream = 0, source = 0;
        bool streams = false, sources = false;  // several of them
    };
    std::vector<Arrival> last_arrival_;  // per rank
    std::vector<std::pair<Tick, std::uint32_t>> last_insert_;  // per rank and queue: when, who
    Tick settled_ = -1;
    Geometry geometry_;
    Clock clock_;
    std::vector<Own> own_pool_;
    std::uint32_t own_free_ = none;
    std::vector<std::vector<Batch>> batches_;

    std::vector<Rank> ranks_;
    std::vector<std::int32_t> left_;
    std::vector<Tick> start_, end_, finish_, busy_;
    std::vector<bool> remote_busy_;
    std::vector<std::deque<std::pair<std::uint32_t, std::uint32_t>>> remote_waiting_;

    Membership membership_;
    std::vector<Group> groups_;  // [groups] + all ranks
    std::vector<Instance> instances_;
    std::vector<std::uint32_t> instance_free_;
    std::uint32_t serial_ = 0;
    std::vector<Stream> streams_;
    std::map<std::uint32_t, std::vector<std::uint32_t>> stream_free_;
    struct Waiting {  // the streams of one priority that wait in a queue, in order of arrival
        std::int32_t priority;
        std::uint32_t first, last;
    };
    std::vector<std::vector<Waiting>> queues_;  // [rank * queues + queue], the highest priority last
    std::vector<std::uint32_t> running_;        // [rank * queues + queue] streams that have started
    struct Allocator {
        std::uint32_t any = 0, first = 0, last = 0;
    };
    std::vector<Allocator> allocators_;  // [rank * dims + dim]
    std::vector<std::uint8_t> tree_turn_;  // [rank][op][dim]
    std::uint32_t queue_count_ = 0, threshold_ = 1;

    std::unordered_map<MessageKey, Lane_, MessageKeyHash> lanes_;
    std::vector<Entry> entries_;
    std::vector<std::uint32_t> entry_free_;
    std::vector<Pending> pending_;
    std::vector<Callback> callbacks_;
    std::vector<std::uint32_t> callback_free_;
    std::vector<Message> messages_;
    std::uint32_t message_free_ = none;
    std::vector<Link> links_;
    std::vector<std::int64_t> port_bytes_;
    std::vector<Tick> port_busy_;
    Usage usage_;
    std::int64_t last_size_ = -1;
    Tick last_serial_ = 0, last_transfer_ = 0;
    std::unordered_map<std::uint32_t, CustomRun> custom_;
    std::deque<Bus> buses_;
};

}  // namespace astrarium
