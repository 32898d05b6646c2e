#include "run/instance.hpp"

#include "media/distance.hpp"

namespace astrarium {
namespace {

std::uint32_t count(const View<std::int32_t>& ptr, std::size_t program) {
    return static_cast<std::uint32_t>(ptr[program + 1] - ptr[program]);
}

}  // namespace

void Instance::lay_chunks_of(std::uint32_t id, const Collective& c, std::uint32_t position, std::uint32_t place, std::size_t& bits) {
    const auto count_of = static_cast<std::uint32_t>(c.total_chunks);
    auto kind = c.chunks.begin();
    int alike = 0;  // chunks of this kind so far
    for (std::uint32_t k = 0; k < count_of; ++k) {
        ChunkState& s = chunks[static_cast<std::size_t>(position) * count_of + k];
        if (alike++ == kind->repeat) ++kind, alike = 1;
        s.instance = id, s.position = position, s.chunk = k, s.phases = &kind->phases;
        for (const Phase& phase : kind->phases) {
            bit_base.push_back(bits);
            bits += count(phase.schedule->recv_ptr,
                          static_cast<std::size_t>(phase.schedule->program[static_cast<std::size_t>(index_in(phase, place))]));
        }
        for (std::size_t rest = kind->phases.size(); rest < static_cast<std::size_t>(c.max_phases); ++rest) bit_base.push_back(bits);
    }
}

// Switches are in their phase from the beginning.
void Instance::lay_switches(const Collective& c, std::size_t& bits) {
    const auto phases = static_cast<std::size_t>(c.max_phases);
    first_switch.assign(static_cast<std::size_t>(c.total_chunks) * phases, 0);
    for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(c.total_chunks); ++k)
        for (std::uint32_t f = 0; f < chunks[k].phases->size(); ++f) {
            const Phase& phase = (*chunks[k].phases)[f];
            first_switch[k * phases + f] = static_cast<std::uint32_t>(chunks.size());
            for (std::uint32_t p = 0; p < members.size() && phase.switches() > 0; ++p) {
                if (index_in(phase, p) != 0) continue;
                for (int place = phase.n; place < phase.n + phase.switches(); ++place) {
                    ChunkState s = chunks[k];
                    s.position = p;
                    s.enter_at(f, place, static_cast<std::int32_t>(p), bits);
                    bits += s.receives;
                    chunks.push_back(s);
                }
            }
        }
}

void ChunkState::enter(std::uint32_t phase_number, std::uint32_t place, std::size_t first_bit) {
    const Phase& entered = (*phases)[phase_number];
    const int at = index_in(entered, place);
    enter_at(phase_number, at, static_cast<int>(place) - at * entered.stride, first_bit);
}

void ChunkState::enter_at(std::uint32_t phase_number, std::int32_t at, std::int32_t first, std::size_t first_bit) {
    phase = static_cast<std::int32_t>(phase_number), inside = true;
    index = at, base = first;
    const Schedule& schedule = *now().schedule;
    sends = count(schedule.send_ptr, program()), receives = count(schedule.recv_ptr, program());
    next_send = prefix = complete = 0, over = 0, known = nullptr;
    undelivered = sends;
    bits = first_bit;
}

bool ChunkState::starts() const {
    const Schedule& schedule = *now().schedule;
    const auto first = static_cast<std::size_t>(schedule.send_ptr[program()]);
    for (std::uint32_t k = 0; k < sends; ++k)
        if (schedule.send_needs[first + k] == 0) return true;
    return false;
}

}  // namespace astrarium
