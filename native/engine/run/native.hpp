// The native rule book (design/0001-engine.md): batches by class, schedules as data, ports or links that are shared.
#pragma once
#include <deque>
#include <memory>
#include <unordered_map>

#include "clock/batches.hpp"
#include "plugins/foreign.hpp"
#include "fold/fold.hpp"
#include "nodes/groups.hpp"
#include "fold/quotient/image.hpp"
#include "nodes/message_key.hpp"
#include "nodes/pool.hpp"
#include "nodes/ready.hpp"
#include "fold/periods/recurrence.hpp"
#include "plan/run.hpp"
#include "run/describe.hpp"
#include "run/receive_delay.hpp"
#include "run/send_order.hpp"
#include "media/medium.hpp"
#include "media/ports.hpp"

namespace astrarium {

class Native final : public Carried {
public:
    Native(const Plan& plan, bool record, bool alone = false, const Plugins& plugins = {});
    Native(const Plan& plan, Beats& beats);  // periods that recur are counted
    // One rank per class; throws Unfoldable where that is not exact. Without `fold` no collective is measured.
    // conflicts: all collectives are timed, and those that meet others are noted. attempt: a result, unless it goes back too often.
    enum class Purpose { result, attempt, conflicts };
    struct TooManyReturns {};
    Native(const Plan& plan, Image& image, Fold* fold, bool record, Purpose purpose = Purpose::result);
    Outcome run();
    Alone run_alone();    // one member of collectives[0]; its messages arrive at itself
    Alone run_members();
    struct Sizes {  // in bytes
        double rank, member, chunk, message;
    };
    static const Sizes sizes;

private:
    static constexpr std::uint32_t none = 0xffffffffu;
    enum What : std::uint32_t {
        node_over,      // a = rank, b = node
        send_over,      // a = message: delivered at its destination
        receive_over,   // a = chunk state, low = first receive, b = last one: complete
        phase_started,  // a = chunk state: sends without needs may depart
        phase_over,     // a = chunk state: its last send is delivered, its last receive complete
        look,           // a = rank: issue ready nodes
        leave_in_turn,  // a = chunk state, low = first send, b = the one after the last: ask for their links
        leave_source,   // a = message: asks for its first port or link
        reach_next,     // a = message: asks for the in port, or for what comes next
        custom_over,    // a = rank's custom run, b = node
        measured_over,  // a = rank, b = node: a measured collective ends by an arrival
        medium_due      // a = what: the medium asked to be called
    };

    struct Rank {
        std::uint32_t program = 0, node_base = 0;
        std::uint32_t inflight[lane_count] = {};
        std::uint32_t left = 0;
        bool looking = false;
        ReadySet ready;
        std::vector<std::pair<std::uint32_t, Tick>> comm;  // ready COMM nodes and since when
    };
    struct Aim {  // of a send of a class
        std::uint32_t position = none, receive = 0;  // of the receiving class among the members, and what it receives
        std::uint32_t source = 0;                    // the rank from which its equal's arrives
        Flight flight;
    };
    struct Sends {  // of a class in a phase
        std::vector<Aim> aims;
        std::vector<std::uint32_t> together;  // messages of the train that begins here; of others 1
    };
    struct Instance;
    struct ChunkState {  // one chunk at one member: its current phase
        std::uint32_t instance = 0, position = 0, chunk = 0;
        std::int32_t phase = -1;  // -1 before the first
        bool inside = false;
        const std::vector<Phase>* phases = nullptr;
        const Phase& now() const { return (*phases)[static_cast<std::size_t>(phase)]; }
        std::int32_t index = 0, base = 0;
        std::uint32_t next_send = 0, sends = 0, receives = 0, prefix = 0, complete = 0, undelivered = 0;
        std::size_t bits = 0;  // into delivered_/complete_ of the instance, for the current phase
        Tick over = 0;         // when those of its sends and receives are over that have no event of their own
        const Sends* known = nullptr;  // one rank per class, once asked for
    };
    struct Member {
        std::uint32_t rank = 0, node = none, chunks_left = 0;
        std::vector<std::uint32_t> entered, left;  // per list of visits
    };
    struct Instance {
        std::uint32_t collective = 0, group = 0, done = 0, serial = 0;
        std::vector<Member> members;
        std::vector<ChunkState> chunks;      // member * total_chunks + chunk
        std::vector<std::size_t> bit_base;   // per (member * total_chunks + chunk): first bit; phases follow
        std::vector<std::uint64_t> delivered, complete;
    };
    struct Message {
        enum For : std::uint8_t { node, chunk, custom } purpose = node;
        bool receives = false;  // foreign networks only: a receive that waits for its message
        std::uint32_t instance = 0, source_state = 0, state = 0, phase = 0, receive = 0;  // chunk
        std::uint32_t together = 1;                                                     // messages of a train: this one is the last
        std::uint32_t next = none;                                                      // the one that departs after it, in one event
        std::uint32_t queue = none;                                                     // of sends that come to be after it
        std::uint32_t rank = 0, node_index = 0;                                         // node: the sender's
        std::uint32_t source = 0;                                                       // the rank from which it arrives
        Flight flight;
        std::uint64_t high = 0, low = 0;
        std::int64_t tag = 0;
        std::uint32_t peer = 0;
    };
    struct Meeting {  // messages delivered but not yet wanted, receives posted but not yet delivered
        std::vector<std::uint64_t> posted;  // nodes, or custom run << 32 | node; those before `met` have met their message
        std::uint32_t met = 0, delivered = 0;
        bool waited_for() const { return met < posted.size(); }
    };
    struct Queue {  // sends of a participant that wait for one link, `left` of them from `next` on
        std::uint32_t instance = 0, state = 0, next = 0, left = 0;
        Medium::Turn turn;  // of the next one
    };
    struct Sender {  // a participant's chunk in its phase
        std::uint32_t instance, state, first, rank, node;  // first: of its sends in the schedule
        const Phase* phase;
        const Schedule* schedule;
        const ChunkState* chunk;
        const Sends* known;  // one rank per class
        std::uint32_t chunks;
        std::uint32_t receiver(std::uint32_t send) const {
            return static_cast<std::uint32_t>(chunk->base + peer_of(*schedule, chunk->index, schedule->send_peer[send]) * phase->stride);
        }
        std::int64_t size(std::uint32_t send) const { return (schedule->send_block_ptr[send + 1] - schedule->send_block_ptr[send]) * phase->block_size; }
    };
    struct CustomRun {
        std::uint32_t instance = 0, position = 0, left = 0;
        std::vector<std::int32_t> parents;
    };

