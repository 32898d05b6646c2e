#include "run/equals.hpp"

namespace astrarium {

const Aims& Equals::aims(std::uint32_t group, const ChunkState& s) {
    const Phase& phase = s.now();
    const std::uint64_t family = quotient_.family(group == membership_.all() ? Quotient::all : group + 1, phase);
    if (aims_.size() <= family) aims_.resize(family + 1);
    auto& of_family = aims_[family];
    if (of_family.empty()) of_family.resize(quotient_.plan().ranks());
    const std::uint32_t mine = membership_.rank(group, s.position);
    Aims& aims = of_family[mine];
    if (!aims.empty()) return aims;
    const Schedule& schedule = *phase.schedule;
    const auto first = static_cast<std::size_t>(schedule.send_ptr[s.program()]);
    for (std::size_t k = first; k < first + s.sends; ++k) {
        const auto to = static_cast<std::uint32_t>(s.base + peer_of(schedule, s.index, schedule.send_peer[k]) * phase.stride);
        aims.push_back(find_aim(group, mine, phase, to, static_cast<std::uint32_t>(schedule.send_match[k])));
    }
    return aims;
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

}  // namespace astrarium
