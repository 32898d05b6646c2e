// The native rule book (design/0001-engine.md): batches by class, schedules as data, ports or links that are shared. A run owns its
// parts, and says in which order an instant goes.
#pragma once
#include "plan/run.hpp"
#include "run/accelerator.hpp"
#include "run/collectives.hpp"
#include "run/post.hpp"

namespace astrarium {

class Native final : Nodes::Tasks, Messages::Ends {
public:
    Native(const Plan& plan, const RunOptions& options);

    Outcome run();      // start, run_to_end, finish
    void start();       // nodes without parents become ready
    bool step();        // runs the next instant; false if the run is over
    void run_to_end();  // runs all instants
    Outcome finish();   // throws Stall if nodes wait for ever; Endless with one rank per class
    Outcome outcome();  // without a look at nodes that wait
    const Parts& parts() const { return parts_; }
    // All that a run with one rank per class changes, to save and restore; but what nodes wait for (Nodes::changes).
    auto state() {
        return std::tuple_cat(std::tie(clock_), nodes_.state(), messages_.state(), messages_.ports()->state(), post_.state(),
                              remote_.state(), collectives_.state());
    }

private:
    void issue(Kind kind, std::uint32_t rank, std::uint32_t node, std::size_t slot) override;
    void deliver(MessageId id, Tick when) override;
    void send_next(std::uint32_t queue) override { collectives_.turns().send_next(queue); }
    MessageId pull_next(std::uint32_t queue) override { return collectives_.turns().pull_next(queue); }
    void handle(const Keyed& event);
    struct Handler {  // for the clock
        Native& run;
        void event(const Keyed& event) const {
            run.idle_ = event.kind == medium_due ? run.idle_ + 1 : 0;
            run.handle(event);
        }
        void arrival(MessageId id) const { run.idle_ = 0, run.nodes_.arrival(), run.messages_.arrive(id); }
        Keyed key(MessageId id) const { return run.messages_.arrives(id); }
        // Messages lie all over their pool: of many that arrive in one instant each would wait for memory.
        void soon(const Keyed& event) const {
            if (event.kind == reach_next || event.kind == leave_source || event.kind == send_over) run.messages_.prefetch(event.a);
        }
    };
    void land(MessageId id);      // it is there, or at a switch that adds it first
    void take_out(MessageId id);  // and hand it to whom it is for
    void end_one(const Message& message);
    bool step_beside();  // a medium with a clock of its own
    void stop_beyond() const;
    void explain_stall();

    const Plan& plan_;
    const bool record_, own_clock_;  // of traffic; of the medium
    const Tick most_;
    const Equals* const equals_;
    const Accelerator* const accelerator_;
    BatchClock clock_;
    Nodes nodes_;
    Messages messages_;
    Post post_;
    RemoteMemory remote_;
    Collectives collectives_;
    const Parts parts_;
    std::uint64_t idle_ = 0;  // steps of a medium's clock since a message ended
};

}  // namespace astrarium
