// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// ns-3's routing of one node: the fabric's ways. ns-3's own static and global routing search a list for each packet.
#pragma once
#include "fabric.hpp"
#include "ns3/ipv4-routing-protocol.h"

namespace bridge {

class Ways final : public ns3::Ipv4RoutingProtocol {
public:
    Ways(const Fabric& fabric, std::uint32_t node) : fabric_(fabric), node_(node) {}

    ns3::Ptr<ns3::Ipv4Route> RouteOutput(ns3::Ptr<ns3::Packet>, const ns3::Ipv4Header& header, ns3::Ptr<ns3::NetDevice>,
                                         ns3::Socket::SocketErrno& error) override;
    bool RouteInput(ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header& header, ns3::Ptr<const ns3::NetDevice> device,
                    UnicastForwardCallback forward, MulticastForwardCallback, LocalDeliverCallback here, ErrorCallback wrong) override;
    void NotifyInterfaceUp(std::uint32_t) override {}
    void NotifyInterfaceDown(std::uint32_t) override {}
    void NotifyAddAddress(std::uint32_t, ns3::Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(std::uint32_t, ns3::Ipv4InterfaceAddress) override {}
    void SetIpv4(ns3::Ptr<ns3::Ipv4> ipv4) override { ipv4_ = ns3::PeekPointer(ipv4); }
    void PrintRoutingTable(ns3::Ptr<ns3::OutputStreamWrapper>, ns3::Time::Unit) const override {}

private:
    ns3::Ptr<ns3::Ipv4Route> towards(std::uint32_t source, ns3::Ipv4Address address) const;  // null: no way

    const Fabric& fabric_;
    std::uint32_t node_;
    ns3::Ipv4* ipv4_ = nullptr;
};

}  // namespace bridge
