// RoCE: PFC, ECN and DCQCN. A unit is a node: its links share a buffer, so that what happens at one of them counts for all.
#pragma once
#include <utility>
#include <vector>

#include "clock/crew.hpp"
#include "media/packets/events.hpp"
#include "media/packets/net.hpp"
#include "media/packets/roce_flows.hpp"
#include "media/packets/roce_ports.hpp"

namespace astrarium::packets {

class Roce final : public Transport {
public:
    Roce(Net& net, Windows& windows);
    void ask(std::uint32_t cargo, std::uint32_t link, Tick now) override;
    void run(const std::vector<std::uint32_t>& units, Tick begin, Tick until) override;
    void reroute(Tick now) override;
    void explain(std::vector<std::string>& waits) const override;
    bool keeps(std::uint32_t link) const override;
    void report(PacketCounts& out) const override;

private:
    static constexpr std::int64_t control_bytes = 64;  // of a CNP; an ACK takes their time, and no bandwidth
    static constexpr std::size_t fewest = 32;          // nodes that are worth several threads

    struct Node {
        std::vector<Event> inbox;  // in any order; what came by one link in that of its packets
        std::int64_t used = 0, shared = 0, peak = 0;
    };
    struct Acked {
        std::uint32_t flow;
        Tick time;
    };

    struct Sent {
        std::int32_t node;
        Event event;
    };
    struct alignas(64) Hand {  // of one thread
        Due due;               // of the node that runs
        Agenda agenda;
        std::vector<std::uint32_t> touched;
        std::vector<std::vector<Sent>> sent;  // where several run a window: to each part of the nodes
        std::vector<Acked> acked;             // likewise
        Left left;
        // Whether nothing else happens at the node in this instant.
        bool ends(Tick now) const { return due.first() > now && agenda.front().time > now; }
    };

    void run_node(Hand& hand, std::uint32_t number, Tick begin);
    void start_touched(Hand& hand, Tick now);
    void line_up(std::uint32_t number, Tick when);
    void acknowledge(std::uint32_t number, Tick time);
    bool counts(std::uint32_t came, std::uint32_t link) const { return came != none && ends_[came].rules && ports_[link].rules; }
    void happen(Hand& hand, Node& node, const Event& event);
    void came(Hand& hand, Node& node, const Event& event);
    void take_in(Hand& hand, Node& node, std::uint32_t came, std::int64_t bytes, Tick now);
    bool leave(Hand& hand, std::uint32_t link, Parcel& packet, Tick now);
    void notify(Hand& hand, const Event& event);
    void notify_after(Hand& hand, RoceFlow& flow, const Event& event);
    void answer(Hand& hand, const RoceFlow& flow, std::uint32_t number, Tick now);
    void release(Hand& hand, Node& node, const Soon& left);
    void start(Hand& hand, std::uint32_t link, Tick now);
    bool transmit(Hand& hand, std::uint32_t link, Parcel& packet, Tick now);  // false: it is lost
    bool loses(Hand& hand, std::uint32_t link, const Parcel& packet, Tick now, Tick end);
    void reroute_port(std::uint32_t link, Tick now);
    std::uint32_t other_way(std::uint32_t link, const Parcel& packet) const;
    void deliver(Hand& hand, std::int32_t node, Parcel& packet, Tick tail);
    Parcel cut(RocePort& port, Tick now);
    Tick start_own(Hand& hand, std::uint32_t link, Tick now);
    void start_later(Hand& hand, std::uint32_t link, Tick now);
    bool mark(std::uint32_t link, const RocePort& port, const Parcel& packet) const;
    // To the node that runs.
    void put(Hand& hand, std::int32_t node, Tick when, Kind kind, std::uint32_t number, std::uint32_t came = none,
             std::uint32_t bytes = 0) {
        if (when < until_) hand.agenda.put(when, kind, number, came, bytes);
        else give(hand, node, Soon(when, kind, number, came, bytes).event());
    }
    void happen(Hand& hand, Node& node, const Soon& soon);
    void fetch(const std::vector<std::uint32_t>& units, std::size_t at) const;
    void fetch(const Hand& hand, const Node& node) const;
    template <class... Of>
    void give(Hand& hand, std::int32_t node, Of&&... event) {
        if (net_.together)
            return void(hand.sent[static_cast<std::size_t>(node) / part_].push_back({node, Event(std::forward<Of>(event)...)}));
        give(node, std::forward<Of>(event)...);
    }
    template <class... Of>
    void give(std::int32_t node, Of&&... event) {
        const Event& made = nodes_[static_cast<std::size_t>(node)].inbox.emplace_back(std::forward<Of>(event)...);
        windows_.mark(made.time, static_cast<std::uint32_t>(node));
    }
    // A port that is busy starts nothing: it is touched again when it is free.
    void touch(Hand& hand, std::uint32_t link, Tick now) {
        RocePort& port = ports_[link];
        if (port.free > now) {
            if (!port.leaves) touch_at(hand, link, now, port.free);
        } else if (!std::exchange(port.touched, true)) {
            hand.touched.push_back(link);
        }
    }
    void touch_at(Hand& hand, std::uint32_t link, Tick now, Tick when) {
        RocePort& port = ports_[link];
        if (when == never || (port.timer <= when && port.timer > now)) return;
        port.timer = when;
        put(hand, port.source, when, Kind::timer, link);
    }
    std::int64_t size(const Parcel& packet) const { return packet.cls == Class::data ? packet.bytes + net_.rules.header : control_bytes; }

    Net& net_;
    Windows& windows_;
    std::vector<RocePort> ports_;    // per link
    std::vector<RoceIngress> ends_;  // per link
    std::vector<Node> nodes_;
    RoceFlows flows_;
    Crew crew_;
    std::vector<Hand> hands_;
    const std::size_t part_;  // nodes
    Tick until_ = 0;
    std::uint64_t seed_ = 0;
};

}  // namespace astrarium::packets
