// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
#include "ways.hpp"

#include "ns3/ipv4.h"

namespace bridge {

ns3::Ptr<ns3::Ipv4Route> Ways::towards(std::uint32_t source, ns3::Ipv4Address address) const {
    const std::uint32_t npu = Fabric::npu(address);
    if (npu >= fabric_.npus()) return nullptr;
    const std::int32_t link = fabric_.next(node_, source, npu);
    return link == Fabric::none ? nullptr : fabric_.links()[static_cast<std::size_t>(link)].route;
}

ns3::Ptr<ns3::Ipv4Route> Ways::RouteOutput(ns3::Ptr<ns3::Packet>, const ns3::Ipv4Header& header, ns3::Ptr<ns3::NetDevice>,
                                           ns3::Socket::SocketErrno& error) {
    const auto route = towards(node_, header.GetDestination());
    error = route ? ns3::Socket::ERROR_NOTERROR : ns3::Socket::ERROR_NOROUTETOHOST;
    return route;
}

bool Ways::RouteInput(ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header& header, ns3::Ptr<const ns3::NetDevice> device,
                      UnicastForwardCallback forward, MulticastForwardCallback, LocalDeliverCallback here, ErrorCallback wrong) {
    if (node_ < fabric_.npus() && header.GetDestination() == Fabric::address(node_)) {
        here(packet, header, static_cast<std::uint32_t>(ipv4_->GetInterfaceForDevice(device)));
        return true;
    }
    if (const auto route = towards(Fabric::npu(header.GetSource()), header.GetDestination())) {
        forward(route, packet, header);
        return true;
    }
    wrong(packet, header, ns3::Socket::ERROR_NOROUTETOHOST);
    return false;
}

}  // namespace bridge
