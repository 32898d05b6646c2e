// Queues and pauses of links over time: opt-in (PacketRules.queues). The same integers as astrarium.oracle.record.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium::packets {

// Per link a fixed number of bins whose width doubles, pairs becoming one, when time grows past the last. Of each bin the longest queue
// that stood in it, and how long PFC paused the link. A link says its changes in order of time; which links change when does not matter.
class Timeline {
public:
    static constexpr std::size_t bins = 256;
    static constexpr int first_shift = 10;  // bins of 1,024 ps at first

    explicit Timeline(std::size_t links) : rows_(links) {}
    void queue(std::uint32_t link, Tick now, std::int64_t bytes);  // that wait from now on
    void paused(std::uint32_t link, Tick begin, Tick end);
    void report(PacketCounts& out) const;

private:
    struct Row {
        std::vector<std::int64_t> longest;  // [bins]; empty where nothing has waited or paused
        std::vector<Tick> paused;           // [bins], ps
        std::int64_t bytes = 0;
        Tick since = 0;
        int shift = first_shift;
    };
    static void reach(Row& row, Tick time);
    static void widen(Row& row);

    std::vector<Row> rows_;
};

}  // namespace astrarium::packets
