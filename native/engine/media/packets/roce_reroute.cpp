// RoCE where links fail: at the begin of an epoch what waits for a link that has failed goes another way (design/0017).
#include <algorithm>
#include <utility>

#include "media/packets/roce.hpp"

namespace astrarium::packets {

void Roce::reroute(Tick now) {
    for (RoceFlow& flow : flows_)
        if (net_.epochs->dead(flow.link) && net_.epochs->reaches(flow.source, flow.destination))
            flow.link = net_.ways->first(flow.source, flow.destination, net_.ways->pair(flow.source, flow.destination));
    for (std::uint32_t link = 0; link < ports_.size(); ++link)
        if (net_.epochs->dead(link) && keeps(link)) reroute_port(link, now);
    for (std::size_t node = 0; node < nodes_.size(); ++node)
        for (Event& event : nodes_[node].inbox) {
            if (event.kind != Kind::arrive) continue;
            const RoceFlows::Way way = flows_.way_of(event);
            event.hop = net_.ways->onward(static_cast<std::int32_t>(node), way.destination, way.pair);
        }
}

void Roce::reroute_port(std::uint32_t link, Tick now) {
    RocePort& port = ports_[link];
    const std::vector<Parcel> data(port.queue.all.begin() + static_cast<std::ptrdiff_t>(port.queue.head), port.queue.all.end()),
        control(port.control.all.begin() + static_cast<std::ptrdiff_t>(port.control.head), port.control.all.end());
    auto own = std::exchange(port.own, {});
    port.queue = {}, port.control = {};
    for (const Parcel& packet : data) {
        const std::uint32_t to = other_way(link, packet);
        ports_[to].queue.push(packet);
        if (to == link) continue;
        RocePort& other = ports_[to];
        port.waiting -= size(packet), other.waiting += size(packet), other.peak = std::max(other.peak, other.waiting);
        net_.queue_is(link, now, port.waiting), net_.queue_is(to, now, other.waiting);
        give(port.source, Soon(now, Kind::timer, to).event());
    }
    for (const Parcel& packet : control) {
        const std::uint32_t to = other_way(link, packet);
        ports_[to].control.push(packet);
        if (to != link) give(port.source, Soon(now, Kind::timer, to).event());
    }
    for (; !own.empty(); own.pop()) {
        const std::uint32_t to = flows_[own.top().flow].link;
        ports_[to].own.push(own.top());
        if (to != link) give(port.source, Soon(now, Kind::timer, to).event());
    }
}

std::uint32_t Roce::other_way(std::uint32_t link, const Parcel& packet) const {
    const RoceFlows::Way way = flows_.way_of(packet);
    const std::int32_t at = ports_[link].source;
    return net_.epochs->reaches(at, way.destination) ? net_.ways->onward(at, way.destination, way.pair) : link;
}

// Whether a packet that starts now is lost, as its link fails before its last byte has left: it waits there again.
bool Roce::loses(Hand& hand, std::uint32_t link, const Parcel& packet, Tick now, Tick end) {
    const Tick away = net_.gives_up(link, flows_.way_of(packet).destination, now, end);
    if (away == never) return false;
    RocePort& port = ports_[link];
    port.free = away, port.leaves = false;
    net_.charge(link, 0, now, away - now, hand.left);
    ++hand.left.hops;
    touch_at(hand, link, now, away);
    if (packet.cls != Class::data) return true;
    net_.cargos[packet.cargo].lost += packet.bytes;
    port.waiting += size(packet);
    net_.queue_is(link, now, port.waiting);
    return true;
}

}  // namespace astrarium::packets
