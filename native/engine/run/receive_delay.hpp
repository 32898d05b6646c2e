// How long it takes until a delivered message counts as received: the endpoint's delay, and adding it up where it is reduced.
#pragma once
#include <unordered_map>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

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
