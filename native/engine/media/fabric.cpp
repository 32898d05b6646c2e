#include "media/fabric.hpp"

#include <algorithm>

namespace astrarium {
namespace {

std::uint64_t mix64(std::uint64_t word) {  // splitmix64
    word += 0x9E3779B97F4A7C15ull;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ word >> 27) * 0x94D049BB133111EBull;
    return word ^ word >> 31;
}

std::uint64_t pair_of(std::int32_t source, std::int32_t destination) {
    return std::uint64_t{static_cast<std::uint32_t>(source)} << 32 | static_cast<std::uint32_t>(destination);
}

}  // namespace

Hop DimsFabric::next(const Flight& f) const {
    if (geometry_.is_switch(f.destination) || geometry_.is_switch(f.at)) return half(f);
    std::size_t d = 0;
    while (geometry_.coordinate(f.at, d) == geometry_.coordinate(f.destination, d)) ++d;
    const int from = geometry_.coordinate(f.at, d), to = geometry_.coordinate(f.destination, d);
    const auto [which, place] = geometry_.step(d, from, to);
    const bool to_switch = network_.dims[d].shape == Shape::switch_ && !f.at_switch;
    const int landing = to_switch ? f.at : f.at + (place - from) * geometry_.stride(d);
    return {traffic_.port(d, f.at_switch ? landing : f.at, which) + (f.at_switch ? traffic_.ports() : 0), d, landing, to_switch,
            !f.at_switch};
}

// Between an NPU and its switch.
Hop DimsFabric::half(const Flight& f) const {
    const bool up = geometry_.is_switch(f.destination);
    const std::size_t d = geometry_.dim_of_switch(up ? f.destination : f.at);
    return {traffic_.port(d, up ? f.at : f.destination, 0) + (up ? 0 : traffic_.ports()), d, f.destination, false, up};
}

GraphFabric::GraphFabric(const Network& network, const Traffic& traffic)
    : graph_(*network.graph), npus_(static_cast<std::int32_t>(traffic.rows.rows)), out_(graph_.nodes, graph_.source),
      in_(graph_.nodes, graph_.target), given_(graph_, pair_of) {
    const auto nodes = static_cast<std::size_t>(graph_.nodes);
    for (std::int32_t node = 0; node < graph_.nodes; ++node) {
        const auto links = in_[node];
        const bool one = !links.empty() && std::all_of(links.begin(), links.end(),
                                                       [&](std::uint32_t k) { return graph_.source[k] == graph_.source[links[0]]; });
        before_.push_back(one ? graph_.source[links[0]] : node);
    }
    most_ = std::max<std::size_t>(16, most_bytes / (sizeof(Field::value_type) * nodes));
    field_of_.assign(nodes, none);
}

const GraphFabric::Field& GraphFabric::field(std::int32_t node) const {
    std::uint32_t& known = field_of_[static_cast<std::size_t>(node)];
    if (known != none) return fields_[known];
    if (fields_.size() < most_) {
        known = static_cast<std::uint32_t>(fields_.size());
        fields_.emplace_back(), owner_.push_back(node);
    } else {
        known = static_cast<std::uint32_t>(oldest_);
        oldest_ = (oldest_ + 1) % most_;
        field_of_[static_cast<std::size_t>(std::exchange(owner_[known], node))] = none;
    }
    Field& out = fields_[known];
    out.clear();
    for (const std::int32_t links : distances(graph_.nodes, node, in_, graph_.source))
        out.push_back(static_cast<std::uint16_t>(std::min<std::int32_t>(links, Graph::longest_way + 1)));
    return out;
}

std::uint32_t GraphFabric::choose(const Flight& f) const {
    const std::uint64_t pair = pair_of(f.source, f.destination);
    if (const std::uint32_t given = given_.link(pair, f.at); given != GivenRoutes::none) return given;
    const std::int32_t root = before_[static_cast<std::size_t>(f.destination)];
    able_.clear();
    if (f.at == root) {
        const auto last = in_[f.destination];
        able_.assign(last.begin(), last.end());
    } else {
        const Field& left = field(root);
        const std::uint32_t here = left[static_cast<std::size_t>(f.at)];
        for (const std::uint32_t link : out_[f.at])
            if (left[static_cast<std::size_t>(graph_.target[link])] + 1u == here) able_.push_back(link);
    }
    if (able_.size() == 1 || graph_.ecmp == Graph::first_link) return able_.front();
    const std::uint64_t mixed = mix64(mix64(mix64(static_cast<std::uint64_t>(graph_.ecmp)) ^ pair) ^ static_cast<std::uint64_t>(f.at));
    return able_[mixed % able_.size()];
}

Hop GraphFabric::next(const Flight& f) const {
    const Asked asked{f.source, f.destination, f.at};
    if (!(asked == asked_)) answer_ = choose(f), asked_ = asked;
    return {answer_, 0, graph_.target[answer_], false, f.at < npus_};
}

}  // namespace astrarium
