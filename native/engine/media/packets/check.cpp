#include "media/packets/check.hpp"

#include <algorithm>

#include "media/distance.hpp"
#include "plan/check_plan.hpp"
#include "plan/graph.hpp"

namespace astrarium::packets {
namespace {

void check_rules(const PacketRules& rules) {
    constexpr std::int64_t most = std::int64_t{1} << 31;
    require(rules.size >= 1 && rules.size < most && rules.header >= 0 && rules.header < most && rules.buffer >= 0 && rules.threads >= 1 &&
                rules.threads <= 256,
            "packets out of range");
    if (!rules.roce) return;
    const RoceRules& roce = *rules.roce;
    require(roce.buffer >= 1 && roce.alpha > 0 && roce.kmin >= 0 && roce.kmax >= roce.kmin && roce.pmax >= 0 && roce.pmax <= 1'000'000,
            "packets out of range");
    require(roce.gain > 0 && roce.gain <= 1 && roce.cnp_interval >= 1 && roce.alpha_timer >= 1 && roce.rate_timer >= 1 &&
                roce.byte_counter >= 1 && roce.recovery >= 1 && roce.additive > 0,
            "packets out of range");
}

}  // namespace

void check(const Network& network) {
    const PacketRules& rules = network.packets;
    check_rules(rules);
    const auto one = [&rules](double latency, std::int64_t buffer, const std::string& what) {
        if (ticks(latency, false) < 1) throw Unsupported("packets over " + what + " without latency: at least 1 ps");
        if (buffer == 0) buffer = rules.buffer;
        if (!rules.roce && buffer > 0 && buffer < rules.size + rules.header)
            throw Unsupported("packets of " + std::to_string(rules.size + rules.header) + " bytes over " + what + " with a buffer of " +
                              std::to_string(buffer));
    };
    if (network.graph) {
        for (std::size_t k = 0; k < network.graph->links(); ++k)
            one(network.graph->latency[k], network.graph->buffer[k], "link " + std::to_string(k));
        return;
    }
    for (std::size_t d = 0; d < network.dims.size(); ++d)
        if (network.dims[d].npus > 1) one(network.dims[d].latency, 0, "links of dim " + std::to_string(d));
}

}  // namespace astrarium::packets
