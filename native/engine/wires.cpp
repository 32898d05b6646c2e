#include "wires.hpp"

#include <algorithm>

#include "image.hpp"

namespace astrarium {

// Ports of an NPU in a dim: ring and mesh forward 0 and backward 1; switch 0; fully_connected one per peer coordinate;
// hypercube one per bit. Links use the same numbers (out side); a switch's down links follow at in_free_.
std::size_t Wires::ports_per_npu(const Dim& dim) const {
    switch (dim.shape) {
        case Shape::ring:
        case Shape::mesh: return 2;
        case Shape::fully_connected: return static_cast<std::size_t>(dim.npus);
        case Shape::hypercube: return static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(dim.npus)));
        default: return 1;
    }
}

Wires::Wires(const Plan& plan, bool record, bool alone, const Image* image)
    : plan_(plan), image_(image), record_(record), alone_(alone), geometry_(plan.network), usage_(plan.network.dims.size()) {
    std::size_t total = 0;
    for (const Dim& dim : plan.network.dims) {
        base_.push_back(total);
        lines_ = lines_ || dim.shape == Shape::mesh;
        total += ports_per_npu(dim) * (alone ? 1 : image ? plan.ranks() : static_cast<std::size_t>(plan.npus));
    }
    serial_.resize(plan.network.dims.size());
    if (plan.network.backend == Backend::foreign) return;  // it has its own
    if (total > 400'000'000) throw Unsupported("a network of more than 400 million ports");
    out_free_.assign(total, 0);
    in_free_.assign(total, 0);
    if (image) asks_.resize(total), trains_.resize(total);
    if (record && !alone) bytes_.assign(2 * total, 0), busy_.assign(2 * total, 0);
}

// Alone there is one NPU, whichever it is.
std::size_t Wires::port(std::size_t dim, int npu, int which) const {
    if (alone_) npu = 0;
    if (image_) npu = image_->slot_of(npu);
    return base_[dim] + static_cast<std::size_t>(npu) * ports_per_npu(plan_.network.dims[dim]) + static_cast<std::size_t>(which);
}

void Wires::charge(std::size_t link, bool inward, std::int64_t size, Tick busy) {
    if (!record_) return;
    if (alone_) {
        Load& load = alone_loads_.try_emplace({link, inward}, named(link, inward)).first->second;
        load.bytes += size, load.busy += busy;
        return;
    }
    if (inward) link += out_free_.size();
    bytes_[link] += size;
    busy_[link] += busy;
}

Load Wires::named(std::size_t port, bool inward) const {
    std::size_t d = base_.size() - 1;
    while (base_[d] > port) --d;
    const std::size_t per = ports_per_npu(plan_.network.dims[d]);
    return {static_cast<std::int32_t>(d), static_cast<std::int32_t>((port - base_[d]) % per), inward, 0, 0};
}

std::vector<Load> Wires::loads() const {
    std::vector<Load> out;
    for (const auto& [port, load] : alone_loads_) out.push_back(load);
    return out;
}

// Ways that were found lately stand in a table.
void Wires::ways(const Flight& f) {
    if (known_.empty()) known_.resize(lines_ ? 1 : 1024);
    Known& known = known_[(static_cast<std::size_t>(f.source) * 31 + static_cast<std::size_t>(f.destination)) & (known_.size() - 1)];
    if (known.source == f.source && known.destination == f.destination) {
        ways_ = {known.ways.data(), known.count};
        return;
    }
    find_ways(f);
    ways_ = found_;
    if (lines_ || found_.size() > known.ways.size()) return;
    known.source = f.source, known.destination = f.destination, known.count = found_.size();
    std::copy(found_.begin(), found_.end(), known.ways.begin());
}

void Wires::find_ways(const Flight& f) {
    found_.clear();
    const bool here = !image_ || image_->slot_of(f.source) >= 0, there = !image_ || image_->slot_of(f.destination) >= 0;
    int from_rest = f.source, to_rest = f.destination;  // coordinates of this dim and of those after it
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
        found_.push_back({d, here ? port(d, f.source, out) : 0, there ? port(d, f.destination, in) : 0, ticks(dim.latency * hops, false), charged, out});
    }
}

