// Native rule book, one rank per class: trains. A phase in which every participant sends to every other through a switch has n - 1
// equal messages that leave one port in one go and come to that of an equal one after the other: one event in place of n - 1.
#include "run/native.hpp"

namespace astrarium {

// Per send, how many messages leave with it: those released by the same receive, of one size, to equals of the sender through one
// switch, whose receives stand in the same order. No other send may wait for a part of them: they count as complete with the last.
std::vector<std::uint32_t> Native::find_trains(const std::vector<Aim>& aims, const ChunkState& s, const Schedule& schedule) {
    std::vector<std::uint32_t> together(s.sends, 1);
    if (send_order_.of(schedule)) return together;
    const auto program = static_cast<std::size_t>(schedule.program[static_cast<std::size_t>(s.index)]);
    const auto send = static_cast<std::size_t>(schedule.send_ptr[program]), receive = static_cast<std::size_t>(schedule.recv_ptr[program]);
    const auto needs = [&](std::uint32_t k) { return schedule.send_needs[send + k]; };
    const auto match = [&](std::uint32_t k) { return schedule.send_match[send + k]; };
    const auto blocks = [&](std::uint32_t k) { return schedule.send_block_ptr[send + k + 1] - schedule.send_block_ptr[send + k]; };
    const auto reduces = [&](std::uint32_t k) { return schedule.recv_reduce[receive + static_cast<std::size_t>(match(k))]; };
    const auto same_switch = [&](std::uint32_t k, std::uint32_t other) {
        const auto dim = ports_->only_switch(aims[k].flight);
        return aims[k].position == s.position && dim && ports_->only_switch(aims[other].flight) == dim;
    };
    const auto follows = [&](std::uint32_t k) {
        return same_switch(k, k - 1) && same_switch(k - 1, k) && needs(k) == needs(k - 1) && match(k) == match(k - 1) + 1 &&
               blocks(k) == blocks(k - 1) && reduces(k) == reduces(k - 1);
    };
    for (std::uint32_t begin = 0, end = 0; begin < s.sends; begin = end) {
        for (end = begin + 1; end < s.sends && follows(end); ++end) {
        }
        bool whole = true;
        for (std::uint32_t k = 0; k < s.sends && end > begin + 1; ++k) whole = whole && (needs(k) <= match(begin) || needs(k) > match(end - 1));
        if (whole) together[begin] = end - begin;
    }
    return together;
}

// The message is the last of a train. Timed collectives that use the in port when the first one comes have met it.
Tick Native::depart_together(std::uint32_t id) {
    const Message& m = messages_[id];
    const Keyed last = arrives(id);
    const Span heads = ports_->depart_together(m.flight, m.together, clock_.now, {last.high, last.low + 1 - m.together, 0});
    auto& held = in_held_[static_cast<std::size_t>(quotient_->slot_of(m.flight.source))];
    ports_->each_dim([&](std::size_t d) {
        if (held[d].until > heads.from) meet(held[d]);
    });
    return heads.until;
}

}  // namespace astrarium
