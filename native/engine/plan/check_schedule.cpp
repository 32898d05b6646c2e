#include <bit>

#include "plan/check_plan.hpp"

namespace astrarium {
namespace {

bool ascends(const View<std::int32_t>& ptr, std::size_t end) {
    if (ptr.size == 0 || ptr[0] != 0 || static_cast<std::size_t>(ptr[ptr.size - 1]) != end) return false;
    for (std::size_t i = 1; i < ptr.size; ++i)
        if (ptr[i] < ptr[i - 1]) return false;
    return true;
}

void check_arrays(const Schedule& s) {
    require(s.mode == PeerMode::relative || s.mode == PeerMode::xor_ || s.mode == PeerMode::absolute, "peer mode out of range");
    require(s.n >= 1 && s.switches >= 0 && s.program.size == static_cast<std::size_t>(s.n) + static_cast<std::size_t>(s.switches),
            "schedule program of another size");
    const std::size_t sends = s.send_peer.size, receives = s.recv_peer.size;
    require(s.send_needs.size == sends && s.send_match.size == sends && s.send_block_ptr.size == sends + 1 &&
                s.recv_reduce.size == receives && s.send_ptr.size == s.recv_ptr.size,
            "schedule arrays differ in length");
    require(ascends(s.send_ptr, sends) && ascends(s.recv_ptr, receives), "schedule pointers do not ascend");
    for (const std::int32_t q : s.program)
        require(q >= 0 && static_cast<std::size_t>(q) + 1 < s.send_ptr.size, "schedule program out of range");
    require(s.send_block_ptr[0] >= 0, "schedule blocks out of range");
    for (std::size_t k = 0; k < sends; ++k) require(s.send_block_ptr[k] <= s.send_block_ptr[k + 1], "schedule blocks out of range");
}

void check_numbers(const Schedule& s) {
    if (s.mode == PeerMode::xor_) require(std::has_single_bit(static_cast<unsigned>(s.n)), "an xor schedule needs a power of two");
    require(s.mode == PeerMode::absolute || s.switches == 0, "switches in a symmetric schedule");
    const int least = s.mode == PeerMode::absolute ? 0 : 1;  // a distance of 0 would be the participant itself
    for (const std::int32_t peer : s.send_peer) require(peer >= least && peer < s.n + s.switches, "schedule peer out of range");
    for (const std::int32_t peer : s.recv_peer) require(peer >= least && peer < s.n + s.switches, "schedule peer out of range");
    for (std::size_t q = 0; q + 1 < s.send_ptr.size; ++q) {
        const std::int32_t receives = s.recv_ptr[q + 1] - s.recv_ptr[q];
        for (auto k = static_cast<std::size_t>(s.send_ptr[q]); k < static_cast<std::size_t>(s.send_ptr[q + 1]); ++k)
            require(s.send_needs[k] >= 0 && s.send_needs[k] <= receives && s.send_match[k] >= 0, "schedule send out of range");
    }
}

// Walks the messages of participants `from..to`; every receive must be taken once, and come from where it says.
void check_matches(const Schedule& s, int from, int to, bool alike) {
    std::vector<std::size_t> base(static_cast<std::size_t>(alike ? 1 : s.n + s.switches) + 1, 0);
    for (std::size_t p = 0; p + 1 < base.size(); ++p) {
        const auto q = static_cast<std::size_t>(s.program[p]);
        base[p + 1] = base[p] + static_cast<std::size_t>(s.recv_ptr[q + 1] - s.recv_ptr[q]);
    }
    std::vector<bool> taken(base.back(), false);
    std::size_t messages = 0;
    for (int p = from; p < to; ++p) {
        const auto q = static_cast<std::size_t>(s.program[static_cast<std::size_t>(p)]);
        for (auto k = static_cast<std::size_t>(s.send_ptr[q]); k < static_cast<std::size_t>(s.send_ptr[q + 1]); ++k, ++messages) {
            const int peer = peer_of(s, p, s.send_peer[k]);
            require(peer != p, "a schedule sends to itself");
            const std::size_t at = alike ? 0 : static_cast<std::size_t>(peer);
            const std::size_t number = base[at] + static_cast<std::size_t>(s.send_match[k]);
            require(number < base[at + 1] && !taken[number], "a schedule's send meets no receive of its own");
            taken[number] = true;
            const auto theirs = static_cast<std::size_t>(s.program[static_cast<std::size_t>(peer)]);
            const auto r = static_cast<std::size_t>(s.recv_ptr[theirs] + s.send_match[k]);
            require(peer_of(s, peer, s.recv_peer[r]) == p, "a schedule's receive comes from elsewhere");
        }
    }
    require(messages == base.back(), "a schedule's receive without a send");
}

}  // namespace

void check_schedule(const Schedule& s) {
    check_arrays(s);
    check_numbers(s);
    bool alike = s.mode != PeerMode::absolute;  // one program, symmetric: participant 0 stands for all
    for (std::size_t p = 1; alike && p < s.program.size; ++p) alike = s.program[p] == s.program[0];
    check_matches(s, 0, alike ? 1 : s.n + s.switches, alike);
}

}  // namespace astrarium
