#include "run/send_order.hpp"

#include <algorithm>
#include <unordered_set>

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

}  // namespace astrarium
