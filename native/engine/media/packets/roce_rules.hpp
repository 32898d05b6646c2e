// The settings of RoCE, by the rate of links.
#pragma once
#include <utility>
#include <vector>

#include "media/packets/dcqcn.hpp"
#include "plan/plan.hpp"

namespace astrarium::packets {

// Those of links of each rate; first those of all others.
using RulesByRate = std::vector<std::pair<double, RoceRules>>;

RulesByRate rules_by_rate(const PacketRules& rules);
const RoceRules* rules_at(const RulesByRate& all, double bandwidth);
// Whether a packet is marked at a queue of so many bytes; `chance`: 32 bits.
bool marks(const RoceRules& rules, std::int64_t waiting, std::uint64_t chance);
void check_roce(const PacketRules& rules);

}  // namespace astrarium::packets
