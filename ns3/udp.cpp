// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Messages as UDP packets, one after the other. A port holds one packet that its own NPU sends, beside those it passes on: the next
// is made when that one leaves. So a message waits at its source and not in a queue, and nobody slows it down.
#include <algorithm>

#include "ns3/inet-socket-address.h"
#include "ns3/packet.h"
#include "ns3/queue.h"
#include "ns3/socket.h"
#include "ns3/tag.h"
#include "ns3/udp-socket-factory.h"
#include "transport.hpp"

namespace bridge {
namespace {

constexpr std::uint16_t port = 9;

// Which message a packet is of: known to the simulator, no byte on the wire.
class Part final : public ns3::Tag {
public:
    static ns3::TypeId GetTypeId() {
        static ns3::TypeId type = ns3::TypeId("bridge::Part").SetParent<ns3::Tag>().AddConstructor<Part>();
        return type;
    }
    ns3::TypeId GetInstanceTypeId() const override { return GetTypeId(); }
    std::uint32_t GetSerializedSize() const override { return sizeof message; }
    void Serialize(ns3::TagBuffer to) const override { to.WriteU32(message); }
    void Deserialize(ns3::TagBuffer from) override { message = from.ReadU32(); }
    void Print(std::ostream& to) const override { to << message; }

    std::uint32_t message = 0;
};

class Udp final : public Transport {
public:
    Udp(const Fabric& fabric, const Settings& settings, Messages& messages, Listener listener);
    Tick first_bound(const Message& message, const std::vector<std::uint32_t>& way, Tick at) const override;
    void start(std::uint32_t message) override;
    Tick bound(std::uint32_t message, Tick from) override;

private:
    struct Port {
        std::deque<std::uint32_t> waiting;  // messages, the first of which is being sent
        bool holds = false;                 // a packet of its own NPU
    };
    std::int64_t packets(const Message& message) const {
        return message.size == 0 ? 1 : (message.size + settings_.packet - 1) / settings_.packet;
    }
    std::uint32_t last_packet(const Message& message) const {
        return static_cast<std::uint32_t>(message.size - (packets(message) - 1) * settings_.packet);
    }
    static std::uint32_t whole(std::uint32_t payload) { return payload + Fabric::ppp + Fabric::ip + Fabric::udp; }
    void hand_over(std::uint32_t link);
    void begins(std::uint32_t link, ns3::Ptr<const ns3::Packet> packet);
    void comes(ns3::Ptr<ns3::Socket> socket);
    void lost(std::uint32_t link, ns3::Ptr<const ns3::Packet> packet);

