#include "media/packets/roce.hpp"

#include <algorithm>

#include "clock/interrupt.hpp"

namespace astrarium::packets {

Roce::Roce(Net& net, Windows& windows)
    : net_(net), windows_(windows), ports_(net.ways->wires.size()), ends_(ports_.size()), nodes_(static_cast<std::size_t>(net.ways->nodes)),
      flows_(net, control_bytes), crew_(net.rules.spray || net.epochs ? 1 : static_cast<std::size_t>(net.rules.threads)),
      hands_(crew_.size()), part_((nodes_.size() / crew_.size() / 64 + 1) * 64), seed_(mix64(static_cast<std::uint64_t>(net.rules.seed))) {
    for (Hand& hand : hands_) hand.sent.resize(crew_.size());
    for (std::size_t k = 0; k < ports_.size(); ++k) {
        const Wire& wire = net.ways->wires[k];
        ports_[k].latency = wire.latency, ports_[k].source = wire.source, ports_[k].target = wire.target;
        if (!wire.inside) ports_[k].rules = ends_[k].rules = rules_at(flows_.rules(), wire.bandwidth);
    }
    std::vector<int> links(nodes_.size(), 0);
    const std::int64_t buffer = flows_.rules()[0].second.buffer;
    for (Node& node : nodes_) node.shared = buffer;
    for (const Wire& wire : net.ways->wires) {
        if (wire.inside) continue;
        const auto node = static_cast<std::size_t>(wire.target);
        ++links[node], nodes_[node].shared -= static_cast<std::int64_t>(2 * (static_cast<double>(wire.latency) / 1000 * wire.bandwidth)) +
                                              3 * (net.rules.size + net.rules.header);
    }
    for (std::size_t node = 0; node < nodes_.size(); ++node)
        if (links[node] > 1 && nodes_[node].shared < 1)
            throw Unsupported("a RoCE buffer of " + std::to_string(buffer) + " bytes at node " + std::to_string(node) +
                              ": the headroom of its links takes " + std::to_string(buffer - nodes_[node].shared));
}

void Roce::ask(std::uint32_t cargo, std::uint32_t link, Tick now) {
    Cargo& c = net_.cargos[cargo];
    c.flow = flows_.of(c, link);
    Event event;
    event.time = now, event.kind = Kind::asked, event.cargo = cargo;
    give(c.source, event);
}

void Roce::run(const std::vector<std::uint32_t>& units, Tick begin, Tick until) {
    until_ = until;
    net_.ways->forget();
    if (crew_.size() > 1 && units.size() >= fewest) {
        const std::vector<std::size_t> from = crew_.parts(units.size(), [&](std::size_t u) { return nodes_[units[u]].inbox.size(); });
        net_.together = true;
        crew_.run([&](std::size_t k) {
            for (std::size_t u = from[k]; u < from[k + 1]; ++u) fetch(units, u), run_node(hands_[k], units[u], begin);
        });
        crew_.run([&](std::size_t part) {  // thread by thread, so that what came by one link stays in order
            for (Hand& hand : hands_) {
                for (const Sent& sent : hand.sent[part]) give(sent.node, sent.event);
                hand.sent[part].clear();
            }
        });
        net_.together = false;
        for (Hand& hand : hands_) {
            for (const Acked& acked : hand.acked) acknowledge(acked.flow, acked.time);
            hand.acked.clear();
        }
    } else {
        for (std::size_t u = 0; u < units.size(); ++u) fetch(units, u), run_node(hands_[0], units[u], begin);
    }
    for (Hand& hand : hands_) net_.take(hand.left);
}

// What the next nodes of a window need.
void Roce::fetch(const std::vector<std::uint32_t>& units, std::size_t at) const {
    if (at + 6 < units.size()) __builtin_prefetch(&nodes_[units[at + 6]]);
    if (at + 3 >= units.size()) return;
    const Node& node = nodes_[units[at + 3]];
    for (std::size_t k = 0; k < std::min<std::size_t>(node.inbox.size(), 8); ++k) __builtin_prefetch(&node.inbox[k]);
}

void Roce::run_node(Hand& hand, std::uint32_t number, Tick begin) {
    Node& node = nodes_[number];
    Due& due = hand.due;
    due.collect(node.inbox, begin, until_);
    for (Tick now = begin;;) {
        const bool mine = !(due.front() < hand.agenda.front());
        const Tick next = mine ? hand.agenda.front().time : due.first();
        if (next != now && !hand.touched.empty()) {
            start_touched(hand, now);
            continue;  // what started may end before what is next
        }
        if (next == never) break;
        now = next;
        if (mine) happen(hand, node, hand.agenda.take());
        else fetch(hand, node), happen(hand, node, node.inbox[due.take()]);
    }
    std::erase_if(node.inbox, [this](const Event& event) { return event.time < until_; });
}

// The end of an instant.
void Roce::start_touched(Hand& hand, Tick now) {
    std::vector<std::uint32_t>& touched = hand.touched;
    if (touched.size() > 1 && !std::is_sorted(touched.begin(), touched.end())) std::sort(touched.begin(), touched.end());
    for (const std::uint32_t link : touched) ports_[link].touched = false, start(hand, link, now);
    touched.clear();
}

void Roce::fetch(const Hand& hand, const Node& node) const {
    __builtin_prefetch(&node.inbox[hand.due.later(8)]);
    const Event& soon = node.inbox[hand.due.later(4)];
    if (soon.kind != Kind::arrive) return;
    const std::uint32_t out = flows_.link_of(soon);
    __builtin_prefetch(&ports_[out]), __builtin_prefetch(&ports_[out].peak), __builtin_prefetch(&ends_[soon.number]);
}

// `event` may lie in the inbox of the node: it is not read any more once something is given.
void Roce::happen(Hand& hand, Node& node, const Event& event) {
    switch (event.kind) {
        case Kind::left: return release(hand, node, {event.time, event.kind, event.number, event.serial, event.bytes});
        case Kind::arrive: return came(hand, node, event);
        case Kind::notice:
        case Kind::put_off: return notify(hand, event);
        case Kind::timer:
            if (ports_[event.number].timer == event.time) ports_[event.number].timer = never;
            return touch(hand, event.number, event.time);
        case Kind::pause: {
            RocePort& port = ports_[event.number];
            port.paused = event.marked;
            if (port.paused) ++port.pauses, port.paused_at = event.time;
            else port.paused_for += event.time - port.paused_at, net_.paused(event.number, port.paused_at, event.time);
            return touch(hand, event.number, event.time);
        }
        case Kind::asked: {
            RoceFlow& flow = flows_[net_.cargos[event.cargo].flow];
            const bool alone = flow.first == none;
            (alone ? flow.first : net_.cargos[flow.last].next) = event.cargo;
            flow.last = event.cargo;
            if (alone) line_up(net_.cargos[event.cargo].flow, std::max(flow.allowed, event.time));
            return touch(hand, flow.link, event.time);
        }
        case Kind::opened: {
            const RoceFlow& flow = flows_[event.number];
            ports_[flow.link].own.push({event.time, flow.destination, event.number});
            return touch(hand, flow.link, event.time);
        }
    }
}

void Roce::happen(Hand& hand, Node& node, const Soon& soon) {
    if (soon.kind() == Kind::left) release(hand, node, soon);
    else happen(hand, node, soon.event());
}

// A flow with something to send takes its place at its first link, from a time on.
void Roce::line_up(std::uint32_t number, Tick when) {
    RoceFlow& flow = flows_[number];
    const bool scales = flow.rate.limited && flow.rules->window_scales;
    flow.limit = scales ? flow.window * (flow.rate.current / flow.rate.line) : flow.window;
    if (flows_.opens(flow, when)) ports_[flow.link].own.push({when, flow.destination, number});
    else flow.held = true, flow.allowed = when;
}

void Roce::acknowledge(std::uint32_t number, Tick time) {
    RoceFlow& flow = flows_[number];
    flow.acks.push(time);
    if (net_.rules.spray) {  // packets may pass each other
        std::vector<Tick>& all = flow.acks.all;
        for (std::size_t k = all.size() - 1; k > flow.acks.head && all[k] < all[k - 1]; --k) std::swap(all[k], all[k - 1]);
    }
    if (!flow.held || !flows_.opens(flow, flow.allowed)) return;
    flow.held = false;
    give(flow.source, Soon(flow.allowed, Kind::opened, number).event());
}

// A packet joins the queue of its next link, and starts at once where nothing else can in this instant.
void Roce::came(Hand& hand, Node& node, const Event& event) {
    const std::uint32_t link = flows_.link_of(event);
    const Tick now = event.time;
    RocePort& port = ports_[link];
    if (event.cls != Class::data) return port.control.push(event), touch(hand, link, now);
    const std::int64_t bytes = size(event);
    port.waiting += bytes, port.peak = std::max(port.peak, port.waiting);
    net_.queue_is(link, now, port.waiting);
    const bool at_once = port.idle(now) && hand.ends(now), counted = counts(event.number, link);
    const bool marked = counted && !port.rules->departing && mark(link, port, event);
    port.marks += marked;
    Parcel here;
    if (at_once) here = event;  // which may move
    else port.queue.push(event);
    Parcel& packet = at_once ? here : port.queue.back();
    packet.counted = counted, packet.marked |= marked;
    if (counted) take_in(hand, node, event.number, bytes, now);
    if (!at_once) touch(hand, link, now);
    else if (!leave(hand, link, packet, now)) port.queue.push(packet);
}

// Bytes that came by a link count in the node's buffer.
void Roce::take_in(Hand& hand, Node& node, std::uint32_t came, std::int64_t bytes, Tick now) {
    RoceIngress& end = ends_[came];
    end.bytes += bytes, end.peak = std::max(end.peak, end.bytes);
    node.used += bytes, node.peak = std::max(node.peak, node.used);
    if (end.paused || static_cast<double>(end.bytes) <= end.rules->alpha * static_cast<double>(node.shared - node.used)) return;
    end.paused = true;
    Event frame;
    frame.time = add(now, ports_[came].latency), frame.kind = Kind::pause, frame.marked = true, frame.number = came;
    give(hand, ports_[came].source, frame);
}

// The first packet of a queue starts.
bool Roce::leave(Hand& hand, std::uint32_t link, Parcel& packet, Tick now) {
    RocePort& port = ports_[link];
    port.own_before = false;
    if (packet.counted && port.rules->departing && mark(link, port, packet)) packet.marked = true, ++port.marks;
    port.waiting -= size(packet);
    net_.queue_is(link, now, port.waiting);
    return transmit(hand, link, packet, now);
}

bool Roce::mark(std::uint32_t link, const RocePort& port, const Parcel& packet) const {
    if (port.waiting <= port.rules->kmin) return false;
    const Cargo& c = net_.cargos[packet.cargo];
    const std::uint64_t pair = std::uint64_t{static_cast<std::uint32_t>(c.source)} << 32 | static_cast<std::uint32_t>(c.destination);
    return marks(*port.rules, port.waiting, mix64(mix64(mix64(seed_ ^ link) ^ pair) ^ packet.serial) >> 32);
}

// A packet has left the node.
void Roce::release(Hand& hand, Node& node, const Soon& left) {
    if (ports_[left.number()].waits()) touch(hand, left.number(), left.time);
    RoceIngress& end = ends_[left.came];
    end.bytes -= left.bytes, node.used -= left.bytes;
    const std::int64_t packet = net_.rules.size + net_.rules.header;
    if (!end.paused ||
        (end.bytes > 0 && static_cast<double>(end.bytes + 2 * packet) > end.rules->alpha * static_cast<double>(node.shared - node.used)))
        return;
    end.paused = false;
    Event frame;
    frame.time = add(left.time, ports_[left.came].latency), frame.kind = Kind::pause, frame.number = left.came;
    give(hand, ports_[left.came].source, frame);
}

// The destination's NIC sees a marked packet, or the source's a CNP.
void Roce::notify(Hand& hand, const Event& event) {
    RoceFlow& flow = flows_[event.cargo];
    if (event.cls == Class::cnp) return flow.rate.cut(*flow.rules, event.time);
    if (event.kind == Kind::put_off) flow.put_off = false;
    else if (flow.put_off) return;
    else if (flow.notified >= 0 && event.time - flow.notified < flow.rules->cnp_interval) return notify_after(hand, flow, event);
    flow.notified = event.time;
    answer(hand, flow, event.cargo, event.time);
}

// A mark within the interval after a CNP: the next one goes at its end.
void Roce::notify_after(Hand& hand, RoceFlow& flow, const Event& event) {
    flow.put_off = true;
    put(hand, flow.destination, add(flow.notified, flow.rules->cnp_interval), Kind::put_off, event.cargo);
}

void Roce::answer(Hand& hand, const RoceFlow& flow, std::uint32_t number, Tick now) {
    const std::uint32_t link = net_.ways->first(flow.destination, flow.source, net_.ways->pair(flow.destination, flow.source));
    Parcel packet;
    packet.tail = now, packet.cls = Class::cnp, packet.number = none, packet.cargo = number;
    ports_[link].control.push(packet);
    touch(hand, link, now);
}

// Starts what goes next, if the port can.
void Roce::start(Hand& hand, std::uint32_t link, Tick now) {
    RocePort& port = ports_[link];
    if (!port.control.empty()) {
        if (transmit(hand, link, port.control.front(), now)) port.control.pop();
    } else if (!port.paused) {
        const bool own = !port.own.empty() && port.own.top().allowed <= now;
        if (own && (port.queue.empty() || !port.own_before)) now = start_own(hand, link, now);
        else if (!port.queue.empty() && leave(hand, link, port.queue.front(), now)) port.queue.pop();
    }
    start_later(hand, link, now);
}

// A packet of a flow that begins here, and those after it as long as nothing else happens at the node. When the last one started.
Tick Roce::start_own(Hand& hand, std::uint32_t link, Tick now) {
    RocePort& port = ports_[link];
    for (;;) {
        port.own_before = true;
        Parcel packet = cut(port, now);
        if (!transmit(hand, link, packet, now)) port.queue.put_back(packet);
        if (!port.queue.empty() || port.own.empty()) return now;
        const Tick next = std::max(port.free, port.own.top().allowed);
        if (next >= until_ || !hand.ends(next)) return now;
        now = next;
    }
}

// What waits at a port touches it when it may start, unless an event does that will come anyway.
void Roce::start_later(Hand& hand, std::uint32_t link, Tick now) {
    RocePort& port = ports_[link];
    if (port.leaves && port.free > now) return;
    if (!port.control.empty()) return touch_at(hand, link, now, port.free);
    if (port.paused) return;
    if (!port.queue.empty()) return touch_at(hand, link, now, port.free);
    if (!port.own.empty()) touch_at(hand, link, now, std::max(port.free, port.own.top().allowed));
}

// The next packet of the flow that is allowed first.
Parcel Roce::cut(RocePort& port, Tick now) {
    const std::uint32_t number = port.own.top().flow;
    port.own.pop();
    RoceFlow& flow = flows_[number];
    Cargo& c = net_.cargos[flow.first];
    Parcel packet;
    packet.tail = now, packet.number = none, packet.cargo = flow.first, packet.hop = flow.route;
    packet.bytes = static_cast<std::uint32_t>(std::min(c.to_send, net_.rules.size)), packet.serial = flow.packets++;
    if (flow.rules->per_message && c.to_send == c.size) flow.rate = Rate::of_line(flow.rate.line);
    c.to_send -= packet.bytes;
    if (c.to_send == 0) flow.first = c.next;
    flow.rate.catch_up(*flow.rules, now);
    const std::int64_t bytes = size(packet);
    const double rate = flow.window > 0 ? std::min(flow.rate.now(), flow.pace) : flow.rate.now();
    flow.allowed = add(now, ticks(static_cast<double>(bytes) / rate, false));
    flow.rate.sent(*flow.rules, bytes);
    flow.flying += bytes;
    if (flow.window > 0 && packet.bytes != net_.rules.size) flow.shorts.push(packet.serial, bytes);
    if (flow.first != none) line_up(number, flow.allowed);
    return packet;
}

bool Roce::transmit(Hand& hand, std::uint32_t link, Parcel& packet, Tick now) {
    RocePort& port = ports_[link];
    const bool is_data = packet.cls == Class::data;
    const Tick serial = is_data ? net_.serial(link, packet.bytes) : flows_.small(link), end = net_.finish(link, now, serial);
    if (net_.epochs && loses(hand, link, packet, now, end)) return false;
    if (end == never) return port.free = never, true;
    port.free = std::max(end, packet.tail);
    net_.charge(link, is_data ? packet.bytes : 0, now, end - now, hand.left);
    if ((++hand.left.hops & 0xffff) == 0 && &hand == hands_.data()) stop_if_interrupted();  // in the thread that runs
    port.leaves = packet.counted;
    if (packet.counted) put(hand, port.source, port.free, Kind::left, link, packet.number, static_cast<std::uint32_t>(size(packet)));
    const Tick tail = add(port.free, port.latency);
    const std::uint32_t next = flows_.onward(link, packet);
    if (next == none) return deliver(hand, port.target, packet, tail), true;
    const Tick head = net_.cut_through ? std::min(tail, now + (is_data ? net_.head[link] : serial) + port.latency) : tail;
    give(hand, port.target, packet, tail, link, next, head);
    return true;
}

// A packet is at its destination.
void Roce::deliver(Hand& hand, std::int32_t node, Parcel& packet, Tick tail) {
    if (packet.cls == Class::cnp) return give(hand, node, Class::cnp, packet.cargo, tail);
    const std::uint32_t number = net_.cargos[packet.cargo].flow;
    net_.arrived(packet.cargo, tail, hand.left);
    if (const RoceFlow& flow = flows_[number]; flow.back > 0) {
        if (net_.together) hand.acked.push_back({number, tail + flow.back});
        else acknowledge(number, tail + flow.back);
    }
    if (packet.marked) give(hand, node, Class::data, number, tail);
}

bool Roce::keeps(std::uint32_t link) const {
    const RocePort& port = ports_[link];
    return !port.queue.empty() || !port.own.empty() || !port.control.empty();
}

void Roce::explain(std::vector<std::string>& waits) const {
    std::vector<std::uint32_t> next(ports_.size(), none);
    for (std::uint32_t link = 0; link < ports_.size(); ++link)
        if (keeps(link) && ports_[link].free != never) next[link] = itself;
    for (std::uint32_t link = 0; link < ports_.size(); ++link) {
        const auto& queue = ports_[link].queue;
        for (std::size_t k = queue.head; k < queue.all.size() && next[link] != none; ++k)
            if (const std::uint32_t came = queue.all[k].number; came != none && next[came] != none) next[came] = std::min(next[came], link);
    }
    for (const std::uint32_t link : circle_of(next))
        waits.push_back(name_of(net_, link) + ": " + std::to_string(ports_[link].waiting) + " bytes wait" +
                        (ports_[link].paused ? ", and its end has paused it" : ""));
}

void Roce::report(PacketCounts& out) const {
    for (std::size_t k = 0; k < ports_.size(); ++k) {
        out.queue.push_back(ports_[k].peak), out.buffer.push_back(ends_[k].peak);
        out.marks.push_back(ports_[k].marks), out.pauses.push_back(ports_[k].pauses), out.paused.push_back(ports_[k].paused_for);
    }
}

namespace {

const TransportKind roce{.name = "roce", .by_node = true, .reroutes = true, .check = check_roce, .open = open_transport<Roce>};
const RegisteredTransport registered_roce(roce);

}  // namespace

}  // namespace astrarium::packets
