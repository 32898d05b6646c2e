// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The graph as ns-3 nodes and point-to-point links, with one way between any two NPUs: the one that was given for them; else as
// few links as possible, and of several equally short ways the one of the lowest link numbers. The NPUs are nodes 0 to npus - 1;
// they pass packets on, too.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "clock.hpp"
#include "frames.hpp"
#include "ns3/ipv4-address.h"
#include "ns3/ipv4-route.h"
#include "ns3/node.h"
#include "ns3/point-to-point-net-device.h"

namespace bridge {

struct Settings {
    bool tcp = false;
    std::uint32_t packet = 0;  // bytes of payload
    std::uint32_t queue = 0;   // packets of a port
    std::uint64_t window = 0;  // bytes of TCP's buffers
    std::uint64_t most = 0;    // packets under way
};

// A directed link, and the port that sends on it.
struct Link {
    std::uint32_t source = 0, target = 0;
    double bandwidth = 0;  // bytes per ns
    Tick latency = 0;
    ns3::Ptr<ns3::PointToPointNetDevice> device;
    ns3::Ptr<ns3::Ipv4Route> route;
    ns3::DataRate rate;

    Tick time(std::uint32_t bytes) const { return rate.CalculateBytesTxTime(bytes).GetTimeStep(); }  // of serialisation
};

class Fabric {
public:
    static constexpr std::int32_t none = -1;
    static constexpr std::uint32_t ppp = 2, ip = 20, udp = 8, tcp = 20;  // bytes of headers

    Fabric(Frame& topology, const Settings& settings);
    Fabric(const Fabric&) = delete;
    Fabric& operator=(const Fabric&) = delete;

    std::uint32_t npus() const { return npus_; }
    const std::vector<Link>& links() const { return links_; }
    ns3::Ptr<ns3::Node> node(std::uint32_t number) const { return nodes_[number]; }
    void give(Frame& ways);  // throws Refused
    // Number of the link that packets between two NPUs take from `node` on; none: there is no way, or they are there.
    std::int32_t next(std::uint32_t node, std::uint32_t source, std::uint32_t destination) const;
    std::vector<std::uint32_t> way(std::uint32_t source, std::uint32_t destination) const;  // throws Refused

    static ns3::Ipv4Address address(std::uint32_t npu) { return ns3::Ipv4Address(first_address + npu); }
    static std::uint32_t npu(ns3::Ipv4Address address) { return address.Get() - first_address; }

private:
    static constexpr std::uint32_t first_address = 0x0A000001;  // 10.0.0.1
    void find_ways();
    void make_nodes();
    void make_links(const Settings& settings);
    ns3::Ptr<ns3::PointToPointNetDevice> make_device(std::uint32_t node, const Settings& settings);
    void join(Link& one, Link* back, const Settings& settings);

    std::uint32_t npus_ = 0, node_count_ = 0;
    std::vector<Link> links_;
    std::vector<ns3::Ptr<ns3::Node>> nodes_;
    std::vector<std::int32_t> next_;
    std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> given_;  // source and destination: links
};

}  // namespace bridge
