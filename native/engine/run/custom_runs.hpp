// Custom collectives: a small program of sends, receives and delays per position.
#pragma once
#include <vector>

#include "nodes/meetings.hpp"
#include "run/messages.hpp"
#include "run/nodes.hpp"

namespace astrarium {

class Collectives;

class CustomRuns {
public:
    CustomRuns(const Plan& plan, BatchClock& clock, Nodes& nodes, Messages& messages, Collectives& collectives)
        : plan_(plan), clock_(clock), nodes_(nodes), messages_(messages), collectives_(collectives) {}
    void start(std::uint32_t instance, std::uint32_t position);
    void complete(std::uint32_t run, std::uint32_t node);
    void take(const Message& message);  // that was delivered

private:
    struct Run {
        std::uint32_t instance = 0, position = 0, left = 0;
        std::vector<std::int32_t> parents;
    };
    const Custom& custom(const Run& run) const;
    const Program& program(const Run& run) const;
    void issue(std::uint32_t run, std::uint32_t node);
    void post(std::uint32_t run, std::uint32_t node, std::uint32_t peer, std::int64_t tag, std::uint32_t number);
    void end(std::uint32_t run);

    const Plan& plan_;
    BatchClock& clock_;
    Nodes& nodes_;
    Messages& messages_;
    Collectives& collectives_;
    std::vector<Run> runs_;
    std::vector<std::uint32_t> free_;
    Meetings meetings_;
};

}  // namespace astrarium
