#include "media/packets/roce.hpp"

#include <algorithm>

namespace astrarium::packets {
namespace {

__extension__ typedef __int128 Wide;

}  // namespace

Roce::Roce(Net& net, Windows& windows)
    : net_(net), windows_(windows), rules_(*net.rules.roce), ports_(net.ways->wires.size()), ends_(ports_.size()),
      nodes_(static_cast<std::size_t>(net.ways->nodes)), seed_(mix64(static_cast<std::uint64_t>(net.rules.seed))) {
    std::vector<int> links(nodes_.size(), 0);
    for (Node& node : nodes_) node.shared = rules_.buffer;
    for (const Wire& wire : net.ways->wires) {
        const auto node = static_cast<std::size_t>(wire.target);
        nodes_[node].shared -= static_cast<std::int64_t>(2 * (static_cast<double>(wire.latency) / 1000 * wire.bandwidth)) +
                               3 * (net.rules.size + net.rules.header);
        ++links[node], small_.push_back(wire.serial(control_bytes));
    }
    for (std::size_t node = 0; node < nodes_.size(); ++node)
        if (links[node] > 1 && nodes_[node].shared < 1)
            throw Unsupported("a RoCE buffer of " + std::to_string(rules_.buffer) + " bytes at node " + std::to_string(node) +
                              ": the headroom of its links takes " + std::to_string(rules_.buffer - nodes_[node].shared));
}

void Roce::Fifo::pop() {
    if (++head == all.size()) all.clear(), head = 0;
    else if (head >= 64 && 2 * head >= all.size()) all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(head)), head = 0;
}

void Roce::ask(std::uint32_t cargo, std::uint32_t link, Tick now) {
    const Cargo& c = net_.cargos[cargo];
    const std::uint64_t pair = std::uint64_t{static_cast<std::uint32_t>(c.source)} << 32 | static_cast<std::uint32_t>(c.destination);
    const auto [at, fresh] = flow_of_.try_emplace(pair, static_cast<std::uint32_t>(flows_.size()));
    if (fresh) {
        Flow flow;
        flow.source = c.source, flow.destination = c.destination, flow.link = link;
        flow.rate.line = flow.rate.current = flow.rate.target = net_.ways->wires[link].bandwidth;
        flows_.push_back(flow);
    }
    net_.cargos[cargo].flow = at->second;
    Event event;
    event.time = now, event.kind = asked, event.cargo = cargo;
    give(c.source, event);
}

void Roce::give(std::int32_t node, const Event& event) {
    nodes_[static_cast<std::size_t>(node)].inbox.push_back(event);
    windows_.mark(event.time, static_cast<std::uint32_t>(node));
}

void Roce::run(const std::vector<std::uint32_t>& units, Tick, Tick until) {
    until_ = until;
    for (const std::uint32_t node : units) run_node(node, until);
}

void Roce::run_node(std::uint32_t number, Tick until) {
    Node& node = nodes_[number];
    std::vector<Event>& all = node.inbox;
    const auto later = std::stable_partition(all.begin(), all.end(), [until](const Event& e) { return e.time < until; });
    node.head = 0, node.sorted = static_cast<std::size_t>(later - all.begin());
    if (!std::is_sorted(all.begin(), later, before)) std::stable_sort(all.begin(), later, before);
    while (node.head < node.sorted || !local_.empty()) {
        Tick now = never;
        if (node.head < node.sorted) now = all[node.head].time;
        if (!local_.empty()) now = std::min(now, local_.top().time);
        for (;;) {
            const bool mine = !local_.empty() && local_.top().time == now, theirs = node.head < node.sorted && all[node.head].time == now;
            if (!mine && !theirs) break;
            if (mine && (!theirs || !before(all[node.head], local_.top()))) {
                const Event event = local_.top();
                local_.pop();
                happen(node, event);
            } else {
                const Event event = all[node.head++];
                happen(node, event);
            }
        }
        if (touched_.size() > 1) std::sort(touched_.begin(), touched_.end());
        for (const std::uint32_t link : touched_) ports_[link].touched = false, start(node, link, now);
        touched_.clear();
    }
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(node.sorted));
}

void Roce::touch(std::uint32_t link) {
    if (!std::exchange(ports_[link].touched, true)) touched_.push_back(link);
}

void Roce::happen(Node& node, const Event& event) {
    switch (event.kind) {
        case left: return release(node, event);
        case arrive: return came(node, event);
        case notice:
        case put_off: return notify(event);
        case timer:
            if (ports_[event.number].timer == event.time) ports_[event.number].timer = never;
            return touch(event.number);
        case pause: {
            Port& port = ports_[event.number];
            port.paused = event.marked;
            if (port.paused) ++port.pauses, port.paused_at = event.time;
            else resume(event.number, event.time);
            return touch(event.number);
        }
        case asked: {
            Flow& flow = flows_[net_.cargos[event.cargo].flow];
            if (flow.first == none) {
                flow.first = event.cargo;
                ports_[flow.link].own.push({std::max(flow.allowed, event.time), flow.destination, net_.cargos[event.cargo].flow});
            } else {
                net_.cargos[flow.last].next = event.cargo;
            }
            flow.last = event.cargo;
            return touch(flow.link);
        }
    }
}

