// Folding: one rank per class, as far as that is exact.
#include <optional>

#include "fold/fold.hpp"

namespace astrarium {
namespace {

class Folding {
public:
    Folding(const Plan& plan, bool record, bool hurried, std::shared_ptr<LineStore> store, std::shared_ptr<Common> common, GivenUp given_up)
        : plan_(plan), record_(record), hurried_(hurried), given_up_(std::move(given_up)), facts_(plan, std::move(store), std::move(common)) {}
    Outcome run() {
        try {
            return folded();
        } catch (const Endless& reason) {
            if (hurried_) throw Stall({});
            return every_rank(reason);
        } catch (const Unfoldable& reason) {
            return every_rank(reason);
        }
    }

private:
    Outcome every_rank(const Unfoldable& reason) {
        if (given_up_) given_up_(reason.why, weigh(plan_, record_));
        Outcome out = unfolded();
        out.unfolded_because = reason.why;
        return out;
    }

    Outcome unfolded() {
        if (plan_.policy.order == Order::astra_sim) return run_astra(plan_, record_);
        return record_ || plan_.changes.time.size > 0 ? run_native(plan_, record_) : run_native_periods(plan_, facts_.beats());
    }

    // Where members of a class turn out to differ, their positions are told apart, and it starts again.
    Outcome folded() {
        for (;;) {
            try {
                return with_classes();
            } catch (const Asymmetric& reason) {
                if (reason.apart.of.empty() || !split_.insert(reason.apart).second) throw;
            }
        }
    }

    // First with every collective as a delay; where communication of an NPU overlaps, with those that meet others as messages.
    Outcome with_classes() {
        Fold fold(plan_, record_, facts_, split_);
        const bool few = !split_.empty() && fold.classes().first.size() * 2 > plan_.ranks();
        if (few && !fold.finds_lines()) throw Unfoldable{"too few equal ranks"};
        try {
            if (!kinds_) return fold.run();
        } catch (const Unfoldable& reason) {
            if (reason.why != overlapping || plan_.policy.order == Order::astra_sim) throw;
        }
        Image image(plan_, fold.classes(), facts_);
        if (kinds_) image.conflicts = conflicts_.renumbered(*kinds_, fold.classes());
        try {
            return run_image(image, fold, record_);
        } catch (const Asymmetric&) {
            kinds_ = fold.classes().group_kind, conflicts_ = image.conflicts;
            throw;
        }
    }

    const Plan& plan_;
    bool record_, hurried_;
    GivenUp given_up_;
    Facts facts_;
    std::set<Labels> split_;
    Conflicts conflicts_;  // as known so far, by kinds as they were then
    std::optional<std::vector<std::int32_t>> kinds_;
};

}  // namespace

Outcome run_folded(const Plan& plan, bool record, bool hurried, Measurements* kept, std::shared_ptr<Common> common, GivenUp given_up) {
    return Folding(plan, record, hurried, kept ? kept->store() : std::make_shared<LineStore>(), std::move(common), std::move(given_up)).run();
}

}  // namespace astrarium
