// RoCE: PFC, ECN and DCQCN. A unit is a node: its links share a buffer, so that what happens at one of them counts for all.
#pragma once
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "clock/crew.hpp"
#include "media/packets/dcqcn.hpp"
#include "media/packets/events.hpp"
#include "media/packets/net.hpp"

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

    template <class T, std::size_t few = 64>
    struct Fifo {
        std::vector<T> all;
        std::size_t head = 0;
        bool empty() const { return head == all.size(); }
        T& front() { return all[head]; }
        T& back() { return all.back(); }
        template <class... Of>
        void push(Of&&... one) {
            all.emplace_back(std::forward<Of>(one)...);
        }
        void pop() {
            if (++head == all.size()) all.clear(), head = 0;
            else if (head >= few && 2 * head >= all.size())
                all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(head)), head = 0;
            __builtin_prefetch(all.data() + head);  // a packet time before it starts
        }
        void put_back(const T& one) { all.insert(all.begin() + static_cast<std::ptrdiff_t>(head), one); }
    };
    struct Waiting {  // a flow at its first link
        Tick allowed;
        std::int32_t destination;
        std::uint32_t flow;
        bool operator>(const Waiting& o) const { return allowed != o.allowed ? allowed > o.allowed : destination > o.destination; }
    };
    struct alignas(64) Port {
        // What packets of switches touch, in two lines of the cache.
        Fifo<Parcel> queue;
        Tick free = 0, latency = 0;
        std::int32_t source = 0, target = 0;  // nodes
        std::int64_t waiting = 0;
        std::int64_t peak = 0;
        Fifo<Parcel> control;
        const RoceRules* rules = nullptr;  // of its rate; null: inside a host
        bool paused = false, own_before = false, touched = false;
        bool leaves = false;  // an event says when what it sends has left
        Tick timer = never;   // when it is touched, unless it is never or over
        std::priority_queue<Waiting, std::vector<Waiting>, std::greater<Waiting>> own;
        std::int64_t marks = 0, pauses = 0;
        Tick paused_at = 0, paused_for = 0;
        bool waits() const { return !queue.empty() || !control.empty() || !own.empty(); }
        // Whether a packet that comes now would be its first.
        bool idle(Tick now) const {
            return free <= now && !paused && !touched && queue.empty() && control.empty() && (own.empty() || own.top().allowed > now);
        }
    };
    struct Ingress {  // a link at its end
        std::int64_t bytes = 0, peak = 0;
        const RoceRules* rules = nullptr;  // as its port's
        bool paused = false;
    };
    struct Short {  // a packet that is not full
        std::uint32_t packet;
        std::int64_t bytes;
        Short(std::uint32_t number, std::int64_t size) : packet(number), bytes(size) {}
    };
    struct Node {
        std::vector<Event> inbox;  // in any order; what came by one link in that of its packets
        std::int64_t used = 0, shared = 0, peak = 0;
    };
    struct alignas(64) Flow {
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
        Fifo<Short, 16> shorts;                                // not acknowledged
        double window = 0, pace = 0;                           // bytes, 0: none; bytes per ns with which the window fills in a round trip
        Rate rate;
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

    std::vector<std::size_t> shares(const std::vector<std::uint32_t>& units) const;
    void run_node(Hand& hand, std::uint32_t number, Tick begin);
    void start_touched(Hand& hand, Tick now);
    const RoceRules* rules_at(double bandwidth) const;
    void measure(Flow& flow);
    void line_up(std::uint32_t number, Tick when);
    bool opens(Flow& flow, Tick& when) const;
    void acknowledge(std::uint32_t number, Tick time);
    std::int64_t first_flying(Flow& flow) const;
    bool counts(std::uint32_t came, std::uint32_t link) const { return came != none && ends_[came].rules && ports_[link].rules; }
    void happen(Hand& hand, Node& node, const Event& event);
    void resume(std::uint32_t link, Tick now);
    void came(Hand& hand, Node& node, const Event& event);
    void take_in(Hand& hand, Node& node, std::uint32_t came, std::int64_t bytes, Tick now);
    bool leave(Hand& hand, std::uint32_t link, Parcel& packet, Tick now);
    void notify(Hand& hand, const Event& event);
    void notify_after(Hand& hand, Flow& flow, const Event& event);
    void answer(Hand& hand, const Flow& flow, std::uint32_t number, Tick now);
    void release(Hand& hand, Node& node, const Soon& left);
    void start(Hand& hand, std::uint32_t link, Tick now);
    bool transmit(Hand& hand, std::uint32_t link, Parcel& packet, Tick now);  // false: it is lost
    bool loses(Hand& hand, std::uint32_t link, const Parcel& packet, Tick now, Tick end);
    void reroute_port(std::uint32_t link, Tick now);
    std::uint32_t other_way(std::uint32_t link, const Parcel& packet) const;
    struct Way {
        std::int32_t destination;
        std::uint64_t pair;
    };
    Way way_of(const Parcel& packet) const;
    void deliver(Hand& hand, std::int32_t node, Parcel& packet, Tick tail);
    Parcel cut(Port& port, Tick now);
    Tick start_own(Hand& hand, std::uint32_t link, Tick now);
    void start_later(Hand& hand, std::uint32_t link, Tick now);
    // Where a packet goes on from the end of a link, as `Parcel::hop` says it; none: there it is at its destination.
    std::uint32_t onward(std::uint32_t link, const Parcel& packet) {
        if (by_route(packet)) return routes_[packet.hop + 1] == none ? none : packet.hop + 1;
        return look_up(link, packet);
    }
    std::uint32_t look_up(std::uint32_t link, const Parcel& packet);
    bool by_route(const Parcel& packet) const { return fixed_ && packet.cls == Class::data; }
    std::uint32_t link_of(const Parcel& packet) const { return by_route(packet) ? routes_[packet.hop] : packet.hop; }
    bool mark(std::uint32_t link, const Port& port, const Parcel& packet) const;
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
        Port& port = ports_[link];
        if (port.free > now) {
            if (!port.leaves) touch_at(hand, link, now, port.free);
        } else if (!std::exchange(port.touched, true)) {
            hand.touched.push_back(link);
        }
    }
    void touch_at(Hand& hand, std::uint32_t link, Tick now, Tick when) {
        Port& port = ports_[link];
        if (when == never || (port.timer <= when && port.timer > now)) return;
        port.timer = when;
        put(hand, port.source, when, Kind::timer, link);
    }
    std::int64_t size(const Parcel& packet) const { return packet.cls == Class::data ? packet.bytes + net_.rules.header : control_bytes; }

    Net& net_;
    Windows& windows_;
    const std::vector<std::pair<double, RoceRules>> by_rate_;  // the first one: of links of any other rate
    std::vector<Port> ports_;                                  // per link
    std::vector<Ingress> ends_;                                // per link
    std::vector<Node> nodes_;
    std::vector<Tick> small_;  // per link: of a control packet
    std::vector<Flow> flows_;
    std::unordered_map<std::uint64_t, std::uint32_t> flow_of_;
    const bool fixed_;                   // routes of data never change
    std::vector<std::uint32_t> routes_;  // links of each flow, and `none` behind the last one
    Crew crew_;
    std::vector<Hand> hands_;
    const std::size_t part_;  // nodes
    Tick until_ = 0;
    std::uint64_t seed_ = 0;
};

}  // namespace astrarium::packets
