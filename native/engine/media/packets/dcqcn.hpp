// The rate of a flow: the reaction point of DCQCN (Zhu et al., SIGCOMM 2015), without hyper increase. Timers are caught up
// when the flow sends. The same doubles as astrarium.oracle.roce.
#pragma once
#include <algorithm>
#include <cstdint>

#include "plan/plan.hpp"

namespace astrarium::packets {

// See astrarium.engine.plan.RoceRules.
struct RoceRules {
    std::int64_t buffer = 0, kmin = 0, kmax = 0, pmax = 0;  // bytes; pmax: parts per million
    double alpha = 1, gain = 0, additive = 0;               // additive: bytes per ns
    Tick cnp_interval = 0, alpha_timer = 0, rate_timer = 0;
    std::int64_t byte_counter = 0, recovery = 0;
    bool departing = false;  // marks go by the queue that a packet leaves, not by the one that it joins
};

struct Rate {
    double line = 0, current = 0, target = 0, alpha = 1;  // bytes per ns
    Tick alpha_at = never, rate_at = never;               // when their timers are over
    std::int64_t timers = 0, counts = 0, bytes = 0;       // increases since the last cut; bytes since the last by bytes
    bool limited = false;                                 // below the line's

    void cut(const RoceRules& rules, Tick now) {
        catch_up(rules, now);
        if (!limited) current = line;
        target = current;
        current = std::max(current * (1 - alpha / 2), rules.additive);
        alpha = (1 - rules.gain) * alpha + rules.gain;
        alpha_at = add(now, rules.alpha_timer), rate_at = add(now, rules.rate_timer);
        timers = counts = bytes = 0, limited = true;
    }

    void catch_up(const RoceRules& rules, Tick now) {
        for (; alpha_at <= now; alpha_at += rules.alpha_timer) alpha = (1 - rules.gain) * alpha;
        for (; limited && rate_at <= now; rate_at += rules.rate_timer) ++timers, increase(rules);
    }

    void sent(const RoceRules& rules, std::int64_t size) {
        if (!limited || (bytes += size) < rules.byte_counter) return;
        bytes -= rules.byte_counter;
        ++counts, increase(rules);
    }

private:
    void increase(const RoceRules& rules) {
        if (std::max(timers, counts) > rules.recovery) target = std::min(target + rules.additive, line);
        current = (current + target) / 2;
        if (target >= line && current >= 0.999999 * line) limited = false;
    }
};

}  // namespace astrarium::packets
