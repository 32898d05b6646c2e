// Collectives as messages: members meet, chunks walk their phases, a phase follows a Schedule.
#pragma once
#include <deque>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "nodes/groups.hpp"
#include "plan/rates.hpp"
#include "run/accelerator.hpp"
#include "run/custom_runs.hpp"
#include "run/instance.hpp"
#include "run/messages.hpp"
#include "run/nodes.hpp"
#include "run/schedules.hpp"
#include "run/turns.hpp"

namespace astrarium {

class Collectives {
public:
    Collectives(const Plan& plan, BatchClock& clock, Nodes& nodes, Messages& messages, const RunOptions& options);
    Collectives(const Collectives&) = delete;
    Collectives& operator=(const Collectives&) = delete;

    void issue(std::uint32_t rank, std::uint32_t node, std::size_t slot);
    std::uint32_t open(std::uint32_t group, std::uint32_t collective, std::uint32_t serial);
    void begin_alone(std::uint32_t instance) { instances_[instance].members[0].node = 0, begin(instance, 0); }
    void join(std::uint32_t instance, std::uint32_t position, std::uint32_t node);  // a member takes part from now on
    void end_member(std::uint32_t instance, std::uint32_t position);                // of a custom collective

    // Events.
    void release_sends(std::uint32_t instance, std::uint32_t state);
    void complete_receives(std::uint32_t instance, std::uint32_t state, std::uint32_t first, std::uint32_t last);
    void try_leave(std::uint32_t instance, std::uint32_t state);
    // Whether the receiver's chunk is in the phase already: it stays there until it has the message.
    bool wanted(const Message& m) const {
        const ChunkState& s = instances_[m.instance].chunks[m.state];
        return s.inside && s.phase == static_cast<std::int32_t>(m.phase) && s.node < 0;
    }
    bool to_switch(const Message& m) const { return m.purpose == Message::chunk && m.to_switch; }
    void deliver(MessageId id, Tick when);  // one that is wanted
    void take(const Message& message);      // that was delivered
    void end_one(const Message& message);   // where receives are messages, too

    const Instance& instance(std::uint32_t id) const { return instances_[id]; }
    Sender sender_of(std::uint32_t instance, std::uint32_t state) const;
    Flight flight_of(const Sender& from, std::uint32_t send) const;
    MessageId make_send(const Sender& from, std::uint32_t number, std::uint32_t together = 1);  // a message, or a train of them
    std::int64_t tag_of(const Instance& i, std::uint32_t chunk, std::uint32_t phase, std::uint32_t number) const;
    Turns& turns() { return turns_; }
    CustomRuns& custom() { return custom_; }
    const Membership& membership() const { return membership_; }
    Tick alone_done() const { return alone_done_; }
    bool alone_late() const { return alone_late_; }

    void explain(std::vector<Wait>& why) const;  // per rank
    // The state of a run that recurs.
    void write(StateWords& to);
    std::uint32_t number(std::uint32_t instance) const { return number_[instance]; }  // of the open instances, in order
    std::size_t open_parts() const;
    std::uint32_t groups() const { return static_cast<std::uint32_t>(open_.size()); }
    std::uint32_t issued(std::uint32_t group) const { return next_serial_[group].empty() ? 0 : next_serial_[group].front(); }
    std::uint32_t skipped(std::uint32_t group) const { return skipped_[group]; }
    const std::vector<std::uint32_t>& issues(std::uint32_t group) const { return next_serial_[group]; }  // per member, without skipped
    void skip(std::uint32_t group, std::uint32_t collectives) { skipped_[group] += collectives; }
    std::uint64_t bytes() const;  // roughly
    auto state() { return std::tie(instances_, free_, next_serial_, open_, opened_, skipped_, number_); }

private:
    std::uint32_t place_of(std::uint32_t group, std::uint32_t position) const {
        return equals_ ? equals_->place(group, position) : position;
    }
    Tick receive_delay(const Instance& i, const ChunkState& s, std::uint32_t number) {
        return receive_delays_.of(s.now(), s.index, number, plan_.npu_of[i.members[s.position].rank]);
    }
    void check_alike(std::uint32_t rank, std::uint32_t node, const Collective& mine, std::uint32_t instance, std::uint32_t serial) const;
    void meet_lasting(std::uint32_t instance);
    void begin(std::uint32_t instance, std::uint32_t position);
    void advance(std::uint32_t instance, std::uint32_t position, std::uint32_t list);
    void enter(std::uint32_t instance, std::uint32_t position, std::uint32_t chunk, std::uint32_t phase);
    std::int32_t end_of(const Sender& from, std::uint32_t send) const;  // NPU or switch
    std::uint64_t key_of(const Instance& i, const ChunkState& s) const;
    void add_up(const Message& message);  // at a switch
    void post_receives(std::uint32_t instance, std::uint32_t state);
    bool in_turn() const {
        const MediumKind& medium = *plan_.network.medium;
        if (reroutes(plan_)) return false;  // what is to leave one after the other may go other ways
        return medium.queues || (medium.pulls && medium.pulls(plan_.network));
    }
    void release_in_turn(const Sender& from, ChunkState& s);
    void receive_at(std::uint32_t instance, std::uint32_t state, std::uint32_t first, std::uint32_t last, Tick when);
    void close_if_done(std::uint32_t instance);

    const Plan& plan_;
    BatchClock& clock_;
    Nodes& nodes_;
    Messages& messages_;
    const bool alone_;
    Equals* const equals_;
    Accelerator* const accelerator_;
    Membership membership_;
    const Geometry geometry_;
    const SendOrders send_order_;
    ReceiveDelays receive_delays_;
    Turns turns_;
    CustomRuns custom_;
    std::vector<Instance> instances_;
    std::vector<std::uint32_t> free_;
    std::unordered_map<std::int32_t, Tick> adder_free_;                      // per switch that added
    std::vector<std::vector<std::uint32_t>> next_serial_;                    // per group, member
    std::vector<std::deque<std::pair<std::uint32_t, std::uint32_t>>> open_;  // per group: serial, instance
    std::uint32_t opened_ = 0;
    Tick alone_done_ = 0;
    bool alone_late_ = false;
    std::vector<std::uint32_t> skipped_;  // per group: collectives of periods that were left out
    std::vector<std::uint32_t> number_;
};

}  // namespace astrarium
