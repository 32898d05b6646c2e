// closed_form: an NPU's ports of each dim, in and out, carry one message at a time. Out ports at the source, then the head travels,
// then in ports at the destination. The run calls this medium directly: it takes most of the time of most runs.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "plan/run.hpp"
#include "media/link_holds.hpp"
#include "media/medium.hpp"
#include "media/traffic.hpp"

namespace astrarium {

class Ports final {
public:
    Ports(const Plan& plan, PortRows rows, bool record);

    // When the message's head asks for its in port.
    Tick depart(Flight& flight, Tick now);
    bool arrived(const Flight& flight) const {
        if (to_or_from_switch(flight)) return true;
        for (std::size_t d = 0; lines_ && d < plan_.network.dims.size(); ++d)
            if (on_the_way(flight, d)) return false;
        return true;
    }
    struct Order {  // of what comes to a port in one instant
        std::uint64_t high, low;
        std::uint32_t slot;  // of the receive, of a message between nodes
        bool operator==(const Order& other) const { return high == other.high && low == other.low; }
    };
    Tick deliver(const Flight& flight, Tick now, const Order& order = {0, 0, 0});  // when it is delivered
    // One rank per class: equal messages that leave a switch's port in one go and come to that of an equal, one after the other. Until
    // another message comes, or the last of them, the port takes them in without an event for each.
    struct Train {
        Tick next, step;  // when the next one's head asks for the in port, and the one after it
        std::uint32_t left;
        Order order;  // of the next; the one after it has the next `low`
    };
    // All but the last are on their way then; when the head of the last asks for its in port.
    Tick depart_together(const Flight& flight, std::uint32_t messages, Tick now, const Order& first);
    // visit(in port, train) for those on their way.
    template <class Visit>
    void each_train(Visit&& visit) const {
        for (std::size_t port = 0; port < trains_.size(); ++port)
            for (const Train& train : trains_[port]) visit(port, train);
    }
    Traffic traffic;
    // From now on it tells which ports messages ask for; in ports come after the others. One rank per class: as `class_ports`.
    void watch(LinkHolds& holds) { holds_ = &holds; }
    // All ports of a class in a dim, out or in, as one.
    std::size_t class_ports(std::size_t cls, std::size_t dim, bool inward) const {
        return ((inward ? traffic.rows.rows : 0) + cls) * plan_.network.dims.size() + dim;
    }

    // One rank per class: what a measured collective loads.
    void carry(std::size_t cls, const Load& load);

    std::vector<Tick> free_times() const {
        std::vector<Tick> out = out_free_;
        out.insert(out.end(), in_free_.begin(), in_free_.end());
        return out;
    }

    bool passes(const Flight& flight) const;  // whether it loads links of NPUs between
    Tick quiet() const { return quiet_; }
    // What a run changes, to keep and to put back.
    auto state() { return std::tuple_cat(std::tie(quiet_, asks_, out_free_, in_free_, trains_), traffic.state()); }
    // Keep, and tell, when the ports of an NPU (one rank per class: of a class; alone: of the one) are used, by dim.
    void keep_uses();
    void keep_out(std::int32_t npu, std::size_t dim, Tick from, Tick until) {
        if (!uses_.empty()) use(npu, dim).out.add(from, until);
    }
    std::vector<PortUse> uses(std::size_t npu) const;
    // One rank per class: the messages of its order that came to a port just before the last delivered one, in the same instant.
    const std::vector<Order>& ties() const { return ties_; }

private:
    struct Way {  // one dim of a message
        std::size_t dim = 0;
        std::size_t out = 0, in = 0;
        Tick latency = 0;
        int charged = 1, which = 0;
        double leaves = 0, slower = 0;  // beside memories at switches: bandwidth of the way out, and of the slower of both ends
    };
    struct Known {  // the ways of a message
        std::int32_t source = -1, destination = -1;
        std::size_t count = 0;
        std::array<Way, 4> ways;
    };
    bool on_the_way(const Flight& f, std::size_t dim) const {  // along a mesh
        return plan_.network.dims[dim].shape == Shape::mesh && geometry_.coordinate(f.at, dim) != geometry_.coordinate(f.destination, dim);
    }
    bool to_or_from_switch(const Flight& f) const { return geometry_.is_switch(f.source) || geometry_.is_switch(f.destination); }
    Tick leave_for_switch(const Flight& flight, Tick now);
    Tick come_to_switch(const Flight& flight, Tick now);
    void leave_one_mesh();
    Tick pass(Flight& flight, Tick now);
    void ways(std::int32_t source, std::int32_t destination);
    void find_ways(std::int32_t source, std::int32_t destination);
    void meet(Tick now, Tick serial, const Order& order);
    void take_in(std::size_t port, Tick now, const Order& order);
    static std::uint32_t come(const Train& train, Tick now, const Order& order);
    std::size_t held_as(std::size_t port, std::int32_t npu, std::size_t dim, bool inward) const {
        if (folded_) return class_ports(static_cast<std::size_t>(traffic.rows.row(npu)), dim, inward);
        return inward ? port + traffic.ports() : port;
    }

    const Plan& plan_;
    bool folded_, lines_ = false;  // one rank per class; there is a mesh
    Tick quiet_ = 0;
    LinkHolds* holds_ = nullptr;
    std::vector<Order> ties_;
    struct Ask {
        Tick time = -1;
        Order order{0, 0, 0};
        bool held = false;
    };
    std::vector<Ask> asks_;  // one rank per class, per in port: of its last instant
    Geometry geometry_;
    std::vector<Tick> out_free_, in_free_;
    std::vector<std::vector<Train>> trains_;  // one rank per class: by in port, as they come
    std::vector<PortUse> uses_;               // per NPU and dim, where kept
    PortUse& use(std::int32_t npu, std::size_t dim) {
        return uses_[static_cast<std::size_t>(traffic.rows.row(npu)) * plan_.network.dims.size() + dim];
    }
    struct Serial {  // how long a message takes through a link of a dim
        std::int64_t size = -1;
        Tick time = 0;
    };
    std::vector<Serial> serial_;  // per dim: of the size that was asked for last
    Tick through(const Way& way, std::int64_t size, double bandwidth) {
        if (bandwidth > 0) return ticks(static_cast<double>(size) / bandwidth, false);
        Serial& last = serial_[way.dim];
        if (last.size != size) last = {size, ticks(static_cast<double>(size) / plan_.network.dims[way.dim].bandwidth, false)};
        return last.time;
    }
    std::span<const Way> ways_;  // of the message that was looked at last
    std::vector<Way> found_;
    std::vector<Known> known_;
};

}  // namespace astrarium
