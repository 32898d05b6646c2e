// Custom collectives: a small program of sends, receives and delays per position.
#pragma once
#include <vector>

#include "nodes/meetings.hpp"
#include "run/collectives.hpp"

namespace astrarium {

class CustomRuns {
public:
    CustomRuns(const Plan& plan, BatchClock& clock, Nodes& nodes, Messages& messages, Collectives& collectives)
        : plan_(plan), clock_(clock), nodes_(nodes), messages_(messages), collectives_(collectives) {}
    void start(std::uint32_t instance, std::uint32_t position);
    void complete(std::uint32_t run, std::uint32_t node);
    void delivered(const Message& message);

private:
    struct Run {
        std::uint32_t instance = 0, position = 0, left = 0;
        std::vector<std::int32_t> parents;
    };
    const Custom& custom(const Run& run) const { return *plan_.collectives[collectives_.instance(run.instance).collective].custom; }
    const Program& program(const Run& run) const {
        return custom(run).programs[static_cast<std::size_t>(custom(run).program_of[run.position])];
    }
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