Tick Wires::depart(Flight& flight, Tick now) {
    if (plan_.network.backend == Backend::routed) return next_link(flight, now);
    if (flight.at != flight.source) return pass(flight, now);
    ways(flight);
    Tick start = now, line = 0;  // line: the time of a transfer along the first mesh; further ones come when it is crossed
    if (lines_) leave_one_mesh();
    for (const Way& way : ways_) start = std::max(start, out_free_[way.out]);
    Tick head = start;
    for (const Way& way : ways_) {
        const Tick serial = through(way.dim, flight.size);
        const Tick held = serial * way.charged;
        out_free_[way.out] = add(start, held);
        quiet_ = std::max(quiet_, out_free_[way.out]);
        if (!uses_.empty()) use(flight.source, way.dim).out.add(now, out_free_[way.out]);  // others queue behind it from now on
        head = add(head, way.latency + held - serial);
        if (plan_.network.dims[way.dim].shape == Shape::mesh) flight.at += geometry_.stride(way.dim) * (way.which ? -1 : 1), line = serial;
        charge(way.out, false, flight.size * way.charged, held);
        if (record_) usage_.add(way.dim, start, held, image_ ? image_->members(static_cast<std::size_t>(image_->slot_of(flight.source))) : 1);
    }
    return arrived(flight) ? head : add(head, line);
}

