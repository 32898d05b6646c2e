// Messages that meet nobody: all their packets follow the first one at equal distances, so a train is timed as a whole when it begins.
// Where something meets it, it becomes the packets that it would have been (design/0017). Same integers as packet by packet.
#pragma once
#include <cstdint>
#include <vector>

#include "media/packets/port.hpp"

namespace astrarium::packets {

class Trains {
public:
    Trains(Net& net, Windows& windows, std::vector<Port>& ports);
    bool empty() const { return running_ == 0; }
    // A message has asked for its first link. Whether trains care for that port: this message is a train now, or waits behind one.
    bool take(std::uint32_t link, Tick now);
    // Before a window: ends what ends in it, and makes packets of what meets others. Returns the ports that are left to run.
    const std::vector<std::uint32_t>& settle(const std::vector<std::uint32_t>& marked, Tick begin, Tick until);

private:
    static constexpr std::uint32_t fewest = 3;  // packets

    // One link of a train's way. Packet k of the equal ones starts k steps after the first; the last packet may be smaller.
    struct Time {
        Tick arrives = 0, tail = 0;  // its head and its tail are at the port
        Tick start = 0, free = 0;    // the port is free again
        Tick back = 0;               // its credit is
    };
    struct Leg {
        std::uint32_t link = none;
        Time first, last;
        std::uint32_t behind = none;  // the next train over this link
    };
    struct Train {
        std::uint32_t cargo = none, packets = 0;
        std::int64_t last_bytes = 0;  // payload
        Tick step = 0;
        std::uint32_t released = 0;  // links that it has left
        std::vector<Leg> legs;
    };

    bool begin(std::uint32_t link, Tick marked);
    bool find_way(Train& train);
    static Leg& over(Train& train, std::uint32_t link);
    bool is_free(const Train& train, std::uint32_t link) const;
    bool has_room(Train& train) const;
    Time cross(const Leg* before, const Time& time, std::uint32_t link, std::int64_t payload, Tick free) const;
    Time of(const Train& train, const Leg& leg, std::uint32_t packet) const;
    std::uint32_t started(const Train& train, const Leg& leg, Tick before) const;
    std::int64_t payload(const Train& train, std::uint32_t packet) const {
        return packet + 1 < train.packets ? net_.rules.size : train.last_bytes;
    }
    bool meets(std::uint32_t link, Tick until) const;
    void release(std::uint32_t link, Tick now, Tick until);
    void break_up(std::uint32_t train, Tick now, Tick until);
    void become_packets(const Train& train, Tick now, Tick until);
    void hand_over(const Train& train, std::size_t leg, std::uint32_t from, std::uint32_t to, Tick until);
    void account(const Train& train, std::size_t leg, std::uint32_t packets, std::uint32_t issued, Tick now);
    void account_room(const Train& train, const Leg& leg, std::uint32_t packets, std::uint32_t issued, Tick now);
    void revoke(const Train& train, const Leg& leg, std::uint32_t from);
    void run_later(std::uint32_t link);

    Net& net_;
    Windows& windows_;
    std::vector<Port>& ports_;
    const bool able_;  // neither speeds that change, nor spraying, nor queues over time
    std::size_t running_ = 0;
    std::vector<Train> trains_;
    std::vector<std::uint32_t> spare_;
    std::vector<std::uint32_t> first_, last_;  // per link: its trains, in order
    std::vector<std::uint32_t> units_;
    std::vector<std::uint8_t> is_unit_;  // per link
};

}  // namespace astrarium::packets
