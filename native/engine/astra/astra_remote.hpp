// ASTRA-sim's remote memory: latency + bytes / bandwidth, alone per NPU or one access at a time per node or pool.
#pragma once
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "astra/npu_events.hpp"
#include "plan/plan.hpp"

namespace astrarium {

class AstraRemote {
public:
    AstraRemote(const Plan& plan, NpuEvents& events) : plan_(plan), events_(events) {}
    void access(std::uint32_t rank, std::uint32_t node);  // ends in npu_event::node_done; throws Unsupported where there is no such memory
    void freed(std::uint32_t port);                       // npu_event::remote_free

private:
    struct Port {
        bool busy = false;
        std::deque<std::pair<std::uint32_t, std::uint32_t>> waiting;  // rank, node
    };
    Tick start(std::uint32_t rank, std::uint32_t node);
    void serve(std::uint32_t rank, std::uint32_t node, std::uint32_t port);

    const Plan& plan_;
    NpuEvents& events_;
    std::vector<Port> ports_;
};

}  // namespace astrarium
