// Native runs of every rank: periods that recur are counted, and collectives that nothing disturbs are timed.
#include "accelerate/periods/period_skipper.hpp"
#include "accelerate/undisturbed.hpp"
#include "plan/how.hpp"
#include "run/native.hpp"

namespace astrarium {
namespace {

constexpr const char* did_not_end = "collectives timed alone: the run did not end";

Outcome run_counting(const Plan& plan, const FoldOptions& options, Accelerator* accelerator, Beats& beats, const char* how) {
    Native run(plan, {.record = options.record || options.nodes, .most = options.most, .accelerator = accelerator});
    PeriodSkipper periods(run.parts(), accelerator, beats);
    run.start();
    while (run.step()) periods.look();
    Outcome out = run.finish();
    out.counted = periods.counted(), out.how = {with_periods(how, out.counted)};
    return out;
}

}  // namespace

// A run whose collectives met others counts for nothing. What goes wrong in it, a run of messages says as it is.
Outcome run_native_every_rank(const Plan& plan, const FoldOptions& options, Beats& beats) {
    std::vector<std::string> how;
    try {
        Undisturbed undisturbed(plan);
        do {
            Outcome out = run_counting(plan, options, &undisturbed, beats,
                                       "every rank was simulated; collectives that share no link with other traffic were timed alone");
            out.events += undisturbed.measured();
            if (undisturbed.exact()) return after(how, std::move(out));
            how.push_back(undisturbed.promote());
        } while (undisturbed.goes_again());
    } catch (const Undisturbed::Disturbed& reason) {
        how.push_back(std::string("collectives timed alone: given up, as ") + reason.why);
    } catch (const Stall&) { how.push_back(did_not_end); } catch (const BadTrace&) {
        how.push_back(did_not_end);
    } catch (const Unsupported&) { how.push_back(did_not_end); }
    return after(how, plan.changes.time.size > 0 ? run_native(plan, options) : run_counting(plan, options, nullptr, beats, every_message));
}

}  // namespace astrarium
