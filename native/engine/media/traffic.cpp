#include "media/traffic.hpp"

#include <bit>

#include "plan/graph.hpp"

namespace astrarium {

std::size_t Traffic::ports_per_npu(const Dim& dim) {
    switch (dim.shape) {
        case Shape::ring:
        case Shape::mesh: return 2;
        case Shape::fully_connected: return static_cast<std::size_t>(dim.npus);
        case Shape::hypercube: return static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(dim.npus)));
        default: return 1;
    }
}

Traffic::Traffic(const Network& network, PortRows of, bool record)
    : rows(std::move(of)), usage(network.graph ? 1 : network.dims.size()), network_(network), record_(record) {
    if (network.graph) {
        if (record) carried_.resize(network.graph->links());
        return;
    }
    for (const Dim& dim : network.dims) {
        base_.push_back(total_), per_npu_.push_back(ports_per_npu(dim));
        total_ += per_npu_.back() * rows.rows;
    }
    if (total_ > 400'000'000) throw Unsupported("a network of more than 400 million ports");
    if (record && !rows.one) carried_.resize(2 * total_);
}

void Traffic::charge_one(std::size_t port, bool inward, std::int64_t size, Tick busy) {
    Load& load = loads_.try_emplace({port, inward}, named(port, inward)).first->second;
    load.bytes += size, load.busy += busy;
}

void Traffic::counts(std::vector<std::int64_t>& out) const {
    out.push_back(static_cast<std::int64_t>(usage.additions()));
    for (const std::size_t port : used_) out.push_back(carried_[port].size), out.push_back(carried_[port].busy);
}

// `counts` from `first` on are those of a period.
bool Traffic::knows(const std::vector<std::int64_t>& counts, std::size_t first) const {
    return usage.knows(static_cast<std::uint64_t>(counts[first]));
}

bool Traffic::remember(const std::vector<std::int64_t>& counts, std::size_t first) {
    return usage.keep_log(static_cast<std::uint64_t>(counts[first]));
}

void Traffic::skip(const std::vector<std::int64_t>& counts, std::size_t first, std::int64_t periods, Tick time) {
    usage.skip(static_cast<std::uint64_t>(counts[first]), periods, time);
    for (std::size_t k = 0; k < used_.size(); ++k) {
        Carried& carried = carried_[used_[k]];
        carried.size += periods * counts[first + 1 + 2 * k];
        carried.busy = add(carried.busy, times(periods, counts[first + 2 + 2 * k]));
    }
}

Load Traffic::named(std::size_t port, bool inward) const {
    std::size_t d = base_.size() - 1;
    while (base_[d] > port) --d;
    const std::size_t per = ports_per_npu(network_.dims[d]);
    return {static_cast<std::int32_t>(d), static_cast<std::int32_t>((port - base_[d]) % per), inward, 0, 0};
}

std::vector<Load> Traffic::loads() const {
    std::vector<Load> out;
    for (const auto& [port, load] : loads_) out.push_back(load);
    return out;
}

void Traffic::report(Outcome& out, bool links) {
    usage.report(out);
    if (network_.graph) return report_graph(out);
    const Geometry geometry(network_);
    for (std::size_t i = 0; i < carried_.size(); ++i) {
        if (carried_[i].size == 0) continue;
        const bool inward = i >= total_;
        const std::size_t p = inward ? i - total_ : i;
        const Load name = named(p, inward);
        const auto d = static_cast<std::size_t>(name.dim);
        const Dim& dim = network_.dims[d];
        const int npu = rows.npu(static_cast<std::int32_t>((p - base_[d]) / ports_per_npu(dim)));
        int peer = -1;
        if (links && dim.shape != Shape::switch_) {
            const int at = geometry.coordinate(npu, d);
            peer = npu + (geometry.neighbour(d, at, name.port) - at) * geometry.stride(d);
        }
        out.link_dim.push_back(name.dim);
        out.link_port.push_back(name.port);
        out.link_from.push_back(inward ? peer : npu);
        out.link_to.push_back(inward ? npu : peer);
        out.link_bytes.push_back(carried_[i].size);
        out.link_busy.push_back(carried_[i].busy);
    }
}

void Traffic::report_graph(Outcome& out) const {
    for (std::size_t link = 0; link < carried_.size(); ++link) {
        if (carried_[link].size == 0) continue;
        out.link_dim.push_back(0);
        out.link_number.push_back(static_cast<std::int32_t>(link));
        out.link_from.push_back(network_.graph->source[link]), out.link_to.push_back(network_.graph->target[link]);
        out.link_bytes.push_back(carried_[link].size), out.link_busy.push_back(carried_[link].busy);
    }
}

}  // namespace astrarium
