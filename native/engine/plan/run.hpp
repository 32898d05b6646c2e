// The engine's entry points.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "plan/plan.hpp"
#include "plan/port_use.hpp"

namespace astrarium {

Outcome run_astra(const Plan& plan, bool record);  // every rank, every message, ASTRA-sim's rule book
struct FoldOptions;
Outcome run_native(const Plan& plan, const FoldOptions& options);  // every rank, every message, the native rule book
class Beats;
// The same, but periods that recur are counted, and collectives that nothing disturbs are timed where that pays.
Outcome run_native_every_rank(const Plan& plan, const FoldOptions& options, Beats& beats);
// What running every rank takes, about.
struct Weight {
    double events = 0, bytes = 0;
};
Weight weigh(const Plan& plan, bool record);
// The makespan of a run is larger than this.
struct Over {
    Tick most;
};
// How to run, and what one rank per class needs.
class LineStore;
class Common;
struct FoldOptions {
    bool record = false;               // node times and traffic
    bool nodes = false;                // node times
    Tick most = never;                 // ends a run (Over) whose makespan is larger
    bool hurried = false;              // a folded run that does not end is a Stall that says nothing
    std::shared_ptr<LineStore> store;  // what this and other runs measure
    std::shared_ptr<Common> common;    // what was found out about the plan's ranks
    std::function<void(const std::string& why, const Weight& weight)> given_up;  // is told why, and what every rank takes, before that
};
// One rank per class where that is exact, else every rank.
Outcome run_astra_folded(const Plan& plan, const FoldOptions& options);
Outcome run_native_folded(const Plan& plan, const FoldOptions& options);

// What one NPU sent or received through one of its ports (or links) of a dim.
struct Load {
    std::int32_t dim = 0, port = 0;
    bool inward = false;
    std::int64_t bytes = 0;
    Tick busy = 0;
};

// At `time` the number of busy links that leave NPUs in a dim changes.
struct Step {
    std::int32_t dim = 0;
    Tick time = 0;
    std::int64_t change = 0;
};

// One collective by itself: `plan.collectives[0]` among `npu_of.size` ranks, from instant 0.
struct Alone {
    Tick done = 0;           // of the one member that ran (looped back)
    std::vector<Tick> each;  // of every member
    Tick quiet = 0;          // when its last port is free
    bool tie = false;        // an order within one instant was chosen that could have been another
    std::uint64_t events = 0;
    std::vector<std::vector<Load>> loads;    // per member that ran, where recorded
    std::vector<std::uint8_t> late;          // native, per member that ran: messages had arrived in its last instant before it ended
    std::vector<Step> steps;                 // of all members that ran, where recorded: by dim and time
    std::vector<std::vector<PortUse>> uses;  // native, per member that ran and dim; none where messages pass other NPUs
};
// One member alone, each of its messages arriving at itself as its equals' do: exact when all members stand alike.
Alone run_astra_alone(const Plan& plan, bool record);
Alone run_native_alone(const Plan& plan, bool record);
// Every member, each with its own program (a delay, then the collective).
Alone run_astra_members(const Plan& plan, bool record);
Alone run_native_members(const Plan& plan, bool record);

// A message on ASTRA-sim's congestion-unaware network; `load` becomes what it puts on its sender's dim.
Tick unshared_time(const Plan& plan, std::uint32_t from_npu, std::uint32_t to_npu, std::int64_t size, Load& load);
// The traffic of an outcome, per NPU of `npu_of`.
std::vector<std::vector<Load>> loads_of(const Outcome& outcome, const View<std::int32_t>& npu_of);

}  // namespace astrarium
