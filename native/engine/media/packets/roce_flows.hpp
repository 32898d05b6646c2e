// The flows of RoCE, one for each two ends: their rates, windows and routes.
#pragma once
#include <unordered_map>
#include <vector>

#include "media/packets/net.hpp"
#include "media/packets/roce_ports.hpp"
#include "media/packets/roce_rules.hpp"

namespace astrarium::packets {

struct ShortPacket {  // a packet that is not full
    std::uint32_t packet;
    std::int64_t bytes;
    ShortPacket(std::uint32_t number, std::int64_t size) : packet(number), bytes(size) {}
};

struct alignas(64) RoceFlow {
    // What a packet's end touches, in a line of the cache.
    Fifo<Tick, 16> acks;      // when they come; each is of the first packet that has none
    double limit = 0;         // bytes that may be under way, from the last packet on
    Tick back = 0;            // how long an ACK takes; 0: nobody waits for it
    std::int64_t flying = 0;  // bytes that are not acknowledged
    bool held = false;        // waits for an ACK that is not under way yet
    bool put_off = false;     // a CNP is due an interval after the last one
    std::int32_t source = 0, destination = 0;
    std::uint32_t link = none, first = none, last = none;  // of its messages
    std::uint32_t packets = 0, acknowledged = 0;           // packets: sent
    std::uint32_t route = none;                            // where its links begin in `routes_`
    Tick allowed = 0, notified = -1;                       // notified: the last CNP for it
    const RoceRules* rules = nullptr;                      // of its rate
    Fifo<ShortPacket, 16> shorts;                          // not acknowledged
    double window = 0, pace = 0;                           // bytes, 0: none; bytes per ns with which the window fills in a round trip
    Rate rate;
};

class RoceFlows {
public:
    RoceFlows(Net& net, std::int64_t control_bytes);
    RoceFlow& operator[](std::uint32_t number) { return flows_[number]; }
    const RoceFlow& operator[](std::uint32_t number) const { return flows_[number]; }
    auto begin() { return flows_.begin(); }
    auto end() { return flows_.end(); }
    const RulesByRate& rules() const { return by_rate_; }
    // Of a control packet over a link.
    Tick small(std::uint32_t link) const { return small_[link]; }
    // The flow of a message, whose first link is `link`.
    std::uint32_t of(const Cargo& cargo, std::uint32_t link);
    // Whether ACKs, come or under way, open the window, and when, if later.
    bool opens(RoceFlow& flow, Tick& when) const;
    // Where a packet goes on from the end of a link, as `Parcel::hop` says it; none: there it is at its destination.
    std::uint32_t onward(std::uint32_t link, const Parcel& packet) {
        if (by_route(packet)) return routes_[packet.hop + 1] == none ? none : packet.hop + 1;
        return look_up(link, packet);
    }
    std::uint32_t link_of(const Parcel& packet) const { return by_route(packet) ? routes_[packet.hop] : packet.hop; }
    struct Way {
        std::int32_t destination;
        std::uint64_t pair;
    };
    Way way_of(const Parcel& packet) const;

private:
    void measure(RoceFlow& flow);
    std::int64_t first_flying(RoceFlow& flow) const;
    std::uint32_t look_up(std::uint32_t link, const Parcel& packet);
    bool by_route(const Parcel& packet) const { return fixed_ && packet.cls == Class::data; }

    Net& net_;
    const RulesByRate by_rate_;  // the first one: of links of any other rate
    const bool fixed_;           // routes of data never change
    std::vector<Tick> small_;    // per link: of a control packet
    std::vector<RoceFlow> flows_;
    std::unordered_map<std::uint64_t, std::uint32_t> of_;  // by source and destination
    std::vector<std::uint32_t> routes_;                    // links of each flow, and `none` behind the last one
};

}  // namespace astrarium::packets
