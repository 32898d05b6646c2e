// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Messages, and the transports that carry them over the fabric.
#pragma once
#include <deque>
#include <functional>
#include <memory>

#include "fabric.hpp"

namespace bridge {

struct Message {
    std::uint64_t id = 0;
    std::uint32_t source = 0, destination = 0;
    std::int64_t size = 0;
    std::uint32_t last = 0;  // link of its way that comes to the destination
    bool open = false;       // not yet delivered
    // Of UDP: packets in all, handed to the network, on the last link or beyond, arrived; when the last of these arrives.
    std::int64_t packets = 0, handed = 0, begun = 0, arrived = 0;
    Tick arrival = 0;
};

// Addresses of messages stay: transports number them by their place here.
using Messages = std::deque<Message>;

class Transport {
public:
    virtual ~Transport() = default;
    // A bound from below on the delivery of a message that is sent at `at`.
    virtual Tick first_bound(const Message& message, const std::vector<std::uint32_t>& way, Tick at) const = 0;
    virtual void start(std::uint32_t message) = 0;  // called at its time
    // A bound from below on the delivery of an open message, when the next event is that of `from`.
    virtual Tick bound(std::uint32_t message, Tick from) = 0;
};

// What a transport tells the session.
struct Listener {
    std::function<void(std::uint32_t message)> delivered;
    std::function<void(const std::string& why)> failed;
};

std::unique_ptr<Transport> make_udp(const Fabric& fabric, const Settings& settings, Messages& messages, Listener listener);
std::unique_ptr<Transport> make_tcp(const Fabric& fabric, const Settings& settings, Messages& messages, Listener listener);

}  // namespace bridge
