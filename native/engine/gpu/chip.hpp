// What packets pass on one GPU: routers, channels of memory, ports. Stations are FIFO servers, asked when the packet is there; ports that
// take turns between control and data ask an arbiter at the end of each service.
#pragma once
#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "gpu/arbiter.hpp"
#include "gpu/boxes.hpp"
#include "gpu/instructions.hpp"
#include "gpu/launch.hpp"

namespace astrarium::gpu {

// The channel and the port of a line, and of how many lines from it on.
struct Way {
    std::uint16_t channel, port;
    std::uint32_t lines;
};

class Chip {
public:
    Chip(const Launch& launch, Queue& queue, Instructions& flights);

    Tick now = 0;
    Boxes boxes;
    std::vector<std::int64_t> channel_requests, hbm_requests, port_packets;
    std::vector<std::vector<Tick>> port_busy;  // recorded, by port and bin

    std::vector<std::uint16_t> unit_of;  // of workgroups
    Way way(std::uint32_t line, std::uint32_t peer) const;
    // A request of this GPU, which has its channel and port, leaves a unit at event.time.
    void leaves(Event& event, std::uint32_t unit, std::uint32_t peer);
    // Events of the stages channel, out, in, unit and hop.
    void channel(Event event);
    void out(Event event);
    void into(Event event);
    void unit(const Event& event);
    void hop(Event event);
    // Ports that take turns: all packets that they take before `end`, once all packets of the window before it have come; how many.
    std::uint64_t take_turns(Tick end);
    Tick next_turn = never;  // when the next one of these takes a packet

    std::uint32_t count(std::uint32_t semaphore) const { return counts_[semaphore]; }
    // Loads that wait for a flagged line: visit(event).
    template <class Visit>
    void each_reader(Visit&& visit) const {
        for (const auto& [line, readers] : readers_)
            for (const Event& reader : readers) visit(reader);
    }

private:
    struct Spot {
        int row, column;
    };
    const Launch& launch_;
    const Machine& m_;
    Queue& queue_;
    Instructions& flights_;
    std::vector<Tick> l2_, hbm_, outward_, inward_, unit_in_, credits_;
    std::vector<std::uint32_t> credit_at_;
    std::vector<std::uint16_t> unit_port_;                           // of units: the first one of their port, whose way in they share
    std::vector<Arbiter> arbiters_;                                  // of ports out, then of ports in; none: first come, first served
    std::uint64_t turns_ = 0;                                        // packets taken since they were last counted
    std::vector<Spot> spots_;                                        // of routers
    std::vector<std::array<Tick, 4>> links_;                         // of routers: east, west, south, north
    std::vector<bool> landed_;                                       // flagged lines that were stored
    std::unordered_map<std::uint32_t, std::vector<Event>> readers_;  // of flagged lines that were not
    std::unordered_map<std::uint64_t, std::uint32_t> joins_;         // answers to requests to all GPUs, by key
    std::vector<std::uint32_t> counts_;
    std::vector<std::vector<Event>> polls_;
    std::uint32_t port_group_;  // ports per peer
    std::uint32_t computes_;    // units before the copy engines
    Tick hbm_store_;            // HBM's service of a stored line
    Tick write_back_;           // by which HBM may be behind L2 with stores
    bool multimem_ = false;     // a place is one of all GPUs

    // First port to the GPU at a distance: all ports lead to a switch.
    std::uint32_t first_port(std::uint32_t distance) const { return m_.switched ? 0 : (distance - 1) * port_group_; }
    std::uint16_t goal(const Event& event, Stage stage) const;
    void travel(Event& event, std::uint16_t here, Stage stage);
    void reached(Event& event, Stage stage);
    void access(Event event);
    bool joined(const Event& event);
    Tick& credit(std::uint32_t port) { return credits_[port * static_cast<std::size_t>(m_.credits) + credit_at_[port]]; }
    void sent(Event event);
    void entered(Event event);
    void waits(std::size_t station, const Event& event);
    Tick turn(std::size_t station);
    void serve(std::size_t station, Tick end);
    void landed(std::uint32_t line);
    void used(std::uint32_t port, Tick start, Tick service);
    void signalled(std::uint32_t semaphore);
};

}  // namespace astrarium::gpu
