#include "media/packets/roce_flows.hpp"

#include <algorithm>

namespace astrarium::packets {

RoceFlows::RoceFlows(Net& net, std::int64_t control_bytes)
    : net_(net), by_rate_(rules_by_rate(net.rules)), fixed_(!net.rules.spray && !net.epochs) {
    for (const Wire& wire : net.ways->wires) small_.push_back(wire.serial(control_bytes));
}

std::uint32_t RoceFlows::of(const Cargo& cargo, std::uint32_t link) {
    const std::uint64_t pair =
        std::uint64_t{static_cast<std::uint32_t>(cargo.source)} << 32 | static_cast<std::uint32_t>(cargo.destination);
    const auto [at, fresh] = of_.try_emplace(pair, static_cast<std::uint32_t>(flows_.size()));
    if (fresh) {
        RoceFlow flow;
        flow.source = cargo.source, flow.destination = cargo.destination, flow.link = link;
        measure(flow);
        flows_.push_back(std::move(flow));
    }
    return at->second;
}

// The rate of a flow, which is that of its first link outside hosts; its window: what its slowest link carries in a round trip of a packet
// that waits for nothing. Within hosts it has neither. A window is sent evenly over its round trip.
void RoceFlows::measure(RoceFlow& flow) {
    Ways& ways = *net_.ways;
    double line = 0, slowest = ways.wires[flow.link].bandwidth;
    Tick head = 0, tail = 0;
    flow.route = static_cast<std::uint32_t>(routes_.size());
    const std::uint64_t there = ways.pair(flow.source, flow.destination), back = ways.pair(flow.destination, flow.source);
    for (std::uint32_t link = flow.link;; link = ways.usual(link, flow.destination, there)) {
        const Wire& wire = ways.wires[link];
        if (fixed_) routes_.push_back(link);
        if (line == 0 && !wire.inside) line = wire.bandwidth;
        slowest = std::min(slowest, wire.bandwidth);
        const Tick start = head;
        tail = std::max(start + net_.full[link], tail) + wire.latency;
        head = net_.cut_through ? std::min(tail, start + net_.head[link] + wire.latency) : tail;
        if (wire.target == flow.destination) break;
    }
    if (fixed_) routes_.push_back(none);
    flow.rules = rules_at(by_rate_, line);
    flow.rate = Rate::of_line(line == 0 ? ways.wires[flow.link].bandwidth : line);
    if (line == 0 || flow.rules->window <= 0) return;
    for (std::uint32_t link = ways.first(flow.destination, flow.source, back);; link = ways.usual(link, flow.source, back)) {
        flow.back += small_[link] + ways.wires[link].latency;
        if (ways.wires[link].target == flow.source) break;
    }
    flow.pace = flow.rules->window * slowest, flow.window = flow.pace * (static_cast<double>(tail + flow.back) / 1000);
}

bool RoceFlows::opens(RoceFlow& flow, Tick& when) const {
    if (flow.limit == 0) return true;
    for (; !flow.acks.empty() && (flow.acks.front() <= when || static_cast<double>(flow.flying) >= flow.limit); flow.acks.pop())
        when = std::max(when, flow.acks.front()), flow.flying -= first_flying(flow);
    return static_cast<double>(flow.flying) < flow.limit;
}

// Bytes of the packet that is acknowledged next.
std::int64_t RoceFlows::first_flying(RoceFlow& flow) const {
    const std::uint32_t packet = flow.acknowledged++;
    if (flow.shorts.empty() || flow.shorts.front().packet != packet) return net_.rules.size + net_.rules.header;
    const std::int64_t bytes = flow.shorts.front().bytes;
    return flow.shorts.pop(), bytes;
}

std::uint32_t RoceFlows::look_up(std::uint32_t link, const Parcel& packet) {
    Ways& ways = *net_.ways;
    if (packet.cls == Class::data) {
        const Cargo& c = net_.cargos[packet.cargo];
        return ways.wires[link].target == c.destination ? none : ways.next(link, c.destination, c.pair);
    }
    const RoceFlow& flow = flows_[packet.cargo];
    return ways.wires[link].target == flow.source ? none : ways.next(link, flow.source, ways.pair(flow.destination, flow.source));
}

RoceFlows::Way RoceFlows::way_of(const Parcel& packet) const {
    if (packet.cls == Class::data) return {net_.cargos[packet.cargo].destination, net_.cargos[packet.cargo].pair};
    const RoceFlow& flow = flows_[packet.cargo];
    return {flow.source, net_.ways->pair(flow.destination, flow.source)};
}

}  // namespace astrarium::packets
