// ASTRA-sim's halving_doubling: partners 1, 2, 4 ... away, halving the message, then back again with one token (see RingMachine).
#pragma once
#include <bit>
#include <cstdint>
#include <cstdlib>

#include "astra/astra_chunks.hpp"
#include "astra/astra_door.hpp"
#include "astra/astra_stream.hpp"

namespace astrarium {

class HalvingMachine {
public:
    HalvingMachine(Door& door, ChunkMail& mail) : door_(door), mail_(mail) {}

    void enter(Stream& s) const;  // throws Unsupported where ASTRA-sim would hang
    void start(Stream& s) { insert(s); }
    void received(Stream& s) { insert(s); }

    // True: the phase has ended.
    bool crossed(Stream& s) {
        ++s.tokens.free;
        if (s.tokens.can_send()) {
            s.tokens.use();
            const int distance = std::abs(s.packet_step);
            const int to = s.index / distance % 2 == 0 ? s.index + distance : s.index - distance;
            const auto peer = static_cast<std::uint32_t>(s.wrapped(to));
            const int step = std::bit_width(static_cast<unsigned>(distance)) - 1;
            const auto bit = static_cast<std::uint32_t>(s.packet_step < 0 ? step + 16 : step);
            mail_.send(s, peer, bit, s.packet_size);
            mail_.receive(s, peer, bit, s.packet_size);
        }
        return s.tokens.ended();
    }

private:
    void insert(Stream& s);

    Door& door_;
    ChunkMail& mail_;
};

}  // namespace astrarium