void Wires::leave_one_mesh() {
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
Tick Wires::pass(Flight& f, Tick now) {
    std::size_t d = 0;
    while (!on_the_way(f, d)) ++d;
    const Dim& dim = plan_.network.dims[d];
    const int which = geometry_.coordinate(f.destination, d) < geometry_.coordinate(f.at, d);
    const std::size_t link = port(d, f.at, which);
    const Tick serial = ticks(static_cast<double>(f.size) / dim.bandwidth, false), start = std::max(now, out_free_[link]);
    out_free_[link] = add(start, serial);
    quiet_ = std::max(quiet_, out_free_[link]);
    charge(link, false, f.size, serial);
    if (record_) usage_.add(d, start, serial);
    f.at += geometry_.stride(d) * (which ? -1 : 1);
    return add(add(start, arrived(f) ? 0 : serial), ticks(dim.latency, false));
}

bool Wires::passes(const Flight& f) const {
    int hops = 0;  // along all meshes: after each an NPU passes it on
    for (std::size_t d = 0; d < plan_.network.dims.size(); ++d)
        if (plan_.network.dims[d].shape == Shape::mesh) hops += geometry_.hops(d, geometry_.coordinate(f.source, d), geometry_.coordinate(f.destination, d));
    return hops > 1;
}

Tick Wires::deliver(const Flight& flight, Tick now, const Order& order) {
    ways(flight);
    Tick begin = now, serial = 0;
    for (const Way& way : ways_) {
        if (image_ && !trains_[way.in].empty()) take_in(way.in, now, order);
        begin = std::max(begin, in_free_[way.in]);
        serial = std::max(serial, through(way.dim, flight.size));
    }
    if (image_) meet(now, serial, order);
    const Tick end = add(begin, serial);
    quiet_ = std::max(quiet_, end);
    for (const Way& way : ways_) {
        in_free_[way.in] = end;
        if (!uses_.empty()) use(flight.destination, way.dim).in.add(now, end);
        charge(way.in, true, flight.size, serial);
    }
    return end;
}

std::optional<std::size_t> Wires::only_switch(const Flight& flight) {
    ways(flight);
    if (ways_.size() != 1 || plan_.network.dims[ways_.front().dim].shape != Shape::switch_) return std::nullopt;
    return ways_.front().dim;
}

Span Wires::depart_together(const Flight& leaving, const Flight& arriving, std::uint32_t messages, Tick now, const Order& first) {
    ways(arriving);
    const std::size_t in = ways_.front().in;
    ways(leaving);
    const Way way = ways_.front();
    const Tick serial = through(way.dim, leaving.size), start = std::max(now, out_free_[way.out]), held = times(messages, serial);
    out_free_[way.out] = add(start, held);
    quiet_ = std::max(quiet_, out_free_[way.out]);
    const Tick head = add(start, way.latency), last = add(head, held - serial);
    trains_[in].push_back({head, serial, messages - 1, first});
    charge(way.out, false, leaving.size * messages, held);
    charge(in, true, leaving.size * (messages - 1), held - serial);
    if (record_) usage_.add(way.dim, start, held, image_->members(static_cast<std::size_t>(image_->slot_of(leaving.source))));
    if (!uses_.empty()) use(leaving.source, way.dim).out.add(now, out_free_[way.out]), use(leaving.source, way.dim).in.add(head, last);
    return {head, last};
}

// How many of a train come before a message of this order that comes now.
std::uint32_t Wires::come(const Train& train, Tick now, const Order& order) {
    const Tick step = train.step, since = now - train.next;
    if (since < 0) return 0;
    const std::uint32_t before = step == 0 ? (since > 0 ? train.left : 0) : static_cast<std::uint32_t>(std::min<Tick>(train.left, (since + step - 1) / step));
    if (before == train.left || train.next + before * step != now) return before;
    const std::uint32_t at_once = step > 0 ? 1 : train.left;  // in this instant
    const std::uint64_t low = train.order.low + before;
    const bool same = train.order.high == order.high;
    if (same && order.low >= low && order.low < low + at_once) throw Unfoldable{"messages of several ranks reach one port at one instant"};
    return train.order.high < order.high || (same && low < order.low) ? before + at_once : before;
}

// The messages of trains that come to a port before another one.
void Wires::take_in(std::size_t port, Tick now, const Order& order) {
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
void Wires::meet(Tick now, Tick serial, const Order& order) {
    ties_.clear();
    for (const Way& way : ways_) {
        Ask& last = asks_[way.in];
        const bool again = last.time == now && last.order == order;
        if (again && (serial > 0 || last.held)) ties_.push_back(last.order);
        last = {now, order, serial > 0 || (again && last.held)};
    }
}

void Wires::keep_uses() {
    if (plan_.network.backend != Backend::ports || lines_) return;
    uses_.resize(plan_.network.dims.size() * (alone_ ? 1 : image_ ? plan_.ranks() : static_cast<std::size_t>(plan_.npus)));
}

std::vector<PortUse> Wires::uses(std::size_t npu) const {
    if (uses_.empty()) return {};
    const auto first = uses_.begin() + static_cast<std::ptrdiff_t>(npu * plan_.network.dims.size());
    return {first, first + static_cast<std::ptrdiff_t>(plan_.network.dims.size())};
}

std::int32_t Wires::slot_of(std::int32_t npu) const { return image_->slot_of(npu); }

Tick Wires::out_until(std::size_t cls, std::size_t dim) const {
    const std::size_t ports = ports_per_npu(plan_.network.dims[dim]);
    const auto first = out_free_.begin() + static_cast<std::ptrdiff_t>(base_[dim] + cls * ports);
    return *std::max_element(first, first + static_cast<std::ptrdiff_t>(ports));
}

Tick Wires::in_until(std::size_t cls, std::size_t dim) const {
    const std::size_t ports = ports_per_npu(plan_.network.dims[dim]);
    Tick until = 0;
    for (std::size_t port = base_[dim] + cls * ports; port < base_[dim] + (cls + 1) * ports; ++port) {
        Tick free = in_free_[port];
        for (const Train& train : trains_[port]) free = add(std::max(free, train.next), times(train.left, train.step));
        until = std::max(until, free);
    }
    return until;
}

void Wires::carry(std::size_t cls, const Load& load) {
    const auto dim = static_cast<std::size_t>(load.dim);
    charge(base_[dim] + cls * ports_per_npu(plan_.network.dims[dim]) + static_cast<std::size_t>(load.port), load.inward, load.bytes, load.busy);
}

Flight Wires::image(const Flight& flight) const {
    Flight out = flight;
    out.destination = flight.source;
    out.source = 0;
    for (std::size_t d = 0; d < plan_.network.dims.size(); ++d) {
        const Dim& dim = plan_.network.dims[d];
        const int from = geometry_.coordinate(flight.source, d), to = geometry_.coordinate(flight.destination, d);
        const int mirrored = dim.shape == Shape::hypercube ? to : ((2 * from - to) % dim.npus + dim.npus) % dim.npus;
        out.source += mirrored * geometry_.stride(d);
    }
    return out;
}

Wires::Transit Wires::transit(const Flight& flight, std::vector<Load>& out, std::vector<Load>& in) {
    ways(flight);
    Transit t{0, 0, 0};
    Tick serial = 0;
    for (const Way& way : ways_) {
        const Tick s = through(way.dim, flight.size);
        t.held = std::max(t.held, s * way.charged);
        t.head = add(t.head, way.latency + s * (way.charged - 1));
        serial = std::max(serial, s);
        Load load = named(way.out, false);
        load.bytes = flight.size * way.charged, load.busy = s * way.charged;
        out.push_back(load);
        in.push_back(named(way.in, true));
    }
    for (Load& load : in) load.bytes = flight.size, load.busy = serial;
    t.delivered = add(t.head, serial);
    return t;
}

// Dimension-ordered, innermost first. Free times stand in out_free_; those of a switch's down links in in_free_.
Tick Wires::next_link(Flight& f, Tick now) {
    std::size_t d = 0;
    while (geometry_.coordinate(f.at, d) == geometry_.coordinate(f.destination, d)) ++d;
    const Dim& dim = plan_.network.dims[d];
    const int from = geometry_.coordinate(f.at, d), to = geometry_.coordinate(f.destination, d), stride = geometry_.stride(d);
    const Tick serial = ticks(static_cast<double>(f.size) / dim.bandwidth, false), latency = ticks(dim.latency, false);
    auto [which, next] = geometry_.step(d, from, to);
    bool down = false;
    if (dim.shape == Shape::switch_) {
        down = f.at_switch;
        if (!down) next = from;
        f.at_switch = !down;
    }
    const int landing = f.at + (next - from) * stride;
    const std::size_t link = port(d, down ? landing : f.at, which);
    Tick& free = down ? in_free_[link] : out_free_[link];
    const Tick start = std::max(now, free);
    free = add(start, serial);
    charge(link, down, f.size, serial);
    if (record_ && !down) usage_.add(d, start, serial);
    f.at = landing;
    if (!plan_.network.cut_through) return add(add(start, serial), latency);
    f.tail = add(std::max(free, f.tail), latency);
    return f.at == f.destination ? f.tail : add(start, latency);
}

void Wires::route(const Flight& flight, std::vector<Link>& out) const {
    int at = flight.source;
    for (std::size_t d = 0; d < plan_.network.dims.size(); ++d) {
        const int to = geometry_.coordinate(flight.destination, d);
        for (int from = geometry_.coordinate(at, d); from != to; from = geometry_.coordinate(at, d)) {
            const auto [which, next] = geometry_.step(d, from, to);
            out.push_back({d, port(d, at, which), false});
            at += (next - from) * geometry_.stride(d);
            if (plan_.network.dims[d].shape == Shape::switch_) out.push_back({d, port(d, at, which), true});
        }
    }
}

void Wires::report(Outcome& out) {
    usage_.report(out);
    const bool links = plan_.network.backend == Backend::routed || plan_.network.backend == Backend::fluid;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
        if (bytes_[i] == 0) continue;
        const bool inward = i >= out_free_.size();
        const std::size_t p = inward ? i - out_free_.size() : i;
        std::size_t d = base_.size() - 1;
        while (base_[d] > p) --d;
        const Dim& dim = plan_.network.dims[d];
        const auto per = static_cast<int>(ports_per_npu(dim));
        int npu = static_cast<int>(p - base_[d]) / per;
        const int which = static_cast<int>(p - base_[d]) % per;
        if (image_) npu = image_->npu(static_cast<std::size_t>(npu));
        const int at = geometry_.coordinate(npu, d), stride = geometry_.stride(d);
        int peer = -1;
        if (links && dim.shape != Shape::switch_) {
            int other = which;
            if (dim.shape == Shape::ring || dim.shape == Shape::ring_one_way || dim.shape == Shape::mesh)
                other = which ? (at + dim.npus - 1) % dim.npus : (at + 1) % dim.npus;
            if (dim.shape == Shape::hypercube) other = at ^ 1 << which;
            peer = npu + (other - at) * stride;
        }
        out.link_dim.push_back(static_cast<std::int32_t>(d));
        out.link_port.push_back(which);
        out.link_from.push_back(inward ? peer : npu);
        out.link_to.push_back(inward ? npu : peer);
        out.link_bytes.push_back(bytes_[i]);
        out.link_busy.push_back(busy_[i]);
    }
}

}  // namespace astrarium
