// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Messages in ns-3's TCP, one connection for each pair of NPUs and direction, which the first message opens. A connection's messages
// follow each other in its stream; a message without bytes is one byte there.
#include <algorithm>
#include <unordered_map>

#include "ns3/config.h"
#include "ns3/inet-socket-address.h"
#include "ns3/packet.h"
#include "ns3/tcp-rx-buffer.h"
#include "ns3/tcp-socket-base.h"
#include "ns3/tcp-socket-factory.h"
#include "ns3/uinteger.h"
#include "transport.hpp"

namespace bridge {
namespace {

constexpr std::uint16_t port = 9;
constexpr std::int64_t at_once = 1 << 16;  // bytes of one call of Send

struct Part {
    std::uint32_t message;
    std::int64_t left;  // bytes
};

struct Stream {
    ns3::Ptr<ns3::Socket> source, sink;
    std::deque<Part> unsent, expected;
};

class Tcp final : public Transport {
public:
    Tcp(const Fabric& fabric, const Settings& settings, Messages& messages, Listener listener);
    Tick first_bound(const Message& message, const std::vector<std::uint32_t>& way, Tick at) const override;
    void start(std::uint32_t message) override;
    Tick bound(std::uint32_t message, Tick from) override;

private:
    static std::uint64_t key(std::uint32_t source, std::uint32_t destination) { return std::uint64_t{source} << 32 | destination; }
    void open(Stream& stream, const Message& message);
    void accepted(ns3::Ptr<ns3::Socket> socket, const ns3::Address& from);
    void refused(ns3::Ptr<ns3::Socket>) { listener_.failed("a TCP connection could not be opened"); }
    void writable(ns3::Ptr<ns3::Socket> socket, std::uint32_t) { write(*of_socket_.at(ns3::PeekPointer(socket))); }
    void write(Stream& stream);
    void readable(ns3::Ptr<ns3::Socket> socket);
    void begins(std::uint32_t link, ns3::Ptr<const ns3::Packet> packet);

