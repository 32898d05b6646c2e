// What ends a run with one rank per class.
#pragma once
#include <string>

namespace astrarium {

// Why a plan cannot run one rank per class; the caller then runs every rank.
struct Unfoldable {
    std::string why;
};
// The ranks that stand for all wait for each other, or issue a group's collectives in different orders.
struct Endless : Unfoldable {};
inline constexpr const char* overlapping = "overlapping communication of one NPU";
inline constexpr const char* passing = "messages that pass other NPUs of a mesh";

}  // namespace astrarium
