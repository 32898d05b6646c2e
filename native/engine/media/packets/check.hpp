// Networks that packets cannot cross.
#pragma once
#include "plan/plan.hpp"

namespace astrarium::packets {

void check(const Network& network);  // throws Unsupported
// Whether messages at one first link go one after the other, so that those that wait need not exist.
bool pulls(const Network& network);

}  // namespace astrarium::packets