    const Fabric& fabric_;
    const Settings settings_;
    Messages& messages_;
    const Listener listener_;
    std::vector<ns3::Ptr<ns3::Socket>> servers_;
    std::unordered_map<std::uint64_t, Stream> streams_;
    std::unordered_map<const ns3::Socket*, Stream*> of_socket_;
    std::vector<std::deque<Tick>> arrivals_;  // of links into NPUs: of the packets on them
};

Tcp::Tcp(const Fabric& fabric, const Settings& settings, Messages& messages, Listener listener)
    : fabric_(fabric), settings_(settings), messages_(messages), listener_(std::move(listener)), arrivals_(fabric.links().size()) {
    ns3::Config::SetDefault("ns3::TcpSocket::SegmentSize", ns3::UintegerValue(settings.packet));
    ns3::Config::SetDefault("ns3::TcpSocket::SndBufSize", ns3::UintegerValue(settings.window));
    ns3::Config::SetDefault("ns3::TcpSocket::RcvBufSize", ns3::UintegerValue(settings.window));
    for (std::uint32_t npu = 0; npu < fabric.npus(); ++npu) {
        const auto socket = ns3::Socket::CreateSocket(fabric.node(npu), ns3::TcpSocketFactory::GetTypeId());
        if (socket->Bind(ns3::InetSocketAddress(Fabric::address(npu), port)) != 0 || socket->Listen() != 0)
            throw Refused("a TCP socket cannot listen");
        socket->SetAcceptCallback(ns3::MakeNullCallback<bool, ns3::Ptr<ns3::Socket>, const ns3::Address&>(),
                                  ns3::MakeCallback(&Tcp::accepted, this));
        servers_.push_back(socket);
    }
    for (std::uint32_t number = 0; number < fabric.links().size(); ++number)
        if (fabric.links()[number].target < fabric.npus())
            fabric.links()[number].device->TraceConnectWithoutContext("PhyTxBegin", ns3::MakeCallback(&Tcp::begins, this).Bind(number));
}

// Its bytes pass each link of the way; what headers and handshakes add only makes it later.
Tick Tcp::first_bound(const Message& message, const std::vector<std::uint32_t>& way, Tick at) const {
    Tick flight = 0, most = 0;
    for (const std::uint32_t number : way) {
        const Link& link = fabric_.links()[number];
        flight += link.latency;
        most = std::max(most, static_cast<Tick>(static_cast<double>(message.size) / link.bandwidth * 1000 * (1 - 1e-9)) - 1);
    }
    return at + flight + std::max<Tick>(most, 0);
}

// The receiver lacks some bytes, so many packets have still to come: those on the last link, in their order, then others.
Tick Tcp::bound(std::uint32_t number, Tick from) {
    const Message& message = messages_[number];
    const Stream& stream = streams_.at(key(message.source, message.destination));
    std::int64_t lacks = 0;
    for (const Part& part : stream.expected) {
        lacks += part.left;
        if (part.message == number) break;
    }
    if (stream.sink) lacks -= ns3::StaticCast<ns3::TcpSocketBase>(stream.sink)->GetRxBuffer()->Size();
    const std::int64_t packets = std::max<std::int64_t>(1, (lacks + settings_.packet - 1) / settings_.packet);
    auto& coming = arrivals_[message.last];
    while (!coming.empty() && coming.front() < from) coming.pop_front();
    const auto there = static_cast<std::int64_t>(coming.size());
    if (packets <= there) return coming[static_cast<std::size_t>(packets - 1)];
    const Link& link = fabric_.links()[message.last];
    return from + (packets - there - 1) * link.time(settings_.packet) + link.time(Fabric::ppp + Fabric::ip + Fabric::tcp) + link.latency;
}

void Tcp::open(Stream& stream, const Message& message) {
    stream.source = ns3::Socket::CreateSocket(fabric_.node(message.source), ns3::TcpSocketFactory::GetTypeId());
    of_socket_[ns3::PeekPointer(stream.source)] = &stream;
    stream.source->SetConnectCallback(ns3::MakeNullCallback<void, ns3::Ptr<ns3::Socket>>(), ns3::MakeCallback(&Tcp::refused, this));
    stream.source->SetSendCallback(ns3::MakeCallback(&Tcp::writable, this));
    if (stream.source->Bind() != 0 || stream.source->Connect(ns3::InetSocketAddress(Fabric::address(message.destination), port)) != 0)
        listener_.failed("a TCP socket cannot connect");
}

void Tcp::start(std::uint32_t number) {
    const Message& message = messages_[number];
    Stream& stream = streams_[key(message.source, message.destination)];
    const std::int64_t bytes = std::max<std::int64_t>(1, message.size);
    stream.unsent.push_back({number, bytes});
    stream.expected.push_back({number, bytes});
    if (!stream.source) open(stream, message);
    write(stream);
}

void Tcp::write(Stream& stream) {
    while (!stream.unsent.empty()) {
        const std::int64_t room = std::min<std::int64_t>({stream.unsent.front().left, stream.source->GetTxAvailable(), at_once});
        if (room <= 0) return;
        const int sent = stream.source->Send(ns3::Create<ns3::Packet>(static_cast<std::uint32_t>(room)), 0);
        if (sent <= 0) return;
        if ((stream.unsent.front().left -= sent) == 0) stream.unsent.pop_front();
    }
}

void Tcp::accepted(ns3::Ptr<ns3::Socket> socket, const ns3::Address& from) {
    const std::uint32_t source = Fabric::npu(ns3::InetSocketAddress::ConvertFrom(from).GetIpv4());
    Stream& stream = streams_.at(key(source, socket->GetNode()->GetId()));
    stream.sink = socket;
    of_socket_[ns3::PeekPointer(socket)] = &stream;
    socket->SetRecvCallback(ns3::MakeCallback(&Tcp::readable, this));
}

void Tcp::readable(ns3::Ptr<ns3::Socket> socket) {
    Stream& stream = *of_socket_.at(ns3::PeekPointer(socket));
    for (auto packet = socket->Recv(); packet && packet->GetSize() > 0; packet = socket->Recv()) {
        std::int64_t bytes = packet->GetSize();
        while (bytes > 0 && !stream.expected.empty()) {
            Part& part = stream.expected.front();
            const std::int64_t taken = std::min(bytes, part.left);
            bytes -= taken;
            if ((part.left -= taken) > 0) continue;
            const std::uint32_t message = part.message;
            stream.expected.pop_front();
            listener_.delivered(message);
        }
    }
}

void Tcp::begins(std::uint32_t number, ns3::Ptr<const ns3::Packet> packet) {
    const Link& link = fabric_.links()[number];
    auto& coming = arrivals_[number];
    const Tick now = Clock::now();
    while (!coming.empty() && coming.front() <= now) coming.pop_front();
    coming.push_back(now + link.time(packet->GetSize()) + link.latency);
}

}  // namespace

std::unique_ptr<Transport> make_tcp(const Fabric& fabric, const Settings& settings, Messages& messages, Listener listener) {
    return std::make_unique<Tcp>(fabric, settings, messages, std::move(listener));
}

}  // namespace bridge
