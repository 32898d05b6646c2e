#include "media/flows.hpp"

#include <cmath>

namespace astrarium {
namespace {

std::int64_t parts_per_ps(const Dim& dim) {
    return static_cast<std::int64_t>(std::nearbyint(dim.bandwidth / 1000 * static_cast<double>(Activities::unit)));
}

void check(const Network& network) {
    for (const Dim& dim : network.dims)
        if (!(dim.bandwidth >= 1e-6 && dim.bandwidth <= 1e9)) throw Unsupported("flows over links of less than 1e-6 or more than 1e9 bytes per ns");
}

const MediumKind kind{.name = "fluid", .never_folds = "flows share links", .check = check, .open = open_as<Flows>};
const Registered registered(kind);

}  // namespace

Flows::Flows(const Plan& plan, bool record, Carried& run)
    : network_(plan.network), run_(run), geometry_(plan.network), traffic_(plan.network, PortRows::each(plan), record) {
    if (!record) return;
    std::vector<std::int64_t> whole;
    for (const Dim& dim : network_.dims) whole.push_back(parts_per_ps(dim));
    traffic_.usage.count_parts(std::move(whole));
    under_way_ = Activities([this](const Activities::Resources& drawn, Tick from, Tick to, std::int64_t rate) {
        for (const std::uint32_t resource : drawn)
            if (const Link& link = links_[resource]; !link.down) traffic_.usage.add(link.dim, from, to - from, rate);
    });
}

// All links of a message's way, innermost dim first.
void Flows::route(const Flight& flight, std::vector<Link>& out) const {
    int at = flight.source;
    for (std::size_t d = 0; d < network_.dims.size(); ++d) {
        const int to = geometry_.coordinate(flight.destination, d);
        for (int from = geometry_.coordinate(at, d); from != to; from = geometry_.coordinate(at, d)) {
            const auto [which, next] = geometry_.step(d, from, to);
            out.push_back({d, traffic_.port(d, at, which), false});
            at += (next - from) * geometry_.stride(d);
            if (network_.dims[d].shape == Shape::switch_) out.push_back({d, traffic_.port(d, at, which), true});
        }
    }
}

void Flows::ask(MessageId id, Tick now) {
    if (under_way_.now() != now) run_to(now);
    std::vector<Link> links;
    route(run_.flight(id), links);
    Activities::Resources drawn;
    for (const Link& link : links) {
        const auto [at, fresh] = resource_of_.try_emplace(2 * link.number + link.down, 0);
        if (fresh) {
            at->second = under_way_.add_resource(parts_per_ps(network_.dims[link.dim]));
            links_.push_back(link);
        }
        drawn.push_back(at->second);
    }
    under_way_.start(run_.flight(id).size, std::move(drawn), id);
    look(now);
}

void Flows::run_to(Tick now) {
    if (due_ == now) due_ = never;
    under_way_.advance(now, [this, now](MessageId id, const Activities::Resources& links) { end_flow(id, links, now); });
    look(now);
}

// The last byte has left: it arrives after the latency of all links.
void Flows::end_flow(MessageId id, const Activities::Resources& drawn, Tick now) {
    __extension__ typedef __int128 Wide;
    const std::int64_t size = run_.flight(id).size;
    Tick arrives = now;
    for (const std::uint32_t resource : drawn) {
        const Link& link = links_[resource];
        const Dim& dim = network_.dims[link.dim];
        arrives = add(arrives, ticks(dim.latency, false));
        traffic_.charge(link.number, link.down, size, static_cast<Tick>(static_cast<Wide>(size) * Activities::unit / parts_per_ps(dim)));
    }
    run_.delivered(id, arrives);
}

// Once an instant, after all that begins and ends in it: when is the next end?
void Flows::look(Tick now) {
    if (looked_at_) return;
    looked_at_ = true;
    run_.wake(share, now, Carried::Turn::end);
}

void Flows::wake(std::uint32_t what, Tick now) {
    if (what == end) return run_to(now);
    looked_at_ = false;
    const Tick next = under_way_.next_time();
    if (next >= due_) return;
    due_ = next;
    run_.wake(end, next, Carried::Turn::before);
}

}  // namespace astrarium
