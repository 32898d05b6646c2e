// Blocks of a fully connected dim.
#pragma once
#include <vector>

#include "plan/plan.hpp"
#include "plan/slots.hpp"

namespace astrarium {

// An NPU of a fully connected dim has a port for each peer; whichever names the ports have, only which messages share one matters.
// Named by how many places further the peer is, members of a group that is a part of the dim differ: the last one's next is the
// first, three places back. So a coordinate is read in digits, one per kind of block that groups, or ranks that send to each
// other, are (8 NPUs, groups of 4: 4 x 2), and a port is named by the difference in each digit: then the members of such a block are
// alike. Dim::blocks; empty where there are none.
std::vector<int> blocks_of(const Plan& plan, const std::vector<std::vector<SlotUse>>& uses, std::size_t dim);

}  // namespace astrarium
