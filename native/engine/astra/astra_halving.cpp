#include "astra/astra_halving.hpp"

#include <string>

namespace astrarium {

void HalvingMachine::enter(Stream& s) const {
    const Phase& phase = *s.phase;
    const int n = phase.n, bits = std::bit_width(static_cast<unsigned>(n)) - 1;
    if (n != 1 << bits)
        throw Unsupported("halving_doubling over " + std::to_string(n) + " NPUs: ASTRA-sim's needs a power of two (it hangs otherwise)");
    s.tokens.sends_left = phase.op == op_all_reduce ? 2 * bits : bits;
    s.tokens.round = bits - 1;
    s.halving = phase.op != op_all_gather;
    s.distance = s.halving ? 1 : n / 2;
    s.message = s.halving ? phase.size / 2 : phase.size;
}

void HalvingMachine::insert(Stream& s) {
    const Packet packet = s.tokens.next(s.phase->op);
    s.packet_size = s.message;
    s.packet_step = s.halving ? s.distance : -s.distance;  // the way back meets the same partners with other sizes
    s.reduce_delay = door_.reduction(s, s.message);
    s.distance = s.halving ? s.distance * 2 : s.distance / 2;
    s.message = s.halving ? s.message / 2 : s.message * 2;
    if (s.distance == s.n && s.phase->op == op_all_reduce) {
        s.halving = false;
        s.distance /= 2;
        s.message *= 2;
    }
    door_.cross(s, packet.first, packet.reduces, packet.sends_back, s.packet_size);
}

}  // namespace astrarium
