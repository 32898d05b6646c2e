#include "astra/astra_network.hpp"

#include <string>

#include "plan/run.hpp"

namespace astrarium {

namespace {

const Network& checked(const Network& network) {
    if (network.medium->on_links && network.dims.size() != 1)
        throw Unsupported("the congestion-aware back end of ASTRA-sim has one dim, this network has " +
                          std::to_string(network.dims.size()));
    return network;
}

std::optional<AstraTraffic> traffic_of(const Plan& plan, bool record, bool by_step) {
    if (!record) return std::nullopt;
    const Network& network = plan.network;
    const std::size_t ports = static_cast<std::size_t>(plan.npus) * network.dims.size();
    return AstraTraffic(network, network.medium->on_links ? AstraLinks::count(network) : ports, by_step);
}

Tick wire_time(std::int64_t size, const Dim& dim) { return ticks(static_cast<double>(size) / dim.bandwidth, true); }

}  // namespace

AstraNetwork::AstraNetwork(const Plan& plan, bool record, bool looped, Clock& clock, Ties& ties)
    : network_(checked(plan.network)), links_shared_(plan.network.medium->meets), clock_(clock), geometry_(plan.network),
      traffic_(traffic_of(plan, record, ties.watched)), links_(plan.network, looped, clock, ties, traffic_ ? &*traffic_ : nullptr) {}

void AstraNetwork::note_use(std::uint32_t from, std::size_t dim, std::int64_t size) {
    const Tick busy = wire_time(size, network_.dims[dim]);
    traffic_->add(from * network_.dims.size() + dim, size, busy);
    traffic_->use(dim, clock_.now, busy);
}

Tick unshared_time(const Plan& plan, std::uint32_t from, std::uint32_t to, std::int64_t size, Load& load) {
    std::size_t dim = 0;
    const Tick time = unshared(plan.network, Geometry(plan.network), static_cast<int>(from), static_cast<int>(to), size, dim);
    load = {static_cast<std::int32_t>(dim), 0, false, size, wire_time(size, plan.network.dims[dim])};
    return time;
}

}  // namespace astrarium
