// The invariants of a Plan that keep every later index in range.
#pragma once
#include "plan.hpp"

namespace astrarium {

// Throws std::invalid_argument for a broken plan (it comes from our own `lower`: our bug), Unsupported for figures that no
// clock of 2^63 ps can hold. Linear in the plan's arrays, and in the messages of schedules that are not symmetric.
void check_plan(const Plan& plan);

// One schedule by itself: pointers in range and ascending, peers within n, every receive matched by exactly one send.
void check_schedule(const Schedule& schedule);

inline void require(bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(std::string("broken plan: ") + what);
}

}  // namespace astrarium
