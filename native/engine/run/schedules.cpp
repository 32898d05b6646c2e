#include "run/schedules.hpp"

#include <algorithm>
#include <unordered_set>

#include "media/distance.hpp"

namespace astrarium {

namespace {

std::vector<std::uint32_t> by_needs(const Schedule& s) {
    const auto earlier = [&](std::uint32_t x, std::uint32_t y) { return s.send_needs[x] < s.send_needs[y]; };
    std::vector<std::uint32_t> order;
    for (std::size_t q = 0; q + 1 < s.send_ptr.size; ++q) {
        if (std::is_sorted(s.send_needs.data + s.send_ptr[q], s.send_needs.data + s.send_ptr[q + 1])) continue;
        for (std::size_t k = order.size(); k < s.send_needs.size; ++k) order.push_back(static_cast<std::uint32_t>(k));
        std::stable_sort(order.begin() + s.send_ptr[q], order.begin() + s.send_ptr[q + 1], earlier);
    }
    return order;
}

}  // namespace

// Schedules are those of the phases: a plan of one collective (folding) borrows them from another plan.
SendOrders::SendOrders(const Plan& plan) {
    std::unordered_set<const Schedule*> seen;
    for (const Collective& c : plan.collectives)
        for (const Chunk& chunk : c.chunks)
            for (const Phase& phase : chunk.phases)
                if (phase.schedule && seen.insert(phase.schedule).second)
                    if (std::vector<std::uint32_t> order = by_needs(*phase.schedule); !order.empty())
                        orders_.emplace(phase.schedule, std::move(order));
}

const std::vector<std::int32_t>& ReceiveDelays::blocks(const Schedule& s) {
    if (last_ == &s) return *blocks_of_last_;
    auto& blocks = blocks_[&s];
    last_ = &s, blocks_of_last_ = &blocks;
    if (!blocks.empty()) return blocks;
    blocks.assign(s.recv_peer.size, 0);
    const int senders = s.mode == PeerMode::absolute ? s.n : 1;
    for (int p = 0; p < senders; ++p) {
        const auto program = static_cast<std::size_t>(s.program[static_cast<std::size_t>(p)]);
        for (auto k = static_cast<std::size_t>(s.send_ptr[program]); k < static_cast<std::size_t>(s.send_ptr[program + 1]); ++k) {
            const auto theirs = static_cast<std::size_t>(s.program[static_cast<std::size_t>(peer_of(s, p, s.send_peer[k]))]);
            blocks[static_cast<std::size_t>(s.recv_ptr[theirs] + s.send_match[k])] = s.send_block_ptr[k + 1] - s.send_block_ptr[k];
        }
    }
    return blocks;
}

Tick ReceiveDelays::reduced(const Phase& phase, int index, std::uint32_t number, std::int32_t npu) {
    const Schedule& s = *phase.schedule;
    const auto r = static_cast<std::size_t>(s.recv_ptr[static_cast<std::size_t>(s.program[static_cast<std::size_t>(index)])]) + number;
    const double rate = plan_.reduction_rate(npu);
    if (!s.recv_reduce[r] || rate <= 0) return plan_.policy.endpoint_delay;
    const std::int64_t size = blocks(s)[r] * phase.block_size;
    if (known_.size != size || known_.rate != rate) {
        const double passes = 3 * (static_cast<double>(size) / rate * 1e9);
        known_ = {size, rate, add(plan_.policy.endpoint_delay, ticks(passes, plan_.network.whole_ns))};
    }
    return known_.delay;
}

}  // namespace astrarium