void Roce::resume(std::uint32_t link, Tick now) {
    ports_[link].paused_for += now - ports_[link].paused_at;
    if (net_.timeline) net_.timeline->paused(link, ports_[link].paused_at, now);
}

// A packet joins the queue of its next link.
void Roce::came(Node& node, const Event& event) {
    const std::uint64_t pair =
        event.cls == data ? net_.cargos[event.cargo].pair : net_.ways->pair(flows_[event.cargo].destination, flows_[event.cargo].source);
    const std::uint32_t link = net_.ways->next(event.number, event.destination, pair);
    Port& port = ports_[link];
    touch(link);
    if (event.cls != data) return port.control.push(event);
    const std::int64_t bytes = size(event);
    port.waiting += bytes, port.peak = std::max(port.peak, port.waiting);
    net_.queue_is(link, event.time, port.waiting);
    Event packet = event;
    if (!rules_.departing && mark(link, port, packet)) packet.marked = true, ++port.marks;
    port.queue.push(packet);
    Ingress& end = ends_[event.number];
    end.bytes += bytes, end.peak = std::max(end.peak, end.bytes);
    node.used += bytes, node.peak = std::max(node.peak, node.used);
    if (end.paused || static_cast<double>(end.bytes) <= rules_.alpha * static_cast<double>(node.shared - node.used)) return;
    end.paused = true;
    Event frame;
    frame.time = add(event.time, net_.ways->wires[event.number].latency), frame.kind = pause, frame.marked = true,
    frame.number = event.number;
    give(net_.ways->wires[event.number].source, frame);
}

bool Roce::mark(std::uint32_t link, const Port& port, const Event& packet) const {
    if (port.waiting <= rules_.kmin) return false;
    if (port.waiting > rules_.kmax) return true;
    const Cargo& c = net_.cargos[packet.cargo];
    const std::uint64_t pair = std::uint64_t{static_cast<std::uint32_t>(c.source)} << 32 | static_cast<std::uint32_t>(c.destination);
    const std::uint64_t chance = mix64(mix64(mix64(seed_ ^ link) ^ pair) ^ packet.serial) >> 32;
    return static_cast<Wide>(chance) * (rules_.kmax - rules_.kmin) * 1'000'000 <
           static_cast<Wide>(port.waiting - rules_.kmin) * rules_.pmax * (std::int64_t{1} << 32);
}

// A packet has left the node.
void Roce::release(Node& node, const Event& event) {
    touch(event.number);
    if (event.serial == none) return;
    Ingress& end = ends_[event.serial];
    end.bytes -= event.bytes, node.used -= event.bytes;
    const std::int64_t packet = net_.rules.size + net_.rules.header;
    if (!end.paused ||
        (end.bytes > 0 && static_cast<double>(end.bytes + 2 * packet) > rules_.alpha * static_cast<double>(node.shared - node.used)))
        return;
    end.paused = false;
    Event frame;
    frame.time = add(event.time, net_.ways->wires[event.serial].latency), frame.kind = pause, frame.number = event.serial;
    give(net_.ways->wires[event.serial].source, frame);
}

// The destination's NIC sees a marked packet, or the end of a message; or the source's a CNP.
void Roce::notify(const Event& event) {
    if (event.cls == cnp) return flows_[event.cargo].rate.cut(rules_, event.time);
    Flow& flow = flows_[event.cargo];
    if (event.cls == ack) return answer(flow, event.cargo, ack, event.time);
    if (event.kind == put_off) flow.put_off = false;
    else if (flow.put_off) return;
    else if (flow.notified >= 0 && event.time - flow.notified < rules_.cnp_interval) return notify_after(flow, event);
    flow.notified = event.time;
    answer(flow, event.cargo, cnp, event.time);
}

// A mark within the interval after a CNP: the next one goes at its end (figure 6 of the paper).
void Roce::notify_after(Flow& flow, const Event& event) {
    flow.put_off = true;
    Event later = event;
    later.time = add(flow.notified, rules_.cnp_interval), later.kind = put_off;
    if (later.time < until_) local_.push(later);
    else give(flow.destination, later);
}

void Roce::answer(const Flow& flow, std::uint32_t number, Class cls, Tick now) {
    const std::uint32_t link = net_.ways->first(flow.destination, flow.source, net_.ways->pair(flow.destination, flow.source));
    Event packet;
    packet.time = packet.tail = now, packet.kind = arrive, packet.cls = cls, packet.number = none, packet.cargo = number,
    packet.destination = flow.source;
    ports_[link].control.push(packet);
    touch(link);
}

