// The state of a run as words, to see whether it recurs: times count from now, nodes from how many their rank has finished, and
// collectives of a group from how many were issued.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "nodes/ready.hpp"
#include "plan/plan.hpp"

namespace astrarium {

struct NodeSpan {
    static constexpr std::uint32_t none = 0xffffffffu;
    std::uint32_t low = none, end = 0;
    void include(std::uint32_t node) { low = std::min(low, node), end = std::max(end, node + 1); }
    void include(const NodeSpan& other) { low = std::min(low, other.low), end = std::max(end, other.end); }
};

// Periods of a run that are left out.
struct Jump {
    std::uint64_t periods = 0;
    Tick time = 0;                     // that one period takes
    std::vector<std::uint32_t> nodes;  // per rank, in one period
    // Per rank, as the run numbers them: those that the last period began or ended are among these. Nodes before the first that is left have
    // numbers below 0, modulo 2^32.
    std::vector<NodeSpan> among;
    std::vector<std::int64_t> counts;  // in one period: what the run counts
};

class StateWords {
public:
    explicit StateWords(std::size_t ranks) : ranks_(ranks) {}

    void begin(Tick now, Tick horizon);
    void word(std::int64_t value) { words_.push_back(value); }
    void count(std::size_t things) {
        words_.push_back(static_cast<std::int64_t>(things));
    }  // before each list: no state reads like another
    void node(std::uint32_t rank, std::uint32_t node) {
        Rank& r = ranks_[rank];
        r.live.include(node + r.skipped);
        words_.push_back(static_cast<std::int64_t>(node + r.skipped) - r.finished);
    }
    void time(Tick t) { words_.push_back(t - now_); }
    // A time that no longer matters before the horizon.
    void until(Tick t) { words_.push_back(std::max(t, horizon_) - now_); }
    bool matters(Tick t) const { return t > horizon_; }
    // What waits for room on a rank's lanes; `comm`: nodes, and since when.
    using Arrivals = std::vector<std::pair<std::uint32_t, Tick>>;
    void lanes(std::uint32_t rank, const std::uint32_t (&inflight)[lane_count], const ReadySet& ready, Arrivals comm);

    // Of a rank: nodes that ended, and nodes that were left out, from the start; nodes of the state, as numbered in the whole program.
    struct Rank {
        std::uint32_t finished = 0, skipped = 0;
        NodeSpan live;
    };
    Rank& rank(std::size_t rank) { return ranks_[rank]; }
    const Rank& rank(std::size_t rank) const { return ranks_[rank]; }
    Tick now() const { return now_; }
    std::vector<std::int64_t> take() { return std::move(words_); }

private:
    std::vector<Rank> ranks_;
    std::vector<std::int64_t> words_;
    Tick now_ = 0, horizon_ = 0;
};

}  // namespace astrarium
