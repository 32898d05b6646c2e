#include "nodes/state_words.hpp"

namespace astrarium {

void StateWords::begin(Tick now, Tick horizon) {
    now_ = now, horizon_ = horizon;
    words_.clear();
    for (Rank& rank : ranks_) rank.live = NodeSpan{};
    time(horizon);
}

void StateWords::lanes(std::uint32_t rank, const std::uint32_t (&inflight)[lane_count], const ReadySet& ready, Arrivals comm) {
    std::vector<std::uint32_t> nodes;
    for (int lane = -1; lane < lane_count; ++lane) {
        if (lane >= 0) word(inflight[lane]);
        nodes = ready.all(lane);
        std::sort(nodes.begin(), nodes.end());
        count(nodes.size());
        for (const std::uint32_t n : nodes) node(rank, n);
    }
    // What came first matters, not when.
    std::sort(comm.begin(), comm.end(),
              [](const auto& x, const auto& y) { return x.second != y.second ? x.second < y.second : x.first < y.first; });
    count(comm.size());
    for (std::size_t k = 0; k < comm.size(); ++k) node(rank, comm[k].first), word(k > 0 && comm[k].second == comm[k - 1].second);
}

}  // namespace astrarium
