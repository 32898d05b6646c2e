// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
#include "fabric.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "ns3/drop-tail-queue.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/point-to-point-channel.h"
#include "ns3/uinteger.h"
#include "ways.hpp"

namespace bridge {
namespace {

constexpr std::uint32_t least_mtu = 68;  // RFC 791; ns-3 leaves interfaces of less down, and loses what they are to carry
constexpr std::size_t largest_table = std::size_t{1} << 28;
constexpr std::size_t longest_way = 255;  // IP's time to live
constexpr std::int32_t far = INT32_MAX;

std::string between(std::uint32_t source, std::uint32_t destination) {
    return "from NPU " + std::to_string(source) + " to " + std::to_string(destination);
}

}  // namespace

Fabric::Fabric(Frame& topology, const Settings& settings) {
    npus_ = topology.number<std::uint32_t>();
    node_count_ = topology.number<std::uint32_t>();
    const auto count = topology.number<std::uint32_t>();
    const auto sources = topology.numbers<std::int32_t>(count), targets = topology.numbers<std::int32_t>(count);
    const auto bandwidths = topology.numbers<double>(count), latencies = topology.numbers<double>(count);
    if (npus_ == 0 || node_count_ < npus_ || std::size_t{npus_} * node_count_ > largest_table)
        throw Refused(std::to_string(npus_) + " NPUs of " + std::to_string(node_count_) + " nodes are too many or too few");
    links_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        const double bits = bandwidths[i] * 8e9, latency = latencies[i] * 1000;
        const bool ends = sources[i] >= 0 && targets[i] >= 0 && static_cast<std::uint32_t>(sources[i]) < node_count_ &&
                          static_cast<std::uint32_t>(targets[i]) < node_count_ && sources[i] != targets[i];
        if (!ends || !(bits >= 1 && bits < 1e18) || !(latency >= 0 && latency < 1e18))
            throw Refused("link " + std::to_string(i) + " is impossible");
        links_[i].source = static_cast<std::uint32_t>(sources[i]);
        links_[i].target = static_cast<std::uint32_t>(targets[i]);
        links_[i].bandwidth = bandwidths[i];
        links_[i].latency = std::llround(latency);
        links_[i].rate = ns3::DataRate(static_cast<std::uint64_t>(std::llround(bits)));
    }
    find_ways();
    make_nodes();
    make_links(settings);
}

// Distances to one NPU after the other, against the links' direction.
void Fabric::find_ways() {
    std::vector<std::vector<std::uint32_t>> in(node_count_), out(node_count_);
    for (std::uint32_t i = 0; i < links_.size(); ++i) {
        out[links_[i].source].push_back(i);
        in[links_[i].target].push_back(i);
    }
    next_.assign(std::size_t{npus_} * node_count_, none);
    std::vector<std::int32_t> left(node_count_);
    std::vector<std::uint32_t> reached;
    for (std::uint32_t npu = 0; npu < npus_; ++npu) {
        std::fill(left.begin(), left.end(), far);
        left[npu] = 0;
        reached.assign(1, npu);
        for (std::size_t at = 0; at < reached.size(); ++at)
            for (const std::uint32_t link : in[reached[at]]) {
                const std::uint32_t node = links_[link].source;
                if (left[node] != far) continue;
                left[node] = left[reached[at]] + 1;
                reached.push_back(node);
            }
        for (const std::uint32_t node : reached)
            for (const std::uint32_t link : out[node])
                if (left[links_[link].target] != far && left[links_[link].target] + 1 == left[node]) {
                    next_[std::size_t{node} * npus_ + npu] = static_cast<std::int32_t>(link);
                    break;
                }
    }
}

// A frame of ways: their number; each: source, destination, number of links, links in order.
void Fabric::give(Frame& ways) {
    const auto count = ways.number<std::uint32_t>();
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto source = ways.number<std::uint32_t>(), destination = ways.number<std::uint32_t>();
        auto links = ways.numbers<std::uint32_t>(ways.number<std::uint32_t>());
        std::uint32_t at = source;
        for (const std::uint32_t link : links) {
            if (link >= links_.size() || links_[link].source != at) throw Refused("a way " + between(source, destination) + " has gaps");
            at = links_[link].target;
        }
        if (source >= npus_ || destination >= npus_ || at != destination)
            throw Refused("a way " + between(source, destination) + " ends at node " + std::to_string(at));
        given_[std::uint64_t{source} << 32 | destination] = std::move(links);
    }
    ways.end();
}

std::int32_t Fabric::next(std::uint32_t node, std::uint32_t source, std::uint32_t destination) const {
    const auto found = given_.find(std::uint64_t{source} << 32 | destination);
    if (found == given_.end()) return next_[std::size_t{node} * npus_ + destination];
    for (const std::uint32_t link : found->second)
        if (links_[link].source == node) return static_cast<std::int32_t>(link);
    return none;
}

