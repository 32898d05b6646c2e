// One rank per class: where the messages of a class's sends go, and from where they come.
#pragma once
#include <vector>

#include "fold/quotient/quotient.hpp"
#include "nodes/groups.hpp"
#include "run/instance.hpp"
#include "run/messages.hpp"

namespace astrarium {

class Equals {
public:
    Equals(Quotient& quotient, Membership& membership) : quotient_(quotient), membership_(membership) {}
    // Of the class at a member's chunk, in its phase: the same for all chunks, and for all collectives of the family.
    const Aims& aims(std::uint32_t group, const ChunkState& s);
    // Of a message from there: its state and receive, its flight, and from which rank it arrives. `chunks` of the collective.
    static void aim(Message& message, const Aim& aim, std::uint32_t chunks) {
        message.state += aim.position * chunks, message.receive = aim.receive;
        message.flight = aim.flight, message.source = aim.source;
    }

private:
    Aim find_aim(std::uint32_t group, std::uint32_t mine, const Phase& phase, std::uint32_t to, std::uint32_t receive);

    Quotient& quotient_;
    Membership& membership_;
    std::vector<std::vector<Aims>> aims_;  // by family and class
};

}  // namespace astrarium
