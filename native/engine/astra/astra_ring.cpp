#include "astra/astra_ring.hpp"

namespace astrarium {

void RingMachine::enter(Stream& s) const {
    const Phase& phase = *s.phase;
    Tokens& tokens = s.tokens;
    const int n = phase.n;
    s.message = phase.op == op_all_gather ? phase.size : phase.size / n;
    tokens.sends_left = phase.op == op_all_reduce ? 2 * (n - 1) : n - 1;
    if (phase.algorithm == Algorithm::direct) tokens.parallel = phase.window == -1 ? n - 1 : std::min(phase.window, n - 1);
    else if (phase.op == op_all_to_all) tokens.sends_left = (n - 1) * n / 2;
    tokens.round = phase.algorithm == Algorithm::ring || phase.local ? (n - 1) * tokens.parallel : tokens.parallel;
    s.reduce_delay = door_.reduction(s, s.message);
}

// The second half of a direct all_reduce begins when all messages of the first one have come.
bool RingMachine::crossed_to_gather(Stream& s) {
    ties_.found |= s.last_received == clock_.now;
    s.last_wait = clock_.now;
    if (s.tokens.received < s.n - 1) return false;
    for (int i = 0; i < s.tokens.parallel; ++i) send(s);
    return s.tokens.ended();
}

// While one stream is all that moves, nothing comes between the steps of its ring and all of them but the last are made at
// once: a packet's way through the member (with one more event where its reduction takes time), then one to the neighbour.
void RingMachine::make_steps(Stream& s) {
    Tokens tokens = s.tokens;  // and `now`: in registers
    Tick now = clock_.now;
    const Tick crosses = door_.delay(s);
    for (; tokens.sends_left > 0; --tokens.sends_left, ++tokens.popped, ++tokens.received) {
        if ((tokens.sends_left & 0xfffff) == 0) stop_if_interrupted();
        const Tick reduces = tokens.next(s.phase->op).reduces ? s.reduce_delay : 0;
        now = add(add(now, add(crosses, reduces)), s.delay);
        clock_.handled += reduces > 0 ? 3 : 2;
    }
    clock_.now = now;
    s.tokens = tokens;
}

}  // namespace astrarium
