// The invariants of a Plan that keep every later index in range.
#pragma once
#include <utility>
#include <vector>

#include "plan/plan.hpp"
#include "plan/slots.hpp"

namespace astrarium {

// Programs, ranks and groups that were checked; and all that the rest of a plan needs to be checked for.
struct Sound {
    std::vector<std::vector<SlotUse>> uses;                     // per program
    std::int64_t largest = 0;                                   // bytes of a message between ranks
    std::size_t collectives = 0;                                // that slots name
    std::vector<std::pair<std::uint32_t, std::size_t>> served;  // collectives, and of how many members
};
Sound sound_of(const Plan& plan, std::size_t collectives);  // throws std::invalid_argument

// Throws std::invalid_argument for a broken plan (it comes from our own `lower`: our bug), Unsupported for figures that no
// clock of 2^63 ps can hold. Linear in the plan's arrays, and in the messages of schedules that are not symmetric.
void check_plan(const Plan& plan, const Sound& sound);

void check_program(const Program& program);
std::int64_t largest_message(const Program& program);

// One schedule by itself: pointers in range and ascending, peers within n, every receive matched by exactly one send.
void check_schedule(const Schedule& schedule);

inline void require(bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(std::string("broken plan: ") + what);
}

}  // namespace astrarium
