// RoCE: PFC, ECN and DCQCN. A unit is a node: its links share a buffer, so that what happens at one of them counts for all.
#pragma once
#include <queue>
#include <unordered_map>
#include <vector>

#include "media/packets/dcqcn.hpp"
#include "media/packets/net.hpp"

namespace astrarium::packets {

class Roce final : public Transport {
public:
    Roce(Net& net, Windows& windows);
    void ask(std::uint32_t cargo, std::uint32_t link, Tick now) override;
    void run(const std::vector<std::uint32_t>& units, Tick begin, Tick until) override;
    void explain(std::vector<std::string>& waits) const override;
    bool keeps(std::uint32_t link) const override;
    void report(PacketCounts& out) const override;

private:
    static constexpr std::int64_t control_bytes = 64;  // of an ACK or a CNP
    // In the order in which they happen in one instant.
    enum Kind : std::uint8_t { left, pause, arrive, notice, put_off, asked, timer };
    enum Class : std::uint8_t { data, ack, cnp };

    struct Event {
        Tick time = 0, tail = 0;  // tail: when the last byte of a packet is there
        Kind kind = left;
        Class cls = data;
        bool marked = false;  // of pause: on
        std::uint32_t number =
            0;  // left, timer: of the port; pause: of the link; arrive: of the link that it came by; notice, put_off: of the flow
        std::uint32_t cargo = none;  // of data; of control packets: the flow
        std::int32_t destination = 0;
        std::uint32_t bytes = 0;
        std::uint32_t serial = 0;  // of the packets of its flow; of left: by which link the packet came
    };
    static bool before(const Event& x, const Event& y) {
        if (x.time != y.time) return x.time < y.time;
        return x.kind != y.kind ? x.kind < y.kind : x.number < y.number;
    }
    struct Later {
        bool operator()(const Event& x, const Event& y) const { return before(y, x); }
    };

    struct Fifo {
        std::vector<Event> all;
        std::size_t head = 0;
        bool empty() const { return head == all.size(); }
        Event& front() { return all[head]; }
        void push(const Event& event) { all.push_back(event); }
        void pop();
    };
    struct Waiting {  // a flow at its first link
        Tick allowed;
        std::int32_t destination;
        std::uint32_t flow;
        bool operator>(const Waiting& o) const { return allowed != o.allowed ? allowed > o.allowed : destination > o.destination; }
    };
    struct Port {
        Fifo queue, control;
        std::priority_queue<Waiting, std::vector<Waiting>, std::greater<Waiting>> own;
        Tick free = 0, timer = never, paused_at = 0;
        bool paused = false, own_before = false, touched = false;
        std::int64_t waiting = 0, peak = 0, marks = 0, pauses = 0;
        Tick paused_for = 0;
    };
    struct Ingress {  // a link at its end
        std::int64_t bytes = 0, peak = 0;
        bool paused = false;
    };
    struct Node {
        std::vector<Event> inbox;  // [head, sorted): to happen in this window
        std::size_t head = 0, sorted = 0;
        std::int64_t used = 0, shared = 0, peak = 0;
    };
    struct Flow {
        std::int32_t source = 0, destination = 0;
        std::uint32_t link = none, first = none, last = none;  // of its messages
        std::uint32_t packets = 0;                             // sent
        Tick allowed = 0, notified = -1;                       // notified: the last CNP for it
        bool put_off = false;                                  // a CNP is due an interval after the last one
        Rate rate;
    };

    void run_node(std::uint32_t node, Tick until);
    void happen(Node& node, const Event& event);
    void resume(std::uint32_t link, Tick now);
    void came(Node& node, const Event& event);
    void notify(const Event& event);
    void notify_after(Flow& flow, const Event& event);
    void answer(const Flow& flow, std::uint32_t number, Class cls, Tick now);
    void release(Node& node, const Event& event);
    void start(Node& node, std::uint32_t link, Tick now);
    void transmit(Node& node, std::uint32_t link, Event packet, Tick now);
    Event cut(Port& port, Tick now);
    bool mark(std::uint32_t link, const Port& port, const Event& packet) const;
    void give(std::int32_t node, const Event& event);
    void touch(std::uint32_t link);
    std::int64_t size(const Event& event) const { return event.cls == data ? event.bytes + net_.rules.header : control_bytes; }

    Net& net_;
    Windows& windows_;
    const RoceRules& rules_;
    std::vector<Port> ports_;    // per link
    std::vector<Ingress> ends_;  // per link
    std::vector<Node> nodes_;
    std::vector<Tick> small_;  // per link: of a control packet
    std::vector<Flow> flows_;
    std::unordered_map<std::uint64_t, std::uint32_t> flow_of_;
    // Of the node that runs.
    std::priority_queue<Event, std::vector<Event>, Later> local_;
    std::vector<std::uint32_t> touched_;
    Tick until_ = 0;
    std::uint64_t seed_ = 0;
};

}  // namespace astrarium::packets
