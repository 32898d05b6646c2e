// What is found out once about schedules: in which order a participant's sends are released, and how long it takes until a delivered message
// counts as received.
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

// The delay of an endpoint, and adding a message up where it is reduced.
class ReceiveDelays {
public:
    explicit ReceiveDelays(const Plan& plan) : plan_(plan), reduces_(plan.policy.reduce_bandwidth > 0 || plan.reduce_bandwidth.size > 0) {}
    // Of a receive of a participant of a phase, at an NPU.
    Tick of(const Phase& phase, int index, std::uint32_t number, std::int32_t npu) {
        return reduces_ ? reduced(phase, index, number, npu) : plan_.policy.endpoint_delay;
    }
    // Blocks that every receive of a schedule's programs takes: those of the send that it matches.
    const std::vector<std::int32_t>& blocks(const Schedule& schedule);

private:
    Tick reduced(const Phase& phase, int index, std::uint32_t number, std::int32_t npu);

    const Plan& plan_;
    const bool reduces_;
    std::unordered_map<const Schedule*, std::vector<std::int32_t>> blocks_;
    const Schedule* last_ = nullptr;  // asked for
    const std::vector<std::int32_t>* blocks_of_last_ = nullptr;
    struct Known {  // asked for last
        std::int64_t size = -1;
        double rate = 0;
        Tick delay = 0;
    } known_;
};

}  // namespace astrarium
