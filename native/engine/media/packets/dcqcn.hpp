// The rate of a flow: the reaction point of DCQCN (Zhu et al., SIGCOMM 2015). Timers are caught up when the flow sends. The same doubles as
// astrarium.oracle.dcqcn.
#pragma once
#include <algorithm>
#include <cstdint>

#include "plan/plan.hpp"

namespace astrarium::packets {

// See astrarium.engine.plan.RoceRules.
struct RoceRules {
    std::int64_t buffer = 0, kmin = 0, kmax = 0, pmax = 0;           // bytes; pmax: parts per million
    double alpha = 1, gain = 0, additive = 0, hyper = 0, least = 0;  // additive, hyper, least: bytes per ns
    Tick cnp_interval = 0, alpha_timer = 0, rate_timer = 0;
    std::int64_t byte_counter = 0, recovery = 0;
    double window = 0;  // round trips of the pair's slowest link; 0: none
    bool window_scales = false, clamp = false, departing = false, per_message = false;
};

struct Rate {
    double line = 0, current = 0, target = 0, alpha = 1;  // bytes per ns
    Tick alpha_at = never, rate_at = never;               // when their timers are over
    std::int64_t timers = 0, counts = 0, bytes = 0;       // increases since the last cut; bytes since the last by bytes
    bool limited = false;                                 // below the line's

    static Rate of_line(double line) { return {line, line, line}; }
    double now() const { return limited ? current : line; }

    void cut(const RoceRules& rules, Tick now) {
        catch_up(rules, now);
        if (!limited) current = target = line;
        if (rules.clamp || timers + counts > 0) target = current;
        current = std::max(current * (1 - alpha / 2), rules.least);
        alpha = (1 - rules.gain) * alpha + rules.gain;
        alpha_at = add(now, rules.alpha_timer), rate_at = add(now, rules.rate_timer);
        timers = counts = bytes = 0, limited = true;
    }

    void catch_up(const RoceRules& rules, Tick now) {
        for (; alpha_at <= now && alpha > 0; alpha_at += rules.alpha_timer) alpha = alpha < no_alpha ? 0 : (1 - rules.gain) * alpha;
        for (; limited && rate_at <= now; rate_at += rules.rate_timer) ++timers, increase(rules);
    }

    void sent(const RoceRules& rules, std::int64_t size) {
        if (!limited || rules.byte_counter == 0 || (bytes += size) < rules.byte_counter) return;
        bytes -= rules.byte_counter;
        ++counts, increase(rules);
    }

private:
    static constexpr double no_alpha = 1e-6;  // less counts as 0: idle flows are caught up in few steps

    // Without a byte counter one additive increase comes before hyper ones, as in the HPCC authors' simulator.
    bool increases_fast(const RoceRules& rules) const {
        if (rules.hyper <= 0) return false;
        return rules.byte_counter ? std::min(timers, counts) > rules.recovery : timers > rules.recovery + 1;
    }
    void increase(const RoceRules& rules) {
        if (std::max(timers, counts) > rules.recovery)
            target = std::min(target + (increases_fast(rules) ? rules.hyper : rules.additive), line);
        current = (current + target) / 2;
        if (target >= line && current >= 0.999999 * line) limited = false;
    }
};

}  // namespace astrarium::packets
