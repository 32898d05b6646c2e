// Work at a speed that changes: when what begins now will end, as the plan says all changes beforehand. The same integers as
// astrarium.oracle.clock.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

// Speeds are parts per million of full speed, constant from one change of a thing to the next. Work is given as the ps that it takes at
// full speed; in a ps it goes on by the speed, of a million that each ps of work has. An end is rounded up to a ps.
class Rates {
public:
    static constexpr std::int64_t full = 1'000'000;
    static constexpr std::int64_t parts(std::int64_t of, std::int64_t speed) {  // rounded down; nothing only where it stands still
        const auto part = static_cast<std::int64_t>(static_cast<Wide>(of) * speed / full);
        return part > 0 || speed == 0 ? part : 1;
    }

    bool empty() const { return steps_.empty(); }
    // Of one thing in order of time; of two at one time the later call counts.
    void add(std::size_t which, Tick time, std::int64_t speed) { steps_[which].push_back({time, speed}); }
    void copy(std::size_t which, std::size_t as, Rates& to) const;
    Tick finish(std::size_t which, Tick start, Tick work) const;  // `never`: it stands still for ever before
    std::int64_t speed(std::size_t which, Tick at) const;
    Tick stops(std::size_t which) const;                        // since when it stands still for ever; or `never`
    bool stop() const;                                          // whether anything ever stands still
    std::vector<std::pair<Tick, std::size_t>> changes() const;  // what changes when, in order of time

private:
    __extension__ typedef __int128 Wide;
    struct Step {
        Tick time;
        std::int64_t speed;
    };
    const std::vector<Step>* of(std::size_t which) const;

    std::unordered_map<std::size_t, std::vector<Step>> steps_;
};

// Of all NPUs, or of all links by number; null where none changes.
std::shared_ptr<const Rates> rates_of(const Changes& changes, Changing what);

// Whether messages go other ways as links fail and return.
inline bool reroutes(const Plan& plan) { return plan.network.graph && plan.link_rates && plan.link_rates->stop(); }

// When a node of a rank that only lasts ends, if it begins now; what it lasts longer for its NPU's changes is added to `busy`.
inline Tick end_of(const Plan& plan, const Program& program, std::uint32_t rank, std::uint32_t node, Tick now, Tick& busy) {
    const Tick work = program.duration[node];
    if (!plan.npu_rates || program.lane[node] != lane_compute) return add(now, work);
    const Tick end = plan.npu_rates->finish(static_cast<std::size_t>(plan.npu_of[rank]), now, work);
    if (program.busy[node] > 0 && end != never) busy = add(busy, end - now - work);
    return end;
}

// For a stall: says that the NPU of a rank stands still for ever, if it does.
std::string where_it_stands(const Plan& plan, std::uint32_t rank);

// Links of dims, as their graph numbers them: those that leave NPUs by dim, NPU and port, then those out of switches.
bool has_link(const Dim& dim, int place, std::size_t port);
std::int64_t links_of(const Network& network);

void check_changes(const Plan& plan);  // throws std::invalid_argument, or Unsupported for a change that cannot be

}  // namespace astrarium
