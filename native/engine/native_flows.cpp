// Native rule book, messages as flows: each draws on all links of its way at once, at max-min fair rates (fluid). Its
// specification, with the same integers, is astrarium.engine.reference.native_flows.
#include <cmath>

#include "native.hpp"

namespace astrarium {
namespace {

std::int64_t parts_per_ps(const Dim& dim) {
    return static_cast<std::int64_t>(std::nearbyint(dim.bandwidth / 1000 * static_cast<double>(Activities::unit)));
}

}  // namespace

void Native::open_flows() {
    flows_ = std::make_unique<Flows>();
    if (!record_) return;
    std::vector<std::int64_t> whole;
    for (const Dim& dim : plan_.network.dims) whole.push_back(parts_per_ps(dim));
    wires_.usage().count_parts(std::move(whole));
    flows_->under_way = Activities([this](const Activities::Resources& drawn, Tick from, Tick to, std::int64_t rate) {
        for (const std::uint32_t resource : drawn)
            if (const Wires::Link& link = flows_->links[resource]; !link.down) wires_.usage().add(link.dim, from, to - from, rate);
    });
}

void Native::begin_flow(std::uint32_t id) {
    if (flows_->under_way.now() != clock_.now) run_flows();
    std::vector<Wires::Link> links;
    wires_.route(messages_[id].flight, links);
    Activities::Resources drawn;
    for (const Wires::Link& link : links) {
        const auto [at, fresh] = flows_->resource_of.try_emplace(2 * link.number + link.down, 0);
        if (fresh) {
            at->second = flows_->under_way.add_resource(parts_per_ps(plan_.network.dims[link.dim]));
            flows_->links.push_back(link);
        }
        drawn.push_back(at->second);
    }
    flows_->under_way.start(messages_[id].flight.size, std::move(drawn), id);
    look_at_flows();
}

void Native::run_flows() {
    if (flows_->due == clock_.now) flows_->due = Activities::never;
    flows_->under_way.advance(clock_.now, [this](std::uint32_t id, const Activities::Resources& links) { end_flow(id, links); });
    look_at_flows();
}

// The last byte has left: it arrives after the latency of all links.
void Native::end_flow(std::uint32_t id, const Activities::Resources& drawn) {
    __extension__ typedef __int128 Wide;
    const Message& m = messages_[id];
    Tick arrives = clock_.now;
    for (const std::uint32_t resource : drawn) {
        const Wires::Link& link = flows_->links[resource];
        const Dim& dim = plan_.network.dims[link.dim];
        arrives = add(arrives, ticks(dim.latency, false));
        if (record_) wires_.charge(link, m.flight.size, static_cast<Tick>(static_cast<Wide>(m.flight.size) * Activities::unit / parts_per_ps(dim)));
    }
    clock_.at(arrives, BatchClock::done, {m.high, m.low, send_over, id, 0});
}

// Once an instant, after all that begins and ends in it.
void Native::look_at_flows() {
    if (flows_->looked_at) return;
    flows_->looked_at = true;
    clock_.at(clock_.now, BatchClock::arrive, {0, 0, flows_shared, 0, 0});
}

void Native::share_flows() {
    flows_->looked_at = false;
    const Tick next = flows_->under_way.next_time();
    if (next >= flows_->due) return;
    flows_->due = next;
    clock_.at(next, BatchClock::done, {0, 0, flows_end, 0, 0});
}

}  // namespace astrarium
