// Conflict promotion: one rank per class; collectives are timed by themselves as long as they meet no others at a port. Those that do
// run as messages, and the run goes back to before the first of them began.
#pragma once
#include <tuple>
#include <vector>

#include "accelerate/gatherings.hpp"
#include "accelerate/quotient/quotient.hpp"
#include "accelerate/timers/timers.hpp"
#include "media/link_holds.hpp"

namespace astrarium {

// Which collectives met others, and so run as messages. One is named by its kind of group and how many of the kind came before it (`serial`).
class Conflicts {
public:
    bool contains(std::uint32_t kind, std::uint32_t serial) const {
        return kind < met_.size() && serial < met_[kind].size() && met_[kind][serial];
    }
    void insert(std::uint32_t kind, std::uint32_t serial) {
        if (kind >= met_.size()) met_.resize(kind + std::size_t{1});
        if (serial >= met_[kind].size()) met_[kind].resize(serial + std::size_t{1}, false);
        met_[kind][serial] = true;
    }
    // The same collectives when classes are refined; `kinds` were the groups' before.
    Conflicts renumbered(const std::vector<std::int32_t>& kinds, const RankClasses& to) const;

private:
    std::vector<std::vector<bool>> met_;  // [kind][serial]
};

class Promotion final : public Accelerator {
public:
    // `conflicts` grow as the run finds more.
    Promotion(Quotient& quotient, Kinds& kinds, CollectiveTimers& timers, Conflicts& conflicts)
        : quotient_(quotient), kinds_(kinds), timers_(timers), conflicts_(conflicts) {}

    void begin(const Parts& run) override;
    bool measure(const Member& member) override;
    bool exact() const override { return holds_.found().empty(); }

    // Of a run that is not exact: before this time it is. Then those that met others are promoted, and the run goes back.
    Tick exact_until() const;
    void promote();
    auto state() { return std::tuple_cat(std::tie(gatherings_, issue_count_), holds_.state()); }

    Tick horizon(Tick now) const override { return gatherings_.horizon(now); }
    void write(StateWords& to) const override;
    std::size_t issues() const override { return issue_count_; }
    std::uint64_t periods_alike(const Period& period, std::uint64_t most) const override;
    void skip(const Period& period, std::uint64_t periods) override;

private:
    struct Timed {  // a holder of ports
        std::uint32_t group, serial;
        Tick begin;
    };
    struct Issue {  // of a collective
        std::uint32_t kind, serial;
        bool measured;
    };
    [[noreturn]] void throw_different(std::uint32_t one, std::uint32_t other) const;  // collectives of a group's members
    std::uint32_t group_of(std::uint32_t kind) const { return kind == Quotient::all ? run_->collectives.membership().all() : kind - 1; }
    std::uint32_t number(std::uint32_t group, std::uint32_t serial) const { return serial + run_->collectives.skipped(group); }
    void start(const Member& last, const Gathering& all);
    const Measured* timed(std::uint32_t group, const Gathering& all, Tick begin);
    template <class Visit>
    void each_use(std::uint32_t group, const Gathering& all, const Measured& measured, Tick begin, Visit&& visit);
    bool stands(std::uint32_t group, const Gathering& all, const Measured& measured, Tick begin);
    void stand(const Timed& mine, const Gathering& all, const Measured& measured);
    std::uint32_t add_holder(const Timed& timed);
    void add_issue(const Issue& issue) { issues_.resize(issue_count_++), issues_.push_back(issue); }

    Quotient& quotient_;
    Kinds& kinds_;
    CollectiveTimers& timers_;
    Conflicts& conflicts_;
    const Parts* run_ = nullptr;
    Gatherings gatherings_;
    LinkHolds holds_;            // of the ports of each class in a dim (Ports::class_ports)
    std::vector<Timed> timed_;   // by holder; an earlier state has the first of these
    std::vector<Issue> issues_;  // so far; an earlier state has the first of these
    std::size_t issue_count_ = 0;
};

}  // namespace astrarium
