// What transports of packets share: links, ways, windows, the messages under way, and what was measured.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "media/growing.hpp"
#include "media/packets/timeline.hpp"
#include "media/packets/windows.hpp"
#include "media/packets/wires.hpp"

namespace astrarium::packets {

// A message under way: a cursor at its source, a count at its destination.
struct Cargo {
    MessageId id = 0;
    std::int32_t source = 0, destination = 0;
    std::uint32_t left = 0;              // packets that have not arrived
    std::int64_t size = 0, to_send = 0;  // bytes
    Tick asked = 0, done = 0;            // done: when the last packet so far arrives
    std::uint64_t pair = 0;              // hash of the ends
    std::uint64_t number = 0;            // in the order in which messages asked
    std::uint32_t next = none;           // behind it at its first link
    std::uint32_t flow = none;           // roce
    std::int64_t lost = 0;               // bytes that links lost as they failed, and that were sent again
};

// A packet that is or will be at a port.
struct Packet {
    Tick time = 0, tail = 0;    // its head (stored and forwarded: its tail), and its tail, are at the port
    std::uint32_t came = none;  // by this link
    std::uint32_t cargo = 0;
    std::int32_t destination = 0;
    std::uint32_t bytes = 0;  // payload
};

// What a thread leaves until all are done with a window.
struct Left {
    struct Use {
        std::uint32_t link;
        Tick start, busy;
    };
    std::uint64_t hops = 0;
    std::vector<std::uint32_t> ended;  // messages
    std::vector<Use> uses;             // of links that leave NPUs
};

struct Net {
    Net(const Plan& plan, bool record, Carried& run);
    std::uint32_t load(MessageId id, const Flight& flight, Tick now);  // a new cargo
    void arrived(std::uint32_t cargo, Tick when);                      // one of its packets
    // When the last byte of a packet that starts now has left; `never`: the link stands still for ever before.
    Tick finish(std::uint32_t link, Tick start, Tick serial) const {
        return rates.empty() ? start + serial : rates.finish(link, start, serial);
    }
    // When a packet that starts to cross a link goes another way instead, as the link fails before its last byte has left; else `never`.
    Tick gives_up(std::uint32_t link, std::int32_t destination, Tick start, Tick end) const {
        return epochs ? epochs->gives_up(link, ways->wires[link].source, destination, start, end) : never;
    }
    void charge(std::uint32_t link, std::int64_t bytes, Tick start, Tick busy) {
        if (!record) return;
        const Wire& wire = ways->wires[link];
        traffic.charge(wire.number, false, bytes, busy);
        if (wire.leaves_npu) traffic.use(wire.dim, start, busy, 0);
    }
    // The same where several threads run the window (`together`).
    void arrived(std::uint32_t cargo, Tick when, Left& left);
    void charge(std::uint32_t link, std::int64_t bytes, Tick start, Tick busy, Left& left) {
        if (!together) return charge(link, bytes, start, busy);
        if (!record) return;
        const Wire& wire = ways->wires[link];
        traffic.charge(wire.number, false, bytes, busy);
        if (wire.leaves_npu) left.uses.push_back({link, start, busy});
    }
    void take(Left& left);  // once they are done
    Tick serial(std::uint32_t link, std::int64_t payload) const {
        return payload == rules.size ? full[link] : ways->wires[link].serial(payload + rules.header);
    }

    void queue_is(std::uint32_t link, Tick now, std::int64_t bytes) {
        if (timeline) timeline->queue(link, now, bytes);
    }
    void paused(std::uint32_t link, Tick from, Tick until) {
        if (timeline) timeline->paused(link, from, until);
    }

    const PacketRules& rules;
    const bool cut_through, record;
    Carried& run;
    Traffic traffic;
    std::unique_ptr<Ways> ways;
    std::vector<Tick> full, head;  // per link: of a whole packet, of a header
    Rates rates;
    Epochs* const epochs;  // where links fail and the transport reroutes; else null, and routes are those of the start
    Growing<Cargo> cargos;
    std::vector<std::uint32_t> spare;
    bool together = false;               // several threads run a window
    std::mutex following;                // then for what makes messages
    std::uint64_t asked = 0;             // messages
    std::uint64_t hops = 0;              // packets that began to cross a link
    std::unique_ptr<Timeline> timeline;  // of a run that records it
    void report(PacketCounts& out) const;

private:
    void end(std::uint32_t cargo);

    struct Sent {  // a message that has arrived
        Tick asked, arrived;
        std::int32_t source, destination;
        std::int64_t size, lost;
        auto operator<=>(const Sent&) const = default;
    };
    static constexpr std::size_t most_sent = 1 << 20;
    std::vector<Sent> sent_;
};

// How packets wait. A unit is what runs through a window by itself: a port, or a node.
class Transport {
public:
    virtual ~Transport() = default;
    virtual void ask(std::uint32_t cargo, std::uint32_t link, Tick now) = 0;
    virtual void run(const std::vector<std::uint32_t>& units, Tick begin, Tick until) = 0;
    // Of one that reroutes. An epoch begins: what waits for a link that has failed goes another way.
    virtual void reroute(Tick) {}
    virtual void explain(std::vector<std::string>& waits) const = 0;  // what keeps packets for ever
    virtual bool keeps(std::uint32_t link) const = 0;                 // whether packets wait for it
    virtual void report(PacketCounts& out) const = 0;                 // per link
};

// A transport, and what must be known of it before a run. One more is a file that ends in `const RegisteredTransport registered(kind)`.
struct TransportKind {
    std::string_view name;
    bool by_node = false;       // a unit is a node, whose links share a buffer
    bool pulls = false;         // messages at one first link go one after the other, so that those that wait need not exist
    bool reroutes = false;      // packets leave the queue of a link that fails, if there is another way
    bool link_buffers = false;  // links have buffers of their own, which must hold a packet
    void (*check)(const PacketRules&) = nullptr;  // throws where settings are out of range
    std::unique_ptr<Transport> (*open)(Net&, Windows&) = nullptr;
};

const TransportKind& transport_of(const PacketRules& rules);  // throws Unsupported for one that is not compiled in

struct RegisteredTransport {
    explicit RegisteredTransport(const TransportKind& kind);
};

template <class Of>
std::unique_ptr<Transport> open_transport(Net& net, Windows& windows) {
    return std::make_unique<Of>(net, windows);
}

// A setting of the transport; throws InternalError where there is none of this name.
double setting(const PacketRules& rules, std::string_view name);
std::int64_t whole_setting(const PacketRules& rules, std::string_view name);
const std::vector<double>& table(const PacketRules& rules, std::string_view name);

// For stalls: "link 3 from node 1 to node 2".
std::string name_of(const Net& net, std::uint32_t link);
// For stalls: links that wait for each other in a circle, in order, or all that wait where there is none. `next`: per link that waits the
// lowest one for which a packet at its end waits, or `itself`; `none` of links that do not wait.
inline constexpr std::uint32_t itself = none - 1;
std::vector<std::uint32_t> circle_of(const std::vector<std::uint32_t>& next);

}  // namespace astrarium::packets