    void prepare();
    void count_parents();

    // nodes
    void take_work();
    const Program& program_of(std::uint32_t rank) const { return (*programs_)[ranks_[rank].program]; }
    std::size_t number(const Rank& r, std::uint32_t rank, std::uint32_t node) const {
        return plugins_.growth ? plugins_.growth->number(rank, node) : r.node_base + node;
    }
    void make_ready(std::uint32_t rank, std::uint32_t node);
    void want_look(std::uint32_t rank);
    void issue_ready(std::uint32_t rank);
    std::uint32_t take_comm(std::uint32_t rank);
    std::uint32_t take_ready(std::uint32_t rank, int lane);
    void issue(std::uint32_t rank, std::uint32_t node);
    void complete_node(std::uint32_t rank, std::uint32_t node);
    void issue_send(std::uint32_t rank, std::uint32_t node, std::size_t slot);
    void issue_receive(std::uint32_t rank, std::uint32_t node, std::size_t slot);
    void issue_remote(std::uint32_t rank, std::uint32_t node);
    void check_peer(std::uint32_t rank, std::uint32_t node, std::uint32_t peer) const;

    // collectives
    void issue_collective(std::uint32_t rank, std::uint32_t node, std::size_t slot);
    std::uint32_t open_instance(std::uint32_t group, std::uint32_t collective, std::uint32_t serial);
    void join(std::uint32_t instance, std::uint32_t position, std::uint32_t node);
    void meet_lasting(std::uint32_t instance);
    void begin(std::uint32_t instance, std::uint32_t position);
    void advance(std::uint32_t instance, std::uint32_t position, std::uint32_t list);
    void enter(std::uint32_t instance, std::uint32_t position, std::uint32_t chunk, std::uint32_t phase);
    Sender sender_of(std::uint32_t instance, std::uint32_t state) const;
    Flight flight_of(const Sender& from, std::uint32_t send) const;
    std::uint32_t make_send(const Sender& from, std::uint32_t number, std::uint32_t together);
    void release_sends(std::uint32_t instance, std::uint32_t state);
    void queue_sends(std::uint32_t instance, std::uint32_t state, std::uint32_t number, std::uint32_t end);
    void send_next(std::uint32_t queue);
    void deliver(std::uint32_t message, Tick when);
    void delivered(Message& message);
    bool wanted(const Message& message) const;
    void receives_over(std::uint32_t instance, std::uint32_t state, std::uint32_t first, std::uint32_t last, Tick when);
    void receive_complete(std::uint32_t instance, std::uint32_t state, std::uint32_t first, std::uint32_t last);
    void try_leave(std::uint32_t instance, std::uint32_t state);
    void close_if_done(std::uint32_t instance);
    Tick receive_delay(const Instance& i, const ChunkState& s, std::uint32_t number) {
        return receive_delays_.of(s.now(), s.index, number, plan_.npu_of[i.members[s.position].rank]);
    }

