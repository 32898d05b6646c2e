// Custom collectives: a small program of sends, receives and delays per position, without lanes. Nodes that are free at once start
// in the order of ASTRA-sim's set of them (hash_order); a program lists children in the order in which it frees them.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "astra/astra_meetings.hpp"
#include "astra/astra_messages.hpp"
#include "astra/npu_events.hpp"

namespace astrarium {

class CustomMachine {
public:
    CustomMachine(NpuEvents& events, AstraMail& mail, const AstraMeetings& meetings) : events_(events), mail_(mail), meetings_(meetings) {}

    void start(const Stream& s);
    bool completed(const Stream& s, std::uint32_t node);  // true: the program has ended

private:
    struct Run {
        std::uint32_t ongoing = 0;
        std::vector<std::int32_t> left;    // per node: parents
        std::vector<std::uint32_t> ready;  // in the order in which they became free
        std::uint32_t grown = 0;           // how often ASTRA-sim's set of free nodes has grown, see hash_order
    };
    const Custom& custom_of(const Stream& s) const { return *meetings_.of(s).collective->custom; }
    void issue_ready(const Stream& s, Run& run);
    void issue(const Stream& s, std::uint32_t node);

    NpuEvents& events_;
    AstraMail& mail_;
    const AstraMeetings& meetings_;
    std::unordered_map<std::uint32_t, Run> runs_;  // by stream
};

}  // namespace astrarium
