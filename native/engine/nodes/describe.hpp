// A node in words, for messages.
#pragma once
#include <string>

#include "plan/plan.hpp"

namespace astrarium {

std::string describe_node(const Plan& plan, const Program& program, std::uint32_t rank, std::uint32_t node);

}  // namespace astrarium
