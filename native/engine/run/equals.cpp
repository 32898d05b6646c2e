#include "run/equals.hpp"

namespace astrarium {

const Sends& Equals::sends(std::uint32_t group, const ChunkState& s) {
    const Phase& phase = s.now();
    const std::uint64_t family = quotient_.family(group == membership_.all() ? Quotient::all : group + 1, phase);
    if (sends_.size() <= family) sends_.resize(family + 1);
    auto& of_family = sends_[family];
    if (of_family.empty()) of_family.resize(quotient_.plan().ranks());
    const std::uint32_t mine = membership_.rank(group, s.position);
    Sends& sends = of_family[mine];
    if (!sends.aims.empty()) return sends;
    const Schedule& schedule = *phase.schedule;
    const auto first = static_cast<std::size_t>(schedule.send_ptr[s.program()]);
    for (std::size_t k = first; k < first + s.sends; ++k) {
        const auto to = static_cast<std::uint32_t>(s.base + peer_of(schedule, s.index, schedule.send_peer[k]) * phase.stride);
        sends.aims.push_back(find_aim(group, mine, phase, to, static_cast<std::uint32_t>(schedule.send_match[k])));
    }
    sends.together = find_trains(sends.aims, s, schedule);
    return sends;
}

Aim Equals::find_aim(std::uint32_t group, std::uint32_t mine, const Phase& phase, std::uint32_t to, std::uint32_t receive) {
    const std::uint32_t kind = group == membership_.all() ? Quotient::all : group + 1, other = quotient_.class_at(kind, mine, to);
    const Schedule& schedule = *phase.schedule;
    const std::uint32_t place = quotient_.place(kind, other);
    const int index = index_in(phase, place);
    const auto program = static_cast<std::size_t>(schedule.program[static_cast<std::size_t>(index)]);
    const auto r = static_cast<std::size_t>(schedule.recv_ptr[program]) + receive;
    const auto from =
        static_cast<std::uint32_t>(static_cast<int>(place) + (peer_of(schedule, index, schedule.recv_peer[r]) - index) * phase.stride);
    return {membership_.position(group, other), receive, quotient_.rank_at(kind, other, from),
            quotient_.flight(kind, mine, to, other, from)};
}

// Per send, how many messages leave with it: those released by the same receive, of one size, to equals of the sender through one
// switch, whose receives stand in the same order. No other send may wait for a part of them: they count as complete with the last.
std::vector<std::uint32_t> Equals::find_trains(const std::vector<Aim>& aims, const ChunkState& s, const Schedule& schedule) {
    std::vector<std::uint32_t> together(s.sends, 1);
    if (send_order_.of(schedule)) return together;
    const auto program = static_cast<std::size_t>(schedule.program[static_cast<std::size_t>(s.index)]);
    const auto send = static_cast<std::size_t>(schedule.send_ptr[program]), receive = static_cast<std::size_t>(schedule.recv_ptr[program]);
    const auto needs = [&](std::uint32_t k) { return schedule.send_needs[send + k]; };
    const auto match = [&](std::uint32_t k) { return schedule.send_match[send + k]; };
    const auto blocks = [&](std::uint32_t k) { return schedule.send_block_ptr[send + k + 1] - schedule.send_block_ptr[send + k]; };
    const auto reduces = [&](std::uint32_t k) { return schedule.recv_reduce[receive + static_cast<std::size_t>(match(k))]; };
    const auto same_switch = [&](std::uint32_t k, std::uint32_t other) {
        const auto dim = ports_.only_switch(aims[k].flight);
        return aims[k].position == s.position && dim && ports_.only_switch(aims[other].flight) == dim;
    };
    const auto follows = [&](std::uint32_t k) {
        return same_switch(k, k - 1) && same_switch(k - 1, k) && needs(k) == needs(k - 1) && match(k) == match(k - 1) + 1 &&
               blocks(k) == blocks(k - 1) && reduces(k) == reduces(k - 1);
    };
    for (std::uint32_t begin = 0, end = 0; begin < s.sends; begin = end) {
        for (end = begin + 1; end < s.sends && follows(end); ++end) {}
        bool whole = true;
        for (std::uint32_t k = 0; k < s.sends && end > begin + 1; ++k)
            whole = whole && (needs(k) <= match(begin) || needs(k) > match(end - 1));
        if (whole) together[begin] = end - begin;
    }
    return together;
}

}  // namespace astrarium
