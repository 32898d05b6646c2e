// The native rule book (design/0001-engine.md): batches by class, schedules as data, ports or links that are shared. A run owns its
// parts, and says in which order an instant goes.
#pragma once
#include <memory>
#include <optional>

#include "plan/run.hpp"
#include "run/collectives.hpp"
#include "run/custom_runs.hpp"
#include "run/history.hpp"
#include "run/post.hpp"
#include "run/promotion.hpp"
#include "run/undisturbed.hpp"

namespace astrarium {

class Native final : Nodes::Tasks, Messages::Ends {
public:
    Native(const Plan& plan, bool record, bool alone = false, const Plugins& plugins = {});
    Native(const Plan& plan, bool record, Beats& beats);                            // periods that recur are counted
    Native(const Plan& plan, bool record, Undisturbed& undisturbed, Beats& beats);  // and what nothing disturbs is timed
    // One rank per class; throws Unfoldable where that is not exact. Without `folded` no collective is measured.
    Native(const Plan& plan, Quotient& quotient, const Folded* folded, bool record);
    Outcome run();
    Alone run_alone();  // one member of collectives[0]; its messages arrive at itself
    Alone run_members();
    AloneOnLinks run_on_links(const std::vector<Coming>& comings);  // collectives[0] by itself

private:
    friend class History;
    struct Parts {  // what a run is made from
        const Plan& plan;
        bool record, alone;
        PortRows rows;
        Plugins plugins;
        Quotient* quotient;
        const Folded* folded;
    };
    explicit Native(const Parts& parts);

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
    void sent(MessageId id);      // it is there, or at a switch that adds it first
    void take_out(MessageId id);  // and hand it to whom it is for
    void delivered(const Message& message);
    void one_end_over(const Message& message);
    void all_instants();
    void instant();
    bool step_beside();  // a medium with a clock of its own
    void explain_stall();
    Outcome outcome();

    // Earlier states.
    auto state() {
        return std::tuple_cat(std::tie(clock_, counted_), nodes_.state(), messages_.state(), messages_.ports()->state(), post_.state(),
                              remote_.state(), collectives_.state(), promotion_->state());
    }
    void go_on_before_going_back();
    void go_back();

    // Periods that recur (native_periods.cpp).
    void count_periods(Beats& beats);
    void look_for_periods();
    void write_events();
    void write_event(const Keyed& event);
    void write_message(MessageId id);
    std::vector<std::int64_t> counts();
    void skip_periods(Recurrence::Jump jump);

    const Plan& plan_;
    const bool record_, alone_;
    Quotient* const quotient_;
    const Folded* const folded_;
    BatchClock clock_;
    Nodes nodes_;
    Messages messages_;
    Post post_;
    RemoteMemory remote_;
    Collectives collectives_;
    CustomRuns custom_;
    std::optional<Promotion> promotion_;
    std::optional<Equals> equals_;
    std::optional<History> history_;
    Undisturbed* undisturbed_ = nullptr;  // every rank
    std::uint64_t idle_ = 0;              // steps of a medium's clock since a message ended
    std::uint64_t go_back_at_ = 0;        // number of events after which the run goes back; 0: nothing is wrong
    std::uint64_t counted_ = 0;           // events of periods that were left out
};

}  // namespace astrarium