    const Fabric& fabric_;
    const Settings settings_;
    Messages& messages_;
    const Listener listener_;
    std::vector<ns3::Ptr<ns3::Socket>> sockets_;  // of NPUs
    std::vector<Port> ports_;                     // of links
    std::uint64_t under_way_ = 0;
};

Udp::Udp(const Fabric& fabric, const Settings& settings, Messages& messages, Listener listener)
    : fabric_(fabric), settings_(settings), messages_(messages), listener_(std::move(listener)), ports_(fabric.links().size()) {
    for (std::uint32_t npu = 0; npu < fabric.npus(); ++npu) {
        const auto socket = ns3::Socket::CreateSocket(fabric.node(npu), ns3::UdpSocketFactory::GetTypeId());
        if (socket->Bind(ns3::InetSocketAddress(Fabric::address(npu), port)) != 0) throw Refused("a UDP socket cannot be bound");
        socket->SetRecvCallback(ns3::MakeCallback(&Udp::comes, this));
        sockets_.push_back(socket);
    }
    for (std::uint32_t number = 0; number < fabric.links().size(); ++number) {
        const Link& link = fabric.links()[number];
        link.device->GetQueue()->TraceConnectWithoutContext("Drop", ns3::MakeCallback(&Udp::lost, this).Bind(number));
        if (link.source < fabric.npus() || link.target < fabric.npus())
            link.device->TraceConnectWithoutContext("PhyTxBegin", ns3::MakeCallback(&Udp::begins, this).Bind(number));
    }
}

// All packets pass each link of the way, the first one what comes before it, the last one what comes after it.
Tick Udp::first_bound(const Message& message, const std::vector<std::uint32_t>& way, Tick at) const {
    const std::int64_t count = packets(message);
    const std::uint32_t last = whole(last_packet(message)), full = whole(settings_.packet), first = count > 1 ? full : last;
    Tick flight = 0, before = 0, after = 0, most = 0;
    for (const std::uint32_t number : way) {
        flight += fabric_.links()[number].latency;
        after += fabric_.links()[number].time(last);
    }
    for (const std::uint32_t number : way) {
        const Link& link = fabric_.links()[number];
        most = std::max(most, before + (count - 1) * link.time(full) + after);
        before += link.time(first);
        after -= link.time(last);
    }
    return at + flight + most;
}

Tick Udp::bound(std::uint32_t number, Tick from) {
    const Message& message = messages_[number];
    if (message.begun == message.packets) return message.arrival;
    const Link& link = fabric_.links()[message.last];
    return from + (message.packets - message.begun - 1) * link.time(whole(settings_.packet)) + link.time(whole(last_packet(message))) +
           link.latency;
}

void Udp::start(std::uint32_t number) {
    Message& message = messages_[number];
    message.packets = packets(message);
    const auto link = static_cast<std::uint32_t>(fabric_.next(message.source, message.source, message.destination));
    ports_[link].waiting.push_back(number);
    if (!ports_[link].holds) hand_over(link);
}

// The next packet of the first message that waits at a port.
void Udp::hand_over(std::uint32_t link) {
    Port& at = ports_[link];
    const std::uint32_t number = at.waiting.front();
    Message& message = messages_[number];
    at.holds = true;
    if (++message.handed == message.packets) at.waiting.pop_front();
    if (++under_way_ > settings_.most) return listener_.failed("more than " + std::to_string(settings_.most) + " packets are under way");
    Part part;
    part.message = number;
    const auto packet = ns3::Create<ns3::Packet>(message.handed == message.packets ? last_packet(message) : settings_.packet);
    packet->AddPacketTag(part);
    if (sockets_[message.source]->SendTo(packet, 0, ns3::InetSocketAddress(Fabric::address(message.destination), port)) < 0)
        listener_.failed("a UDP socket does not take a packet");
}

void Udp::begins(std::uint32_t number, ns3::Ptr<const ns3::Packet> packet) {
    Part part;
    if (!packet->PeekPacketTag(part)) return;
    const Link& link = fabric_.links()[number];
    Message& message = messages_[part.message];
    if (message.last == number) {
        ++message.begun;
        message.arrival = Clock::now() + link.time(packet->GetSize()) + link.latency;
    }
    if (message.source != link.source) return;
    ports_[number].holds = false;
    if (!ports_[number].waiting.empty()) hand_over(number);
}

void Udp::comes(ns3::Ptr<ns3::Socket> socket) {
    while (const auto packet = socket->Recv()) {
        Part part;
        if (!packet->PeekPacketTag(part)) continue;
        --under_way_;
        Message& message = messages_[part.message];
        if (++message.arrived == message.packets) listener_.delivered(part.message);
    }
}

void Udp::lost(std::uint32_t number, ns3::Ptr<const ns3::Packet>) {
    const Link& link = fabric_.links()[number];
    listener_.failed("the queue of node " + std::to_string(link.source) + " towards node " + std::to_string(link.target) +
                     " was full and lost a packet, which UDP does not send again");
}

}  // namespace

std::unique_ptr<Transport> make_udp(const Fabric& fabric, const Settings& settings, Messages& messages, Listener listener) {
    return std::make_unique<Udp>(fabric, settings, messages, std::move(listener));
}

}  // namespace bridge
