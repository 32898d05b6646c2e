// One rank per class: where the messages of a class's sends go and from where they come, and which leave as trains. A phase in which
// every participant sends to every other through a switch has n - 1 equal messages that leave one port in one go and come to that of an
// equal one after the other: one event in place of n - 1.
#pragma once
#include <vector>

#include "fold/quotient/quotient.hpp"
#include "nodes/groups.hpp"
#include "run/instance.hpp"
#include "run/messages.hpp"
#include "run/send_order.hpp"

namespace astrarium {

class Equals {
public:
    Equals(Quotient& quotient, Membership& membership, Ports& ports, const SendOrders& send_order)
        : quotient_(quotient), membership_(membership), ports_(ports), send_order_(send_order) {}
    // Of the class at a member's chunk, in its phase: the same for all chunks, and for all collectives of the family.
    const Sends& sends(std::uint32_t group, const ChunkState& s);
    // Of a message from there: its state and receive, its flight, and from which rank it arrives. `chunks` of the collective.
    static void aim(Message& message, const Aim& aim, std::uint32_t chunks) {
        message.state += aim.position * chunks, message.receive = aim.receive;
        message.flight = aim.flight, message.source = aim.source;
    }

private:
    Aim find_aim(std::uint32_t group, std::uint32_t mine, const Phase& phase, std::uint32_t to, std::uint32_t receive);
    std::vector<std::uint32_t> find_trains(const std::vector<Aim>& aims, const ChunkState& s, const Schedule& schedule);

    Quotient& quotient_;
    Membership& membership_;
    Ports& ports_;
    const SendOrders& send_order_;
    std::vector<std::vector<Sends>> sends_;  // by family and class
};

}  // namespace astrarium
