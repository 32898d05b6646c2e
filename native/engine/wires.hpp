// Native networks. closed_form: an NPU's ports of each dim, in and out, carry one message at a time. contention: every
// link of a dimension-ordered route does, and whole messages are stored and forwarded.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "distance.hpp"
#include "plan.hpp"
#include "run.hpp"
#include "usage.hpp"

namespace astrarium {

class Image;

// A message on its way; `link` is where it is in its route (contention) and `head` when it may ask (closed_form).
struct Flight {
    std::int32_t source = 0, destination = 0;  // NPUs
    std::int32_t at = 0;
    std::int32_t dim = 0;
    bool at_switch = false;
    std::int64_t size = 0;
    Tick tail = 0;  // contention, cut through: when its last byte is where its head is
};

class Wires {
public:
    Wires(const Plan& plan, bool record, bool alone = false, const Image* image = nullptr);

    // When the message's head asks for its in port (ports), or the message reaches the next device (links).
    Tick depart(Flight& flight, Tick now);
    // Ports: when it is delivered. Links: when it reaches the next device; `there` says whether that is its destination.
    bool arrived(const Flight& flight) const {
        if (plan_.network.backend != Backend::ports) return flight.at == flight.destination;
        for (std::size_t d = 0; lines_ && d < plan_.network.dims.size(); ++d)
            if (on_the_way(flight, d)) return false;
        return true;
    }
    struct Order {  // of what comes to a port in one instant
        std::uint64_t high, low;
        std::uint32_t slot;  // of the receive, of a message between nodes
        bool operator==(const Order& other) const { return high == other.high && low == other.low; }
    };
    Tick deliver(const Flight& flight, Tick now, const Order& order = {0, 0, 0});  // ports only
    // One rank per class: equal messages that leave a switch's port in one go and come to that of an equal, one after the other. Until
    // another message comes, or the last of them, the port takes them in without an event for each.
    struct Train {
        Tick next, step;  // when the next one's head asks for the in port, and the one after it
        std::uint32_t left;
        Order order;  // of the next; the one after it has the next `low`
    };
    std::optional<std::size_t> only_switch(const Flight& flight);  // the dim, if a message crosses that one and no other
    // All but the last are on their way then; when the heads of the first and the last ask. `arriving`: as equals' messages come.
    Span depart_together(const Flight& leaving, const Flight& arriving, std::uint32_t messages, Tick now, const Order& first);
    // All links of a message's way in `contention` and `fluid`, in order.
    struct Link {
        std::size_t dim, number;
        bool down;  // out of a switch
    };
    void route(const Flight& flight, std::vector<Link>& out) const;
    void charge(const Link& link, std::int64_t size, Tick busy) { charge(link.number, link.down, size, busy); }
    void report(Outcome& out);
    Usage& usage() { return usage_; }

    // One rank per class: when the last port of a class in a dim is free, and what a measured collective loads.
    Tick out_until(std::size_t cls, std::size_t dim) const;
    Tick in_until(std::size_t cls, std::size_t dim) const;
    void carry(std::size_t cls, const Load& load);

    // Trains on their way: visit(in port, train).
    template <class Visit>
    void each_train(Visit&& visit) const {
        for (std::size_t port = 0; port < trains_.size(); ++port)
            for (const Train& train : trains_[port]) visit(port, train);
    }

    // The dims that the message of the last depart or deliver crosses; on meshes one at a time.
    template <class Visit>
    void each_dim(Visit&& visit) const {
        for (const Way& way : ways_) visit(way.dim);
    }

    // When each port is free: out, then in.
    template <class Visit>
    void each_port(Visit&& visit) const {
        for (const Tick t : out_free_) visit(t);
        for (const Tick t : in_free_) visit(t);
    }

