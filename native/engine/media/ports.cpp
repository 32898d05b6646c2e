#include "media/ports.hpp"

#include <algorithm>
#include <bit>

#include "plan/unfoldable.hpp"

namespace astrarium {
namespace {

const MediumKind kind{.name = "closed_form", .on_ports = true, .takes_switches = true};
const Registered registered(kind);

}  // namespace

Ports::Ports(const Plan& plan, PortRows rows, bool record)
    : traffic(plan.network, std::move(rows), record), plan_(plan), folded_(traffic.rows.of_npu != nullptr), geometry_(plan.network) {
    for (const Dim& dim : plan.network.dims) lines_ = lines_ || dim.shape == Shape::mesh;
    serial_.resize(plan.network.dims.size());
    out_free_.assign(traffic.ports(), 0), in_free_.assign(traffic.ports(), 0);
    if (folded_) asks_.resize(traffic.ports()), trains_.resize(traffic.ports());
}

// Ways that were found lately stand in a table.
void Ports::ways(std::int32_t source, std::int32_t destination) {
    if (known_.empty()) known_.resize(lines_ ? 1 : std::bit_ceil(std::clamp<std::size_t>(32 * traffic.rows.rows, 64, 1024)));
    const std::size_t mixed =
        static_cast<std::size_t>(source) * 0x9e3779b97f4a7c15ull + static_cast<std::size_t>(destination) * 0xc2b2ae3d27d4eb4full;
    Known& known = known_[(mixed >> 32) & (known_.size() - 1)];
    if (known.source == source && known.destination == destination) {
        ways_ = {known.ways.data(), known.count};
        return;
    }
    find_ways(source, destination);
    ways_ = found_;
    if (lines_ || found_.size() > known.ways.size()) return;
    known.source = source, known.destination = destination, known.count = found_.size();
    std::copy(found_.begin(), found_.end(), known.ways.begin());
}

void Ports::find_ways(std::int32_t source, std::int32_t destination) {
    found_.clear();
    const bool here = traffic.rows.row(source) >= 0, there = traffic.rows.row(destination) >= 0;
    int from_rest = source, to_rest = destination;  // coordinates of this dim and of those after it
    for (std::size_t d = 0; from_rest != to_rest; ++d) {
        const Dim& dim = plan_.network.dims[d];
        const int from = rest(from_rest, dim.npus), to = rest(to_rest, dim.npus);
        from_rest = quotient(from_rest, dim.npus), to_rest = quotient(to_rest, dim.npus);
        if (from == to) continue;
        int hops = geometry_.hops(d, from, to);
        int out = 0, in = 0, charged = 1;
        switch (dim.shape) {
            case Shape::ring: {
                const int forward = to >= from ? to - from : to - from + dim.npus;
                out = in = hops == forward ? 0 : 1;
                charged = hops;
                break;
            }
            case Shape::ring_one_way: charged = hops; break;
            case Shape::mesh: out = in = to > from ? 0 : 1, hops = 1; break;  // then from NPU to NPU
            case Shape::fully_connected: out = to, in = from; break;
            case Shape::hypercube:
                out = std::countr_zero(static_cast<unsigned>(from ^ to));
                in = std::bit_width(static_cast<unsigned>(from ^ to)) - 1;
                break;
            case Shape::switch_: break;
        }
        found_.push_back({d, here ? traffic.port(d, source, out) : 0, there ? traffic.port(d, destination, in) : 0,
                          ticks(dim.latency * hops, false), charged, out});
        if (dim.ends.empty()) continue;
        const Speed first = dim.link(from), last = dim.link(to);
        Way& way = found_.back();
        way.leaves = first.bandwidth, way.slower = std::min(first.bandwidth, last.bandwidth);
        if (std::max(from, to) >= dim.npus - static_cast<int>(dim.ends.size())) way.latency = ticks(first.latency + last.latency, false);
    }
}

Tick Ports::depart(Flight& flight, Tick now) {
    if (to_or_from_switch(flight)) return leave_for_switch(flight, now);
    if (flight.at != flight.source) return pass(flight, now);
    ways(flight.source, flight.destination);
    Tick start = now, line = 0;  // line: the time of a transfer along the first mesh; further ones come when it is crossed
    if (lines_) leave_one_mesh();
    for (const Way& way : ways_) start = std::max(start, out_free_[way.out]);
    Tick head = start;
    for (const Way& way : ways_) {
        const Tick serial = through(way, flight.size, way.leaves);
        const Tick held = serial * way.charged;
        out_free_[way.out] = add(start, held);
        quiet_ = std::max(quiet_, out_free_[way.out]);
        if (holds_) holds_->ask(held_as(way.out, flight.source, way.dim, false), now, out_free_[way.out]);
        if (!uses_.empty()) use(flight.source, way.dim).out.add(now, out_free_[way.out]);  // others queue behind it from now on
        head = add(head, way.latency + held - serial);
        if (plan_.network.dims[way.dim].shape == Shape::mesh) flight.at += geometry_.stride(way.dim) * (way.which ? -1 : 1), line = serial;
        traffic.charge(way.out, false, flight.size * way.charged, held);
        traffic.use(way.dim, start, held, flight.source);
    }
    return arrived(flight) ? head : add(head, line);
}

void Ports::leave_one_mesh() {
    bool found = false;
    std::erase_if(found_, [&](const Way& way) {
        if (plan_.network.dims[way.dim].shape != Shape::mesh) return false;
        const bool later = found;
        found = true;
        return later;
    });
    ways_ = found_;
}

// A line has no way round: what goes far asks for the link of every NPU between, when it is there.
Tick Ports::pass(Flight& f, Tick now) {
    std::size_t d = 0;
    while (!on_the_way(f, d)) ++d;
    const Dim& dim = plan_.network.dims[d];
    const int which = geometry_.coordinate(f.destination, d) < geometry_.coordinate(f.at, d);
    const std::size_t link = traffic.port(d, f.at, which);
    const Tick serial = ticks(static_cast<double>(f.size) / dim.bandwidth, false), start = std::max(now, out_free_[link]);
    out_free_[link] = add(start, serial);
    if (holds_) holds_->ask(link, now, out_free_[link]);
    quiet_ = std::max(quiet_, out_free_[link]);
    traffic.charge(link, false, f.size, serial);
    traffic.use(d, start, serial, f.at);
    f.at += geometry_.stride(d) * (which ? -1 : 1);
    return add(add(start, arrived(f) ? 0 : serial), ticks(dim.latency, false));
}

bool Ports::passes(const Flight& f) const {
    int hops = 0;  // along all meshes: after each an NPU passes it on
    for (std::size_t d = 0; d < plan_.network.dims.size(); ++d)
        if (plan_.network.dims[d].shape == Shape::mesh)
            hops += geometry_.hops(d, geometry_.coordinate(f.source, d), geometry_.coordinate(f.destination, d));
    return hops > 1;
}

// Between an NPU and a switch that computes: only the NPU has a port. When its head is at the other end.
Tick Ports::leave_for_switch(const Flight& f, Tick now) {
    const bool up = geometry_.is_switch(f.destination);
    const std::size_t d = geometry_.dim_of_switch(up ? f.destination : f.source);
    const Tick latency = ticks(plan_.network.dims[d].latency, false);
    if (!up) return add(now, latency);
    const std::size_t out = traffic.port(d, f.source, 0);
    const Tick serial = through({.dim = d}, f.size, 0), start = std::max(now, out_free_[out]);
    out_free_[out] = add(start, serial), quiet_ = std::max(quiet_, out_free_[out]);
    if (holds_) holds_->ask(held_as(out, f.source, d, false), now, out_free_[out]);
    keep_out(f.source, d, now, out_free_[out]);
    traffic.charge(out, false, f.size, serial), traffic.use(d, start, serial, f.source);
    return add(start, latency);
}

Tick Ports::come_to_switch(const Flight& f, Tick now) {
    const bool up = geometry_.is_switch(f.destination);
    const std::size_t d = geometry_.dim_of_switch(up ? f.destination : f.source);
    const Tick serial = through({.dim = d}, f.size, 0);
    if (up) return add(now, serial);
    const std::size_t in = traffic.port(d, f.destination, 0);
    in_free_[in] = add(std::max(now, in_free_[in]), serial), quiet_ = std::max(quiet_, in_free_[in]);
    if (holds_) holds_->ask(held_as(in, f.destination, d, true), now, in_free_[in]);
    if (!uses_.empty()) use(f.destination, d).in.add(now, in_free_[in]);
    traffic.charge(in, true, f.size, serial);
    return in_free_[in];
}

Tick Ports::deliver(const Flight& flight, Tick now, const Order& order) {
    if (to_or_from_switch(flight)) return come_to_switch(flight, now);
    ways(flight.from, flight.to);
    Tick begin = now, serial = 0;
    for (const Way& way : ways_) {
        if (folded_ && !trains_[way.in].empty()) take_in(way.in, now, order);
        begin = std::max(begin, in_free_[way.in]);
        serial = std::max(serial, through(way, flight.size, way.slower));
    }
    if (folded_) meet(now, serial, order);
    const Tick end = add(begin, serial);
    quiet_ = std::max(quiet_, end);
    for (const Way& way : ways_) {
        in_free_[way.in] = end;
        if (holds_) holds_->ask(held_as(way.in, flight.to, way.dim, true), now, end);
        if (!uses_.empty()) use(flight.to, way.dim).in.add(now, end);
        traffic.charge(way.in, true, flight.size, serial);
    }
    return end;
}

Tick Ports::depart_together(const Flight& flight, std::uint32_t messages, Tick now, const Order& first) {
    ways(flight.from, flight.to);
    const std::size_t in = ways_.front().in;
    ways(flight.source, flight.destination);
    const Way way = ways_.front();
    const Tick serial = through(way, flight.size, way.leaves), start = std::max(now, out_free_[way.out]), held = times(messages, serial);
    out_free_[way.out] = add(start, held);
    quiet_ = std::max(quiet_, out_free_[way.out]);
    const Tick head = add(start, way.latency), last = add(head, held - serial);
    trains_[in].push_back({head, serial, messages - 1, first});
    traffic.charge(way.out, false, flight.size * messages, held);
    traffic.charge(in, true, flight.size * (messages - 1), held - serial);
    traffic.use(way.dim, start, held, flight.source);
    if (holds_) {
        holds_->ask(held_as(way.out, flight.source, way.dim, false), now, out_free_[way.out]);
        holds_->ask(held_as(in, flight.to, way.dim, true), head, add(last, serial));
    }
    if (!uses_.empty()) use(flight.source, way.dim).out.add(now, out_free_[way.out]), use(flight.source, way.dim).in.add(head, last);
    return last;
}

// How many of a train come before a message of this order that comes now.
std::uint32_t Ports::come(const Train& train, Tick now, const Order& order) {
    const Tick step = train.step, since = now - train.next;
    if (since < 0) return 0;
    const std::uint32_t before =
        step == 0 ? (since > 0 ? train.left : 0) : static_cast<std::uint32_t>(std::min<Tick>(train.left, (since + step - 1) / step));
    if (before == train.left || train.next + before * step != now) return before;
    const std::uint32_t at_once = step > 0 ? 1 : train.left;  // in this instant
    const std::uint64_t low = train.order.low + before;
    const bool same = train.order.high == order.high;
    if (same && order.low >= low && order.low < low + at_once) throw Unfoldable{"messages of several ranks reach one port at one instant"};
    return train.order.high < order.high || (same && low < order.low) ? before + at_once : before;
}

// The messages of trains that come to a port before another one.
void Ports::take_in(std::size_t port, Tick now, const Order& order) {
    auto& trains = trains_[port];
    auto train = trains.begin();
    for (; train != trains.end(); ++train) {
        const std::uint32_t messages = come(*train, now, order);
        if (messages == 0) break;
        const Tick held = times(messages, train->step);
        in_free_[port] = add(std::max(in_free_[port], train->next), held);
        train->next = add(train->next, held), train->left -= messages, train->order.low += messages;
        if (train->left > 0) break;
    }
    trains.erase(trains.begin(), train);
}

// Which of two goes first does not matter where neither takes time.
void Ports::meet(Tick now, Tick serial, const Order& order) {
    ties_.clear();
    for (const Way& way : ways_) {
        Ask& last = asks_[way.in];
        const bool again = last.time == now && last.order == order;
        if (again && (serial > 0 || last.held)) ties_.push_back(last.order);
        last = {now, order, serial > 0 || (again && last.held)};
    }
}

void Ports::keep_uses() {
    if (!lines_) uses_.resize(plan_.network.dims.size() * traffic.rows.rows);
}

std::vector<PortUse> Ports::uses(std::size_t npu) const {
    if (uses_.empty()) return {};
    const auto first = uses_.begin() + static_cast<std::ptrdiff_t>(npu * plan_.network.dims.size());
    return {first, first + static_cast<std::ptrdiff_t>(plan_.network.dims.size())};
}

void Ports::carry(std::size_t cls, const Load& load) {
    const auto dim = static_cast<std::size_t>(load.dim);
    traffic.charge(traffic.first(dim, cls) + static_cast<std::size_t>(load.port), load.inward, load.bytes, load.busy);
}

}  // namespace astrarium
