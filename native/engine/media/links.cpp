#include "media/links.hpp"

#include <algorithm>

namespace astrarium {
namespace {

const MediumKind kind{.name = "contention", .links = true, .open = open_as<Links>};
const Registered registered(kind);

}  // namespace

void Links::ask(MessageId id, Tick now) {
    Flight& flight = run_.flight(id);
    if (flight.at == flight.destination)
        run_.delivered(id, now);
    else
        run_.ask_again(id, cross(flight, now));
}

// The next link, innermost dim first; when the message is at its end.
Tick Links::cross(Flight& f, Tick now) {
    std::size_t d = 0;
    while (geometry_.coordinate(f.at, d) == geometry_.coordinate(f.destination, d)) ++d;
    const Dim& dim = network_.dims[d];
    const int from = geometry_.coordinate(f.at, d), to = geometry_.coordinate(f.destination, d);
    const Tick serial = ticks(static_cast<double>(f.size) / dim.bandwidth, false), latency = ticks(dim.latency, false);
    auto [which, next] = geometry_.step(d, from, to);
    bool down = false;
    if (dim.shape == Shape::switch_) {
        down = f.at_switch;
        if (!down) next = from;
        f.at_switch = !down;
    }
    const int landing = f.at + (next - from) * geometry_.stride(d);
    const std::size_t link = traffic_.port(d, down ? landing : f.at, which);
    Tick& free = down ? down_[link] : up_[link];
    const Tick start = std::max(now, free);
    free = add(start, serial);
    traffic_.charge(link, down, f.size, serial);
    if (!down) traffic_.use(d, start, serial, f.at);
    f.at = landing;
    if (!network_.cut_through) return add(add(start, serial), latency);
    f.tail = add(std::max(free, f.tail), latency);
    return f.at == f.destination ? f.tail : add(start, latency);
}

}  // namespace astrarium
