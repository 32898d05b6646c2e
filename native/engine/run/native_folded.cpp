// Native runs with one rank per class.
#include <optional>

#include "fold/fold.hpp"
#include "fold/timers/arrivals.hpp"
#include "run/native.hpp"

namespace astrarium {
namespace {

const TimedRules rules{&run_native_alone, &run_native_members, false, true};

// A run of representatives that goes wrong is left to the full run, which says what is wrong, of which rank.
template <class Run>
auto or_unfoldable(Run&& run) {
    try {
        return run();
    } catch (const BadTrace&) { throw Endless{{"the run does not end"}}; } catch (const Stall&) {
        throw Endless{{"the run does not end"}};
    } catch (const Unsupported&) { throw Endless{{"the run does not end"}}; }
}

}  // namespace

// Ranks may seem to wait for each other because a timed collective ended too early, before what disturbs it was known: messages tell.
Outcome run_native_quotient(Quotient& quotient, const Folded& folded, bool record) {
    const auto run = [&](const Folded* timed) {
        return or_unfoldable([&] { return Native(quotient.plan(), quotient, timed, record).run(); });
    };
    try {
        return run(&folded);
    } catch (const Endless&) {}
    return after({"one rank per class of equal ranks, collectives timed alone: the run did not end"}, run(nullptr));
}

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
        CollectiveTimers timers(timing);
        Quotient quotient(plan, *classes, facts);
        if (known) quotient.conflicts = known->first.renumbered(known->second, *classes);
        try {
            return run_native_quotient(quotient, {kinds, timers, facts.beats()}, options.record);
        } catch (const Asymmetric&) {
            known.emplace(quotient.conflicts, classes->group_kind);
            throw;
        }
    };
    return fold(plan, options, with_classes, [&] { return run_native_every_rank(plan, options.record, facts.beats()); });
}

// One collective of the classes in `participants`, which come at `offsets`; the results are by class.
Alone run_quotient_alone(Quotient& quotient, const Collective& collective, std::uint32_t kind,
                         const std::vector<std::uint32_t>& participants, const std::vector<Tick>& offsets, bool record) {
    const Plan& all = quotient.plan();
    Plan plan;
    plan.npus = all.npus, plan.network = all.network, plan.policy = all.policy, plan.npu_of = all.npu_of, plan.groups = all.groups;
    plan.reduce_bandwidth = all.reduce_bandwidth;
    plan.collectives.push_back(collective);
    Arrivals arrivals;
    plan.programs.push_back(Arrivals::none());  // of classes that take no part
    std::vector<std::int64_t> slot_ptr{0};
    std::vector<std::int32_t> program_of(all.ranks(), 0), zeros(participants.size(), 0),
        group(participants.size(), static_cast<std::int32_t>(kind) - 1);
    for (std::size_t i = 0; i < participants.size(); ++i) {
        program_of[participants[i]] = static_cast<std::int32_t>(i + 1);
        plan.programs.push_back(arrivals.at(offsets[i]));
    }
    for (const std::int32_t program : program_of) slot_ptr.push_back(slot_ptr.back() + (program > 0));
    plan.program_of = {program_of.data(), program_of.size()}, plan.slot_ptr = {slot_ptr.data(), slot_ptr.size()};
    plan.slot_a = {zeros.data(), zeros.size()}, plan.slot_b = {group.data(), group.size()}, plan.slot_c = {zeros.data(), zeros.size()};
    return or_unfoldable([&] { return Native(plan, quotient, nullptr, record).run_members(); });
}

}  // namespace astrarium
