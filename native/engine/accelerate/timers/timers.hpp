// The times of collectives by themselves: an ordered table of timers, of which the first that can tell, does; and what they said, by
// pattern of arrivals. A further timer is a class with one method (timers.cpp) and a line in the table.
#pragma once
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "accelerate/memo/facts.hpp"
#include "accelerate/quotient/kinds.hpp"
#include "plan/run.hpp"

namespace astrarium {

// What a rule book brings along.
struct TimedRules {
    Alone (*alone)(const Plan& plan, bool record);    // one member that stands for all
    Alone (*members)(const Plan& plan, bool record);  // all of them
    bool alone_on_links;                              // the first even where messages pass links of others
    bool instants;                                    // what comes within one instant may come in another order
};

// What timers share.
struct Timing {
    const Plan& plan;
    bool record;
    const TimedRules& rules;
    Facts& facts;
    const RankClasses& classes;
    Kinds& kinds;

    bool meshes() const;
    // Whether collectives may be found line by line: cheap however many classes there are.
    bool by_lines() const { return !record && plan.network.medium->on_ports && plan.reduce_bandwidth.size == 0; }
    Plan plan_of(const Collective& c) const;  // one collective, for the ranks that are given to it
};

struct Asked {
    std::uint32_t collective;
    std::size_t kind;
    const std::vector<Tick>& offsets;  // by participant: when it comes after the first
    bool together;                     // all at once
};

class Timer {
public:
    virtual ~Timer() = default;
    // None where this timer cannot tell. Throws Asymmetric where members of one class end at different times, Unfoldable where no timer
    // can tell.
    virtual std::optional<Measured> time(const Asked& asked) = 0;

protected:
    explicit Timer(Timing timing) : timing_(timing) {}
    const Collective& collective(const Asked& asked) const { return timing_.plan.collectives[asked.collective]; }
    const Timing timing_;
};
std::unique_ptr<Timer> make_line_timer(const Timing& timing);

class CollectiveTimers {
public:
    explicit CollectiveTimers(const Timing& timing);

    // A collective of a kind of group whose participants come at `at`, the first at `begin`. Throws Unfoldable where it has no time of its
    // own, Asymmetric where its participants have to be told apart.
    const Measured& measure(std::uint32_t collective, std::size_t kind, const std::vector<Tick>& at, Tick begin);
    std::uint64_t events() const;  // of all runs of collectives

    // When a participant's ports carry a measured collective of unknown uses that begins at `begin`, where it comes at `at`.
    PortUse use(const Measured& measured, std::size_t participant, Tick begin, Tick at) const;

private:
    std::shared_ptr<const Measured> shared(std::uint32_t collective, std::size_t kind, const std::vector<Tick>& offsets, bool together);
    Measured measured(const Asked& asked);

    const Timing timing_;
    std::vector<std::unique_ptr<Timer>> timers_;
    std::unordered_map<Words, std::shared_ptr<const Measured>, WordsHash> measured_;  // by collective and kind, and when all come
    std::vector<const Measured*> together_;                                           // by collective and kind: of all that come at once
    Words key_;
};

}  // namespace astrarium
