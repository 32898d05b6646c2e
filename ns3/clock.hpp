// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// ns-3's events up to a time, and including it: Simulator::Stop(delay) would leave out events of that time that are scheduled later.
#pragma once
#include <cstdint>
#include <functional>

#include "ns3/map-scheduler.h"
#include "ns3/nstime.h"

namespace bridge {

using Tick = std::int64_t;  // ps
inline constexpr Tick never = INT64_MAX;

class Clock {
public:
    Clock();  // ns-3 counts ps from now on
    // Runs all events up to `until`. `pulse` is called now and then meanwhile. Ends early after `stop`.
    void run(Tick until, const std::function<void()>& pulse);
    static void stop();
    static Tick next();  // time of the next event; never: there is none
    static Tick now();   // of the event that runs
};

}  // namespace bridge
