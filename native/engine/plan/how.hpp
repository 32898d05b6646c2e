// Sentences of Outcome.how: the attempts of a run in order, the one that gave the answer last.
#pragma once
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

inline constexpr const char* every_message = "every rank and every message were simulated";

inline std::string one_of_each(std::size_t classes) {
    return "one rank of each of " + std::to_string(classes) + " classes of equal ranks was simulated";
}

inline std::string with_periods(std::string how, std::uint64_t counted) {
    return counted > 0 ? how + "; periods that repeat were counted" : how;
}

// The outcome of an attempt that followed others, which ended without an answer.
inline Outcome after(const std::vector<std::string>& ended, Outcome out) {
    out.how.insert(out.how.begin(), ended.begin(), ended.end());
    return out;
}

}  // namespace astrarium
