// Native runs with one rank per class.
#include <optional>

#include "accelerate/alone.hpp"
#include "accelerate/fold.hpp"
#include "accelerate/history.hpp"
#include "accelerate/periods/period_skipper.hpp"
#include "accelerate/promotion.hpp"
#include "plan/how.hpp"

namespace astrarium {
namespace {

const TimedRules rules{&run_native_alone, &run_native_members, false, true};

// Of the classes of a quotient: with collectives as messages, or timed by an accelerator.
class QuotientRun {
public:
    QuotientRun(Quotient& quotient, const FoldOptions& options, Promotion* promotion)
        : quotient_(quotient),
          run_(quotient.plan(),
               {.record = options.record, .nodes = options.nodes, .most = options.most, .equals = &quotient, .accelerator = promotion}) {}

    Outcome with_messages() {
        run_.start();
        run_.run_to_end();
        return finish(0);
    }
    // Goes back where collectives were timed that met others.
    Outcome timed(Promotion& promotion, Beats* beats) {
        std::optional<PeriodSkipper> periods;
        if (beats) periods.emplace(run_.parts(), &promotion, *beats);
        run_.start();
        History history(run_, promotion, periods ? &*periods : nullptr);
        history.keep();
        const BatchClock& clock = run_.parts().clock;
        for (std::uint64_t go_back_at = 0; !clock.empty();) {  // the number of events after which the run goes back
            const bool broke = breaks_off(promotion);
            if (!promotion.exact()) {
                // It goes on for a quarter of the events that will run again: more collectives that meet others are found at the same time.
                if (go_back_at == 0) go_back_at = clock.handled + history.events_since(promotion.exact_until()) / 4;
                if (broke || clock.handled >= go_back_at || clock.empty()) history.go_back(), go_back_at = 0;
                continue;
            }
            if (periods && periods->look()) history.forget();
            history.keep();
        }
        return finish(periods ? periods->counted() : 0);
    }

private:
    // The next instant. What breaks it off does not count in a run that is not exact.
    bool breaks_off(const Promotion& promotion) {
        try {
            run_.step();
        } catch (const Unfoldable&) {
            if (promotion.exact()) throw;
            return true;
        }
        return false;
    }
    Outcome finish(std::uint64_t counted) {
        Outcome out = run_.finish();
        out.how = {with_periods(one_of_each(out.finish.size()), counted)};
        out.row = quotient_.classes().of, out.folded = true, out.counted = counted;
        return out;
    }

    Quotient& quotient_;
    Native run_;
};

// Ranks may seem to wait for each other because a timed collective ended too early, before what disturbs it was known: messages tell.
Outcome run_quotient(Quotient& quotient, const Timing& timing, const FoldOptions& options, Conflicts& conflicts) {
    CollectiveTimers timers(timing);
    try {
        Promotion promotion(quotient, timing.kinds, timers, conflicts);
        Outcome out = or_unfoldable(
            [&] { return QuotientRun(quotient, options, &promotion).timed(promotion, options.record ? nullptr : &timing.facts.beats()); });
        out.events += timers.events();
        return out;
    } catch (const Endless&) {}
    return after({"one rank per class of equal ranks, collectives timed alone: the run did not end"},
                 or_unfoldable([&] { return QuotientRun(quotient, options, nullptr).with_messages(); }));
}

}  // namespace

Outcome run_native_folded(const Plan& plan, const FoldOptions& options) {
    Facts facts(plan, options.store, options.common);
    std::optional<std::pair<Conflicts, std::vector<std::int32_t>>> known;  // and the kinds of groups as they were then
    const auto with_classes = [&](const std::set<Labels>& split) {
        const std::shared_ptr<const RankClasses> classes = facts.classes(split);
        check_foldable(plan, *classes, options.record);
        if (!plan.network.medium->on_ports && !plan.network.medium->on_links)
            throw Unfoldable{"a medium that is not known to treat equals alike"};
        Kinds kinds(plan, facts, *classes);
        const Timing timing{plan, options.record, rules, facts, *classes, kinds};
        if (!split.empty() && classes->first.size() * 2 > plan.ranks() && !timing.by_lines()) throw Unfoldable{"too few equal ranks"};
        Quotient quotient(plan, *classes, facts);
        Conflicts conflicts = known ? known->first.renumbered(known->second, *classes) : Conflicts{};
        try {
            return run_quotient(quotient, timing, options, conflicts);
        } catch (const Asymmetric&) {
            known.emplace(std::move(conflicts), classes->group_kind);
            throw;
        }
    };
    return fold(plan, options, with_classes, [&] { return run_native_every_rank(plan, options, facts.beats()); });
}

}  // namespace astrarium
