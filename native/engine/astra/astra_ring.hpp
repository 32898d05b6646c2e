// ASTRA-sim's ring and direct collectives as token machines. A token is a packet that may be sent: tokens go in at the start and
// for every received message, become usable when they have crossed the door, and then send one message to the next peer and post
// the matching receive.
#pragma once
#include <algorithm>
#include <cstdint>

#include "astra/astra_chunks.hpp"
#include "astra/astra_door.hpp"
#include "astra/astra_stream.hpp"
#include "astra/astra_streams.hpp"
#include "astra/astra_ties.hpp"
#include "clock/clock.hpp"

namespace astrarium {

class RingMachine {
public:
    // `skips`: nothing but time comes of a step, so those of the only stream that runs are made at once.
    RingMachine(Clock& clock, Door& door, ChunkMail& mail, const Queues& queues, Ties& ties, bool skips)
        : clock_(clock), door_(door), mail_(mail), queues_(queues), ties_(ties), skips_(skips) {}

    void enter(Stream& s) const;
    void start(Stream& s) {
        for (int i = 0; i < s.tokens.parallel; ++i) insert(s);
    }

    void received(Stream& s) {
        ++s.tokens.received;
        ties_.found |= s.last_wait == clock_.now;
        s.last_received = clock_.now;
        if (skips_ && s.phase->algorithm == Algorithm::ring && queues_.running() == 1) make_steps(s);
        insert(s);
    }

    // A token is usable. True: the phase has ended.
    bool crossed(Stream& s) {
        ++s.tokens.free;
        if (s.phase->algorithm == Algorithm::direct && s.phase->op == op_all_reduce && s.tokens.sends_left <= s.n - 1)
            return crossed_to_gather(s);
        send(s);
        return s.tokens.ended();
    }

private:
    void insert(Stream& s) {
        const Packet packet = s.tokens.next(s.phase->op);
        door_.cross(s, packet.first, packet.reduces, packet.sends_back, s.message);
    }

    void send(Stream& s) {
        if (!s.tokens.can_send()) return;
        const int number = s.tokens.popped;
        s.tokens.use();
        if (s.phase->algorithm == Algorithm::ring) {
            mail_.send(s, s.ahead(1), 0, s.message);
            mail_.receive(s, s.ahead(-1), 0, s.message);
            return;
        }
        const int distance = number % (s.n - 1) + 1;
        const std::uint32_t to = s.ahead(distance), from = s.ahead(-distance);
        mail_.send(s, to, static_cast<std::uint32_t>(s.wrapped(s.index - static_cast<int>(to))), s.message);
        mail_.receive(s, from, static_cast<std::uint32_t>(s.wrapped(static_cast<int>(from) - s.index)), s.message);
    }

    bool crossed_to_gather(Stream& s);
    void make_steps(Stream& s);

    Clock& clock_;
    Door& door_;
    ChunkMail& mail_;
    const Queues& queues_;
    Ties& ties_;
    const bool skips_;
};

}  // namespace astrarium