    // The message that an equal of the source sends to the source, where all NPUs stand alike.
    Flight image(const Flight& flight) const;
    bool passes(const Flight& flight) const;  // whether it loads links of NPUs between
    // A message by itself on an idle network (ports): when the out ports are free, the head arrives, it is delivered.
    struct Transit {
        Tick held, head, delivered;
    };
    Transit transit(const Flight& flight, std::vector<Load>& out, std::vector<Load>& in);  // and what the ports carry
    std::vector<Load> loads() const;  // of the one NPU, alone
    Tick quiet() const { return quiet_; }
    // What a run changes, to keep and to put back.
    auto state() { return std::tie(quiet_, asks_, out_free_, in_free_, trains_, bytes_, busy_, usage_); }
    // Keep, and tell, when the ports of an NPU (one rank per class: of a class; alone: of the one) are used, by dim.
    void keep_uses();
    std::vector<PortUse> uses(std::size_t npu) const;
    // One rank per class: the messages of its order that came to a port just before the last delivered one, in the same instant.
    const std::vector<Order>& ties() const { return ties_; }

private:
    struct Way {  // one dim of a message
        std::size_t dim = 0;
        std::size_t out = 0, in = 0;
        Tick latency = 0;
        int charged = 1, which = 0;
    };
    struct Known {  // the ways of a message
        std::int32_t source = -1, destination = -1;
        std::size_t count = 0;
        std::array<Way, 4> ways;
    };
    bool on_the_way(const Flight& f, std::size_t dim) const {  // along a mesh
        return plan_.network.dims[dim].shape == Shape::mesh && geometry_.coordinate(f.at, dim) != geometry_.coordinate(f.destination, dim);
    }
    void leave_one_mesh();
    Tick pass(Flight& flight, Tick now);
    void ways(const Flight& flight);
    void find_ways(const Flight& flight);
    std::size_t port(std::size_t dim, int npu, int which) const;
    std::size_t ports_per_npu(const Dim& dim) const;
    Tick next_link(Flight& flight, Tick now);
    void meet(Tick now, Tick serial, const Order& order);
    void take_in(std::size_t port, Tick now, const Order& order);
    static std::uint32_t come(const Train& train, Tick now, const Order& order);
    void charge(std::size_t link, bool inward, std::int64_t size, Tick busy);

    const Plan& plan_;
    const Image* image_;
    bool record_, alone_, lines_ = false;  // lines_: there is a mesh
    Tick quiet_ = 0;
    std::vector<Order> ties_;
    struct Ask {
        Tick time = -1;
        Order order{0, 0, 0};
        bool held = false;
    };
    std::vector<Ask> asks_;       // one rank per class, per in port: of its last instant
    Geometry geometry_;
    std::vector<std::size_t> base_;  // per dim: its first port
    std::vector<Tick> out_free_, in_free_;
    std::vector<std::vector<Train>> trains_;  // one rank per class: by in port, as they come
    std::vector<std::int64_t> bytes_;
    std::vector<Tick> busy_;
    std::vector<PortUse> uses_;           // per NPU and dim, where kept
    PortUse& use(std::int32_t npu, std::size_t dim) {
        return uses_[static_cast<std::size_t>(alone_ ? 0 : image_ ? slot_of(npu) : npu) * plan_.network.dims.size() + dim];
    }
    std::int32_t slot_of(std::int32_t npu) const;
    Usage usage_;
    struct Serial {  // how long a message takes through a link of a dim
        std::int64_t size = -1;
        Tick time = 0;
    };
    std::vector<Serial> serial_;  // per dim: of the size that was asked for last
    Tick through(std::size_t dim, std::int64_t size) {
        Serial& last = serial_[dim];
        if (last.size != size) last = {size, ticks(static_cast<double>(size) / plan_.network.dims[dim].bandwidth, false)};
        return last.time;
    }
    std::span<const Way> ways_;  // of the message that was looked at last
    std::vector<Way> found_;
    std::vector<Known> known_;
    std::map<std::pair<std::size_t, bool>, Load> alone_loads_;
    Load named(std::size_t port, bool inward) const;
};

}  // namespace astrarium
