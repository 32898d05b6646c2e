// How the time of one collective by itself is found. Timers stand in one order (`CollectiveTimers`); the first that can tell, does.
#pragma once
#include <optional>
#include <vector>

#include "fold/memo/facts.hpp"
#include "fold/quotient/kinds.hpp"
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

}  // namespace astrarium
