// Phases in which the order of messages does not matter: between fully connected NPUs each message has a port of its own, and a send
// waits for all messages of the stage before.
#include <algorithm>

#include "fold/quotient/quotient.hpp"

namespace astrarium {
namespace {

// Receives by stage: sends of a stage need all receives of the stages before, and meet equal receives, one of each peer. Empty where
// a schedule is not like that.
std::vector<std::int32_t> find_stages(const Schedule& s) {
    const auto one = [&s](std::int32_t program) { return program == s.program[0]; };
    if (s.mode == PeerMode::absolute || !std::all_of(s.program.begin(), s.program.end(), one)) return {};
    const auto program = static_cast<std::size_t>(s.program[0]);
    const auto send = static_cast<std::size_t>(s.send_ptr[program]), end = static_cast<std::size_t>(s.send_ptr[program + 1]);
    const auto receive = static_cast<std::size_t>(s.recv_ptr[program]);
    const auto blocks = [&s](std::size_t k) { return s.send_block_ptr[k + 1] - s.send_block_ptr[k]; };
    std::vector<std::int32_t> out(static_cast<std::size_t>(s.recv_ptr[program + 1]) - receive, -1);
    std::int32_t stage = 0;
    for (std::size_t k = send, first = send; k < end; ++k) {
        if (s.send_needs[k] != s.send_needs[first]) ++stage, first = k;
        const auto match = static_cast<std::size_t>(s.send_match[k]), before = first - send;
        const std::int32_t *peers = &s.send_peer[first], *mine = &s.send_peer[k];
        const bool alike = blocks(k) == blocks(first) &&
                           s.recv_reduce[receive + match] == s.recv_reduce[receive + static_cast<std::size_t>(s.send_match[first])];
        if (static_cast<std::size_t>(s.send_needs[k]) != before || match < before || !alike || std::find(peers, mine, *mine) != mine)
            return {};
        out[match] = stage;
    }
    return std::is_sorted(out.begin(), out.end()) ? out : std::vector<std::int32_t>{};
}

}  // namespace

const std::vector<std::int32_t>& Quotient::stages(const Phase& phase, std::uint32_t kind) {
    const auto [known, fresh] = stages_.try_emplace({kind, phase.schedule, phase.stride, phase.n});
    if (fresh && phase.dim >= 0 && whole_.network.dims[static_cast<std::size_t>(phase.dim)].shape == Shape::fully_connected &&
        in_its_dim(phase, kind))
        known->second = find_stages(*phase.schedule);
    return known->second;
}

// Whether the participants of a phase differ in its dim, and in no other.
bool Quotient::in_its_dim(const Phase& phase, std::uint32_t kind) const {
    const auto d = static_cast<std::size_t>(phase.dim);
    const Geometry geometry(whole_.network);
    const Seat seat{classes_.first_group[kind], 0};
    const auto npu = [&](std::uint32_t p) { return whole_.npu_of[rank_at(seat, p)]; };
    for (std::uint32_t p = 0; p < size(kind); ++p) {
        const int index = index_in(phase, p), first = npu(p - static_cast<std::uint32_t>(index * phase.stride));
        const int moved = geometry.coordinate(npu(p), d) - geometry.coordinate(first, d);
        if (npu(p) != first + moved * geometry.stride(d) || (index > 0 && moved == 0)) return false;
    }
    return true;
}

// Between fully connected NPUs that of its stage which comes the same way.
std::uint32_t Quotient::receive(const Phase& phase, std::uint32_t kind, std::uint32_t cls, std::uint32_t to, std::uint32_t match) {
    const std::vector<std::int32_t>& stage = stages(phase, kind);
    if (stage.empty()) return match;
    const auto d = static_cast<std::size_t>(phase.dim);
    const auto way = [&](std::uint32_t from, std::uint32_t there) {
        return away(whole_.network.dims[d], facts_.colours().coordinates(from)[d], facts_.colours().coordinates(there)[d]);
    };
    const Schedule& s = *phase.schedule;
    const std::uint32_t other = class_at(kind, cls, to), mine = place(kind, other), rank = rank_at(kind, other, mine);
    const int index = index_in(phase, mine), wanted = way(rank_at(kind, cls, place(kind, cls)), rank_at(kind, cls, to));
    const auto first = static_cast<std::size_t>(s.recv_ptr[static_cast<std::size_t>(s.program[0])]);
    for (std::uint32_t r = 0; r < stage.size(); ++r) {
        const auto from =
            static_cast<std::uint32_t>(static_cast<int>(mine) + (peer_of(s, index, s.recv_peer[first + r]) - index) * phase.stride);
        if (stage[r] == stage[match] && way(rank_at(kind, other, from), rank) == wanted) return r;
    }
    throw Unfoldable{"members of one class take different steps in a collective"};
}

}  // namespace astrarium
