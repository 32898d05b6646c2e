#include "media/packets/check.hpp"

#include <algorithm>

#include "media/distance.hpp"
#include "media/packets/net.hpp"
#include "plan/check_plan.hpp"
#include "plan/graph.hpp"

namespace astrarium::packets {
namespace {

void check_rules(const PacketRules& rules) {
    constexpr std::int64_t most = std::int64_t{1} << 31;
    require(rules.size >= 1 && rules.size < most && rules.header >= 0 && rules.header < most && rules.buffer >= 0 && rules.threads >= 1 &&
                rules.threads <= 256,
            "packets out of range");
    if (const TransportKind& transport = transport_of(rules); transport.check) transport.check(rules);
}

}  // namespace

bool pulls(const Network& network) { return transport_of(network.packets).pulls; }

void check(const Network& network) {
    const PacketRules& rules = network.packets;
    check_rules(rules);
    require(rules.inside.empty() || rules.inside.size() == (network.graph ? network.graph->links() : network.dims.size()),
            "packets whose links inside hosts are of another network");
    const auto one = [&rules](double latency, std::int64_t buffer, const std::string& what) {
        if (ticks(latency, false) < 1) throw Unsupported("packets over " + what + " without latency: at least 1 ps");
        if (buffer == 0) buffer = rules.buffer;
        if (transport_of(rules).link_buffers && buffer > 0 && buffer < rules.size + rules.header)
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