std::vector<std::uint32_t> Fabric::way(std::uint32_t source, std::uint32_t destination) const {
    std::vector<std::uint32_t> links;
    for (std::uint32_t node = source; node != destination; node = links_[links.back()].target) {
        const std::int32_t link = next(node, source, destination);
        if (link == none) throw Refused("there is no way " + between(source, destination));
        links.push_back(static_cast<std::uint32_t>(link));
    }
    if (links.size() > longest_way)
        throw Refused("the way " + between(source, destination) + " has " + std::to_string(links.size()) +
                      " links, and IP packets live for 255");
    return links;
}

void Fabric::make_nodes() {
    static const char* const parts[] = {"ns3::ArpL3Protocol", "ns3::Ipv4L3Protocol", "ns3::Icmpv4L4Protocol"};
    static const char* const upper[] = {"ns3::TrafficControlLayer", "ns3::UdpL4Protocol", "ns3::TcpL4Protocol"};
    for (std::uint32_t number = 0; number < node_count_; ++number) {
        const auto node = ns3::CreateObject<ns3::Node>();
        const auto aggregate = [&](const char* part) {
            ns3::ObjectFactory factory(part);
            node->AggregateObject(factory.Create<ns3::Object>());
        };
        for (const char* part : parts) aggregate(part);
        const auto ways = ns3::CreateObject<Ways>(*this, number);
        node->GetObject<ns3::Ipv4>()->SetRoutingProtocol(ways);
        for (const char* part : upper) aggregate(part);
        node->GetObject<ns3::Ipv4L3Protocol>()->SetAttribute("DefaultTtl", ns3::UintegerValue(longest_way));
        nodes_.push_back(node);
    }
}

ns3::Ptr<ns3::PointToPointNetDevice> Fabric::make_device(std::uint32_t node, const Settings& settings) {
    const auto device = ns3::CreateObject<ns3::PointToPointNetDevice>();
    const auto queue = ns3::CreateObject<ns3::DropTailQueue<ns3::Packet>>();
    queue->SetMaxSize(ns3::QueueSize(ns3::QueueSizeUnit::PACKETS, settings.queue));
    device->SetQueue(queue);
    device->SetAddress(ns3::Mac48Address::Allocate());
    device->SetMtu(static_cast<std::uint16_t>(std::max(least_mtu, settings.packet + ip + (settings.tcp ? 60 : udp))));
    nodes_[node]->AddDevice(device);
    return device;
}

// One channel for the two directions of a pair of links; a link without one back has a device there that nobody uses.
void Fabric::join(Link& one, Link* back, const Settings& settings) {
    const auto channel = ns3::CreateObject<ns3::PointToPointChannel>();
    channel->SetAttribute("Delay", ns3::TimeValue(ns3::PicoSeconds(one.latency)));
    one.device = make_device(one.source, settings);
    const auto other = make_device(one.target, settings);
    one.device->SetDataRate(one.rate);
    other->SetDataRate(back == nullptr ? one.rate : back->rate);
    if (back != nullptr) back->device = other;
    one.device->Attach(channel);
    other->Attach(channel);
    for (const auto& device : {one.device, other}) {
        const std::uint32_t number = device == one.device ? one.source : one.target;
        const auto ipv4 = nodes_[number]->GetObject<ns3::Ipv4>();
        const std::uint32_t interface = ipv4->AddInterface(device);
        if (number < npus_) ipv4->AddAddress(interface, {address(number), ns3::Ipv4Mask("255.0.0.0")});
        ipv4->SetUp(interface);
    }
}

void Fabric::make_links(const Settings& settings) {
    std::map<std::tuple<std::uint32_t, std::uint32_t, Tick>, std::vector<std::size_t>> single;  // source, target, latency
    for (std::size_t i = 0; i < links_.size(); ++i) {
        const Link& link = links_[i];
        const auto back = single.find({link.target, link.source, link.latency});
        if (back == single.end() || back->second.empty()) {
            single[{link.source, link.target, link.latency}].push_back(i);
            continue;
        }
        join(links_[back->second.front()], &links_[i], settings);
        back->second.erase(back->second.begin());
    }
    for (const auto& [ends, numbers] : single)
        for (const std::size_t number : numbers) join(links_[number], nullptr, settings);
    for (Link& link : links_) {
        link.route = ns3::Create<ns3::Ipv4Route>();
        link.route->SetOutputDevice(link.device);
        if (link.source < npus_) link.route->SetSource(address(link.source));
        link.route->SetGateway(ns3::Ipv4Address::GetAny());
    }
}

}  // namespace bridge