    // one rank per class (native_image.cpp)
    struct Gathering {  // a collective that will be measured: who has come, and when
        std::uint32_t arrived = 0, collective = none;
        std::vector<Tick> at;
        std::vector<std::uint32_t> node;
    };
    std::uint32_t kind_of(std::uint32_t group) const { return group == membership_.all() ? Image::all : group + 1; }
    std::uint32_t place_of(std::uint32_t group, std::uint32_t position) const {
        return image_ ? image_->place(kind_of(group), membership_.rank(group, position)) : position;
    }
    const Sends& class_sends(const Instance& i, const ChunkState& s, const Phase& phase);
    void aim(std::uint32_t message, const Aim& aim, std::uint32_t chunks);
    Aim find_aim(std::uint32_t group, std::uint32_t mine, const Phase& phase, std::uint32_t to, std::uint32_t receive);
    std::vector<std::uint32_t> find_trains(const std::vector<Aim>& aims, const ChunkState& s, const Schedule& schedule);
    Tick depart_together(std::uint32_t message);
    void gather(std::uint32_t rank, std::uint32_t node, std::uint32_t group, std::uint32_t collective, std::uint32_t serial);
    void land(std::uint32_t message);
    void begin_measured(std::uint32_t group, std::uint32_t serial, const Gathering& all);
    struct Held {  // until when measured collectives use a class's ports of a dim, one way, and the last of them
        Tick until = 0, begin = 0;
        std::uint32_t kind = 0, serial = 0;
        Tick asked = 0;  // just after a message last asked for one
    };
    bool stands(std::uint32_t group, std::uint32_t serial, const Gathering& all, const Measured& measured, Tick begin);
    void stand(std::uint32_t group, std::uint32_t serial, const Gathering& all, const Measured& measured, Tick begin);
    const Measured* timed(std::uint32_t group, const Gathering& all, Tick begin);
    template <class Visit>
    void each_use(std::uint32_t group, const Gathering& all, const Measured& measured, Tick begin, Visit&& visit);
    void meet(const Held& held);
    void go_back_before(std::uint32_t kind, std::uint32_t serial, Tick begin);
    void keep_apart(std::int32_t npu, std::vector<std::vector<Held>>& held);

    // earlier states (native_history.cpp)
    struct History;
    struct HistoryEnd {
        void operator()(History* history) const;
    };
    auto state() {
        return std::tie(clock_, ranks_, finish_, busy_, late_, remote_free_, instances_, instance_free_, next_serial_, open_, messages_,
                        message_free_, meetings_, gatherings_, out_held_, in_held_, periods_, alone_done_, last_arrival_, skipped_,
                        instances_opened_, unfinished_);
    }
    void instant();
    void keep_history();
    void go_back();
    void forget_history();
    std::uint64_t interval(std::uint64_t state_size) const;
    std::uint64_t state_size() const;

    // periods that recur (native_periods.cpp)
    void count_periods(Beats& beats);
    void look_for_periods();
    void write_ranks();
    void write_instances();
    void write_gatherings();
    void write_held();
    void write_events();
    void write_event(const Keyed& event);
    void write_message(std::uint32_t message);
    void write_flight(const Flight& flight);
    std::vector<std::int64_t> counts() const;
    std::uint32_t issued(std::uint32_t group) const { return next_serial_[group].empty() ? 0 : next_serial_[group].front(); }
    void skip_periods(Recurrence::Jump jump);
    std::uint32_t skipped(std::uint32_t kind) const { return recurrence_ ? periods_.serials[kind] : 0; }  // collectives
    bool is_measured(std::uint32_t group, std::uint32_t serial);

    // custom collectives
    void start_custom(std::uint32_t instance, std::uint32_t position);
    void issue_custom(std::uint32_t run, std::uint32_t node);
    const Program& custom_program(const CustomRun& run) const;
    void custom_complete(std::uint32_t run, std::uint32_t node);
    void end_custom(std::uint32_t run);

    // messages
    std::uint32_t new_message();
    void post(std::uint32_t message);
    void depart(std::uint32_t message);
    Keyed arrives(std::uint32_t message) const;
    void arrive(std::uint32_t message);
    void handle(const Keyed& event);

