// Conflict promotion: one rank per class; collectives are timed by themselves as long as they meet no others at a port. Those that do
// run as messages, and the run goes back to before the first of them began.
#pragma once
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "fold/timers/collective_timers.hpp"
#include "run/collectives.hpp"

namespace astrarium {

// What times the collectives of a run with one rank per class.
struct Folded {
    Kinds& kinds;
    CollectiveTimers& timers;
    Beats& beats;
};

class Promotion final : public Messages::Equals {
public:
    // Without `folded` no collective is timed.
    Promotion(Quotient& quotient, const Folded* folded, BatchClock& clock, Messages& messages, Collectives& collectives, bool record);

    // Whether a collective is timed: else it runs as messages. Then its members come.
    bool measures(std::uint32_t group, std::uint32_t serial);
    void gather(std::uint32_t rank, std::uint32_t node, std::uint32_t group, std::uint32_t collective, std::uint32_t serial);

    // Of messages.
    void left(const Message& message) override { keep_apart(message.flight.source, out_held_); }
    Tick land(const Message& message, const Keyed& key) override;

    // What turned out to be wrong: the run goes back before this time.
    Tick back_to() const { return back_to_; }
    void went_back() { back_to_ = never; }

    // Periods that recur: what a collective that gathers may still ask about; the state; how far the next periods are like this one.
    Tick horizon(Tick now) const;
    void write(Recurrence& to);
    void keep_issues() { keeps_issues_ = true; }
    std::size_t issues() const { return issue_count_; }
    // Of a period that has just ended: its collectives per group, and how many issues.
    std::uint64_t periods_alike(const std::vector<std::uint32_t>& serials, std::size_t issues, std::uint64_t most) const;
    void skip(const std::vector<std::uint32_t>& serials, std::size_t issues, std::uint64_t periods);
    auto state() { return std::tie(gatherings_, out_held_, in_held_, issue_count_); }

private:
    [[noreturn]] void throw_different(std::uint32_t one, std::uint32_t other) const;  // collectives of a group's members
    struct Gathering {  // a collective that will be timed: who has come, and when
        std::uint32_t arrived = 0, collective = nothing;
        std::uint64_t batch = 0;  // of the clock, in which the first came
        std::vector<Tick> at;
        std::vector<std::uint32_t> node;
    };
    struct Held {  // until when timed collectives use a class's ports of a dim, one way, and the last of them
        Tick until = 0, begin = 0;
        std::uint32_t kind = 0, serial = 0;
        Tick asked = 0;  // just after a message last asked for one
    };
    struct Issue {  // of a collective
        std::uint32_t kind, serial;
        bool measured;
    };
    using Holdings = std::vector<std::vector<Held>>;  // per class, dim

    std::uint32_t group_of(std::uint32_t kind) const { return kind == Quotient::all ? collectives_.membership().all() : kind - 1; }
    std::uint32_t number(std::uint32_t group, std::uint32_t serial) const { return serial + collectives_.skipped(group); }
    void begin(std::uint32_t group, std::uint32_t serial, const Gathering& all);
    const Measured* timed(std::uint32_t group, const Gathering& all, Tick begin);
    template <class Visit>
    void each_use(std::uint32_t group, const Gathering& all, const Measured& measured, Tick begin, Visit&& visit);
    bool stands(std::uint32_t group, std::uint32_t serial, const Gathering& all, const Measured& measured, Tick begin);
    void stand(std::uint32_t group, std::uint32_t serial, const Gathering& all, const Measured& measured, Tick begin);
    // A timed collective has met others: it runs as messages after all. The run goes back to before it began.
    void meet(const Held& held) { go_back_before(held.kind, held.serial, held.begin); }
    void go_back_before(std::uint32_t kind, std::uint32_t serial, Tick begin);
    void keep_apart(std::int32_t npu, Holdings& held);
    void add_issue(const Issue& issue) { issues_.resize(issue_count_++), issues_.push_back(issue); }

    Quotient& quotient_;
    const Folded* folded_;
    BatchClock& clock_;
    Ports& ports_;
    Collectives& collectives_;
    const bool record_;
    bool keeps_issues_ = false;
    std::map<std::pair<std::uint32_t, std::uint32_t>, Gathering> gatherings_;  // by group, serial
    Holdings out_held_, in_held_;
    std::vector<Issue> issues_;  // so far; an earlier state has the first of these
    std::size_t issue_count_ = 0;
    Tick back_to_ = never;
};

}  // namespace astrarium
