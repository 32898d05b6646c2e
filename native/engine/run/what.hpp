// The events of a native run, on its clock.
#pragma once
#include <cstdint>

namespace astrarium {

enum What : std::uint32_t {
    node_over,      // a = rank, b = node
    send_over,      // a = message: delivered at its destination
    receive_over,   // a = chunk state, low = first receive, b = last one: complete
    phase_started,  // a = chunk state: sends without needs may depart
    phase_over,     // a = chunk state: its last send is delivered, its last receive complete
    look,           // a = rank: issue ready nodes
    leave_in_turn,  // a = chunk state, low = first send, b = the one after the last: ask for their links
    leave_source,   // a = message: asks for its first port or link
    reach_adder,    // a = message: is at its switch, in full
    reach_next,     // a = message: asks for the in port, or for what comes next
    custom_over,    // a = rank's custom run, b = node
    measured_over,  // a = rank, b = node: a measured collective ends by an arrival
    medium_due      // a = what: the medium asked to be called
};

inline constexpr std::uint32_t nothing = 0xffffffffu;  // no rank, node, message or collective

}  // namespace astrarium