    // for the medium
    Flight& flight(MessageId id) override { return messages_[id].flight; }
    void ask_again(MessageId id, Tick when) override { if (when != never) clock_.at(when, BatchClock::arrive, arrives(id)); }
    void delivered(MessageId id, Tick when) override { clock_.at(when, BatchClock::done, {messages_[id].high, messages_[id].low, send_over, id, 0}); }
    void wake(std::uint32_t what, Tick when, Turn turn) override {
        const bool after = turn == Turn::after;
        clock_.at(when, turn == Turn::end ? BatchClock::arrive : BatchClock::done, {after ? ~std::uint64_t{0} : 0, after ? what : 0, medium_due, what, 0});
    }
    Tick now() const override { return clock_.now; }
    std::int64_t tag(MessageId id) const override { return messages_[id].tag; }
    bool receives(MessageId id) const override { return messages_[id].receives; }

    // media that are told of receives, or have a clock of their own (native_receives.cpp)
    bool step_beside();
    void one_end_over(const Message& message);
    void post_receives(std::uint32_t instance, std::uint32_t state);
    void post_receive(std::uint32_t rank, std::uint32_t node, std::uint32_t peer, std::int64_t tag);
    std::int64_t tag_of(const Instance& i, std::uint32_t chunk, std::uint32_t phase, std::uint32_t number) const;

    void explain_stall() const;
    std::string describe(std::uint32_t rank, std::uint32_t node) const { return describe_node(plan_, program_of(rank), rank, node); }
    Outcome outcome();
    Traffic* traffic();

    const Plan& plan_;
    bool record_, alone_, scouts_ = false, attempts_ = false;
    Image* image_ = nullptr;
    Fold* fold_ = nullptr;
    Plugins plugins_;
    Tick alone_done_ = 0, last_arrival_ = -1;
    std::vector<std::uint8_t> late_;  // per rank: messages had arrived at the instant of its last end, before that end
    BatchClock clock_;
    std::unique_ptr<Ports> ports_;    // one of these, where no plug-in serves
    std::unique_ptr<Medium> medium_;
    Membership membership_;
    const Geometry geometry_;
    std::vector<Rank> ranks_;
    std::vector<std::int32_t> parents_;
    std::vector<Tick> start_, end_, finish_, busy_;
    std::vector<Tick> remote_free_;
    std::vector<Instance> instances_;
    std::vector<std::uint32_t> instance_free_;
    std::vector<std::vector<std::uint32_t>> next_serial_;                            // per group, member
    std::vector<std::deque<std::pair<std::uint32_t, std::uint32_t>>> open_;         // per group: serial, instance
    Pool<Message> messages_;
    std::vector<std::uint32_t> message_free_;
    std::vector<Queue> queues_;
    std::vector<std::uint32_t> queue_free_;
    std::unordered_map<MessageKey, Meeting, MessageKeyHash> meetings_;
    std::vector<CustomRun> custom_;
    std::vector<std::uint32_t> custom_free_;
    std::vector<Handed> handed_;
    std::uint32_t instances_opened_ = 0;
    std::uint64_t idle_ = 0;  // steps of a medium's clock since a message ended
    std::size_t unfinished_ = 0;
    std::vector<std::vector<Sends>> sends_;               // by family and class
    std::map<std::pair<std::uint32_t, std::uint32_t>, Gathering> gatherings_;  // by group, serial
    std::vector<std::vector<Held>> out_held_, in_held_;  // per class, dim
    const std::vector<Program>* programs_;  // the plan's, which may grow; or those of the periods
    struct Periods {
        struct Issue {
            std::uint32_t kind, serial;
            bool measured;
        };
        std::vector<Program> programs;       // the plan's, without what was skipped
        std::vector<std::uint32_t> serials;  // skipped, per kind
        std::vector<Issue> issues;           // of this period
        std::vector<std::uint32_t> number;   // of the open instances, in order
        std::uint64_t events = 0;            // skipped
    };
    std::unique_ptr<Recurrence> recurrence_;
    Periods periods_;
    std::unique_ptr<History, HistoryEnd> history_;
    std::vector<std::uint32_t> counted_down_;  // numbers of nodes: one parent fewer in `parents_`, since the first state that is kept
    Tick back_to_ = never;  // the run goes back before this time
    Tick skipped_ = 0;
    const SendOrders send_order_{plan_};
    ReceiveDelays receive_delays_{plan_};
};

inline constexpr Native::Sizes Native::sizes{sizeof(Native::Rank), sizeof(Native::Member), sizeof(Native::ChunkState), sizeof(Native::Message)};

// A run that does not fit into memory is refused: before it begins, and while messages pile up.
void refuse_too_large(const Plan& plan, bool record);
void refuse_too_many(std::size_t messages);

}  // namespace astrarium
