// A run with one rank per class, whatever the rule book: it starts again with more classes where members of one turn out to differ, and
// gives up (Unfoldable) wherever the integers could differ from a run of every rank.
#pragma once
#include <set>

#include "accelerate/memo/facts.hpp"
#include "accelerate/quotient/classes.hpp"
#include "plan/how.hpp"
#include "plan/run.hpp"

namespace astrarium {

// `with_classes(split)` runs one rank per class; `every_rank()` all of them.
template <class WithClasses, class EveryRank>
Outcome fold(const Plan& plan, const FoldOptions& options, WithClasses&& with_classes, EveryRank&& every_rank) {
    std::set<Labels> split;
    const auto restarted = [&](Outcome out) {
        if (split.empty()) return out;
        return after({"one rank per class of equal ranks: begun again " + std::to_string(split.size()) +
                      " times with more classes, as ranks of one differed"},
                     std::move(out));
    };
    const auto give_up = [&](const Unfoldable& reason) {
        if (options.given_up) options.given_up(reason.why, weigh(plan, options.record || options.nodes));
        Outcome out = restarted(after({"one rank per class of equal ranks: given up because of " + reason.why}, every_rank()));
        out.unfolded_because = reason.why;
        return out;
    };
    for (;;) {
        try {
            return restarted(with_classes(split));
        } catch (const Asymmetric& reason) {
            if (reason.apart.of.empty() || !split.insert(reason.apart).second) return give_up(reason);
        } catch (const Endless& reason) {
            if (options.hurried) throw Stall({});
            return give_up(reason);
        } catch (const Unfoldable& reason) { return give_up(reason); }
    }
}

}  // namespace astrarium
