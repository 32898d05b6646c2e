#include "media/links.hpp"

#include <algorithm>

namespace astrarium {
namespace {

const MediumKind kind{.name = "contention", .links = true, .queues = true, .open = open_as<Links>};
const Registered registered(kind);

}  // namespace

void Links::ask(MessageId id, Tick now) {
    Flight& flight = run_.flight(id);
    if (flight.at == flight.destination)
        run_.delivered(id, now);
    else
        run_.ask_again(id, leave(flight, reserve(flight, now)));
}

// Of the links of a message's way, innermost dim first.
Links::Next Links::next(const Flight& f) const {
    std::size_t d = 0;
    while (geometry_.coordinate(f.at, d) == geometry_.coordinate(f.destination, d)) ++d;
    const int from = geometry_.coordinate(f.at, d), to = geometry_.coordinate(f.destination, d);
    const auto [which, place] = geometry_.step(d, from, to);
    const bool to_switch = network_.dims[d].shape == Shape::switch_ && !f.at_switch;
    const int landing = to_switch ? f.at : f.at + (place - from) * geometry_.stride(d);
    return {d, traffic_.port(d, f.at_switch ? landing : f.at, which), landing, f.at_switch, to_switch};
}

Medium::Turn Links::reserve(const Flight& f, Tick now) {
    const Next link = next(f);
    const Tick serial = ticks(static_cast<double>(f.size) / network_.dims[link.dim].bandwidth, false);
    Tick& free = link.down ? down_[link.link] : up_[link.link];
    const Tick start = std::max(now, free);
    free = add(start, serial);
    traffic_.charge(link.link, link.down, f.size, serial);
    if (!link.down) traffic_.use(link.dim, start, serial, f.at);
    return {link.link, start, serial};
}

Tick Links::leave(Flight& f, const Turn& turn) {
    const Next link = next(f);
    const Tick latency = ticks(network_.dims[link.dim].latency, false), end = add(turn.start, turn.serial);
    f.at = link.landing, f.at_switch = link.leaves_for_switch;
    if (!network_.cut_through) return add(end, latency);
    f.tail = add(std::max(end, f.tail), latency);
    return f.at == f.destination ? f.tail : add(turn.start, latency);
}

}  // namespace astrarium
