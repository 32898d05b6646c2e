// A port of the credit transport: what waits at the start of a link.
#pragma once
#include <algorithm>
#include <vector>

#include "media/packets/net.hpp"

namespace astrarium::packets {

struct Credit {
    Tick time;
    std::int64_t bytes;
};

struct alignas(64) Port {
    // What others touch, in one line of the cache.
    std::vector<Packet> inbox;    // [head, sorted): the queue; from `sorted` on what may come later
    std::vector<Credit> credits;  // on their way back; [returned, ordered): by time
    Tick latency = 0;
    bool limited = false, asleep = false;  // asleep: until there is room
    bool own_before = false;               // the last packet was of a message that begins here
    // The port's own.
    std::uint32_t head = 0, sorted = 0, seen = 0;  // seen: counted in `waiting`
    std::uint32_t returned = 0, ordered = 0;
    std::uint32_t first = none, last = none;  // messages that begin here
    std::int32_t target = 0;
    Tick free = 0;
    std::int64_t room = 0;                          // bytes at the end that nobody has
    std::int64_t waiting = 0, peak = 0, least = 0;  // of the queue; least: room

    // So many bytes of the first message have left.
    void leave(Net& net, std::int64_t bytes) {
        Cargo& c = net.cargos[first];
        c.to_send -= bytes;
        if (c.to_send > 0) return;
        const std::uint32_t behind = c.next;
        std::unique_lock<std::mutex> lock(net.following, std::defer_lock);
        if (net.together) lock.lock();
        const MessageId follower = net.run.follow(c.id);
        if (follower == Carried::no_message) return void(first = behind);
        const std::uint32_t next = net.load(follower, net.run.flight(follower), c.asked);
        net.cargos[next].next = behind;
        first = next;
        if (behind == none) last = next;
    }
};

}  // namespace astrarium::packets
