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

void DimsFabric::aim(Flight& f) const {
    const Hop hop = next(f);
    f.link = static_cast<std::uint32_t>(hop.number), f.left = 1;
    f.ends_at_switch = geometry_.is_switch(f.destination) || geometry_.is_switch(f.at);
    const Shape shape = network_.dims[hop.dim].shape;
    if (shape != Shape::ring && shape != Shape::ring_one_way && shape != Shape::mesh) return;
    const int hops = geometry_.hops(hop.dim, geometry_.coordinate(f.at, hop.dim), geometry_.coordinate(f.destination, hop.dim));
    f.left = static_cast<std::uint16_t>(std::min(hops, 0xffff));
}

// Of those that `each_link` visits.
LinkOf DimsFabric::link(std::size_t number) const {
    const bool down = number >= traffic_.ports();
    const Load name = traffic_.named(down ? number - traffic_.ports() : number, false);
    const auto d = static_cast<std::size_t>(name.dim);
    const Dim& dim = network_.dims[d];
    const auto npu = static_cast<std::int32_t>(((down ? number - traffic_.ports() : number) - traffic_.first(d, 0)) / traffic_.per_npu(d));
    const int place = geometry_.coordinate(npu, d);
    const bool at_switch = dim.shape == Shape::switch_;
    const Speed speed = dim.link(place);
    const std::int32_t landing = at_switch ? npu : npu + (geometry_.neighbour(d, place, name.port) - place) * geometry_.stride(d);
    return {{speed.bandwidth, ticks(speed.latency, false), d, at_switch && !down, !down}, landing};
}

// Between an NPU and its switch.
Hop DimsFabric::half(const Flight& f) const {
    const bool up = geometry_.is_switch(f.destination);
    const std::size_t d = geometry_.dim_of_switch(up ? f.destination : f.at);
    return {traffic_.port(d, up ? f.at : f.destination, 0) + (up ? 0 : traffic_.ports()), d, f.destination, false, up};
}

GraphFabric::GraphFabric(const Plan& plan, const Traffic& traffic)
    : graph_(*plan.network.graph), npus_(static_cast<std::int32_t>(traffic.rows.rows)),
      epochs_(graph_, npus_, std::size_t{1} << 28, plan.link_rates.get(), pair_of) {}

std::uint32_t GraphFabric::choose(const Flight& f) const {
    const std::uint64_t pair = pair_of(f.source, f.destination);
    Routing& routing = epochs_.from(f.at, f.destination);
    if (const std::uint32_t given = routing.given.link(pair, f.at); given != GivenRoutes::none) return given;
    routing.shortest.forget();
    const std::uint32_t found = routing.shortest(f.at, f.destination);
    if (!(found & Shortest::many)) return found;
    const auto able = routing.shortest.list(found);
    if (graph_.ecmp == Graph::first_link) return able.front();
    const std::uint64_t mixed = mix64(mix64(mix64(static_cast<std::uint64_t>(graph_.ecmp)) ^ pair) ^ static_cast<std::uint64_t>(f.at));
    return able[mixed % able.size()];
}

Hop GraphFabric::next(const Flight& f) const {
    const Asked asked{f.source, f.destination, f.at};
    if (!(asked == asked_)) answer_ = choose(f), asked_ = asked;
    return {answer_, 0, graph_.target[answer_], false, f.at < npus_};
}

}  // namespace astrarium
