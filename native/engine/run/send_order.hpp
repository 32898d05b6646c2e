// In which order a participant's sends are released.
#pragma once
#include <unordered_map>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

// Sends are released by a cursor: a schedule whose `needs` do not ascend within a program gets an order in which they do.
class SendOrders {
public:
    explicit SendOrders(const Plan& plan);
    // Of the schedule's sends; null: as they stand.
    const std::vector<std::uint32_t>* of(const Schedule& schedule) const {
        const auto found = orders_.find(&schedule);
        return found == orders_.end() ? nullptr : &found->second;
    }

private:
    std::unordered_map<const Schedule*, std::vector<std::uint32_t>> orders_;
};

}  // namespace astrarium
