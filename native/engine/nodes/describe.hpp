// Nodes in words, for messages.
#pragma once
#include <string>

#include "plan/plan.hpp"

namespace astrarium {

// Where a node is at fault.
Place place_of(const Plan& plan, const Program& program, std::uint32_t rank, std::uint32_t node);
// Adds to a sentence that a node does so.
void say(Wait& wait, const Place& node, const std::string& does);

}  // namespace astrarium