// Starts what goes next, if the port can.
void Roce::start(Node& node, std::uint32_t link, Tick now) {
    Port& port = ports_[link];
    if (port.free > now) return;
    if (!port.control.empty()) {
        const Event packet = port.control.front();
        port.control.pop();
        return transmit(node, link, packet, now);
    }
    if (port.paused) return;
    const bool own = !port.own.empty() && port.own.top().allowed <= now;
    if (own && (port.queue.empty() || !port.own_before)) {
        port.own_before = true;
        return transmit(node, link, cut(port, now), now);
    }
    if (!port.queue.empty()) {
        port.own_before = false;
        Event packet = port.queue.front();
        port.queue.pop();
        if (rules_.departing && mark(link, port, packet)) packet.marked = true, ++port.marks;
        port.waiting -= size(packet);
        net_.queue_is(link, now, port.waiting);
        return transmit(node, link, packet, now);
    }
    if (port.own.empty() || (port.timer <= port.own.top().allowed && port.timer > now)) return;
    port.timer = port.own.top().allowed;
    Event wake;
    wake.time = port.timer, wake.kind = timer, wake.number = link;
    if (wake.time < until_) local_.push(wake);
    else give(net_.ways->wires[link].source, wake);
}

// The next packet of the flow that is allowed first.
Roce::Event Roce::cut(Port& port, Tick now) {
    const std::uint32_t number = port.own.top().flow;
    port.own.pop();
    Flow& flow = flows_[number];
    Cargo& c = net_.cargos[flow.first];
    Event packet;
    packet.time = packet.tail = now, packet.kind = arrive, packet.number = none, packet.cargo = flow.first,
    packet.destination = flow.destination;
    packet.bytes = static_cast<std::uint32_t>(std::min(c.to_send, net_.rules.size)), packet.serial = flow.packets++;
    c.to_send -= packet.bytes;
    if (c.to_send == 0) flow.first = c.next;
    flow.rate.catch_up(rules_, now);
    const std::int64_t bytes = size(packet);
    const double rate = flow.rate.limited ? flow.rate.current : flow.rate.line;
    flow.allowed = add(now, ticks(static_cast<double>(bytes) / rate, false));
    flow.rate.sent(rules_, bytes);
    if (flow.first != none) port.own.push({flow.allowed, flow.destination, number});
    return packet;
}

void Roce::transmit(Node&, std::uint32_t link, Event packet, Tick now) {
    Port& port = ports_[link];
    const Wire& wire = net_.ways->wires[link];
    const bool is_data = packet.cls == data;
    const Tick serial = is_data ? net_.serial(link, packet.bytes) : small_[link], end = net_.finish(link, now, serial);
    if (end == never) return void(port.free = never);
    port.free = std::max(end, packet.tail);
    net_.charge(link, is_data ? packet.bytes : 0, now, end - now);
    ++net_.hops;
    Event over;
    over.time = port.free, over.kind = left, over.number = link, over.bytes = static_cast<std::uint32_t>(size(packet)),
    over.serial = is_data ? packet.number : none;
    if (over.time < until_) local_.push(over);
    else give(wire.source, over);
    const Tick tail = add(port.free, wire.latency);
    if (wire.target != packet.destination) {
        packet.time = net_.cut_through ? std::min(tail, now + (is_data ? net_.head[link] : serial) + wire.latency) : tail;
        packet.tail = tail, packet.number = link, packet.kind = arrive;
        return give(wire.target, packet);
    }
    packet.kind = notice, packet.time = tail;
    if (!is_data) {
        if (packet.cls == cnp) packet.number = packet.cargo, give(wire.target, packet);
        return;
    }
    const std::uint32_t flow = net_.cargos[packet.cargo].flow;
    const Tick done = std::max(net_.cargos[packet.cargo].done, tail);
    const bool last = net_.cargos[packet.cargo].left == 1;
    net_.arrived(packet.cargo, tail);
    packet.cargo = packet.number = flow;
    if (packet.marked) give(wire.target, packet);
    if (last) packet.cls = ack, packet.time = done, give(wire.target, packet);
}

bool Roce::keeps(std::uint32_t link) const {
    const Port& port = ports_[link];
    return !port.queue.empty() || !port.own.empty() || !port.control.empty();
}

void Roce::explain(std::vector<std::string>& waits) const {
    for (std::uint32_t link = 0; link < ports_.size(); ++link)
        if (keeps(link) && ports_[link].free != never)
            waits.push_back(name_of(net_, link) + ": " + std::to_string(ports_[link].waiting) + " bytes wait" +
                            (ports_[link].paused ? ", and its end has paused it" : ""));
}

void Roce::report(PacketCounts& out) const {
    for (std::size_t k = 0; k < ports_.size(); ++k) {
        out.queue.push_back(ports_[k].peak), out.buffer.push_back(ends_[k].peak);
        out.marks.push_back(ports_[k].marks), out.pauses.push_back(ports_[k].pauses), out.paused.push_back(ports_[k].paused_for);
    }
}

std::unique_ptr<Transport> open_roce(Net& net, Windows& windows) { return std::make_unique<Roce>(net, windows); }

}  // namespace astrarium::packets
