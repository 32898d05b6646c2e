// The nodes of the ranks under ASTRA-sim's rules: which are ready, which lanes have room, and when a rank has finished.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "clock/clock.hpp"
#include "nodes/ready.hpp"
#include "plan/plan.hpp"

namespace astrarium {

class NodeStarter {
public:
    virtual void start(std::uint32_t rank, std::uint32_t node) = 0;  // a node that takes time; `complete` ends it

protected:
    ~NodeStarter() = default;
};

class AstraRanks {
public:
    // `ranks`: that run. The plan has programs for these, or for none.
    AstraRanks(const Plan& plan, std::size_t ranks, bool record, const Clock& clock, NodeStarter& starter);

    void begin();  // every rank at 0, in order
    void complete(std::uint32_t rank, std::uint32_t node);

    std::size_t size() const { return ranks_.size(); }
    bool all_finished() const;
    const std::vector<Tick>& finish() const { return finish_; }
    void report(Outcome& out) const;
    bool finished(std::uint32_t rank) const { return ranks_[rank].finished; }
    std::size_t blocked(std::uint32_t rank) const;       // nodes with parents that have not ended
    void explain(std::uint32_t rank, Wait& wait) const;  // what waits for lanes

private:
    struct Rank {
        std::uint32_t program, node_base;  // node_base: into left_/start_/end_
        std::uint32_t inflight[lane_count] = {};
        std::uint32_t ongoing = 0;
        bool finished = false;
        ReadySet ready;
    };
    using Freed = std::vector<std::pair<int, std::uint32_t>>;  // lane, node

    int lane_with_room(const Rank& r) const;
    void issue_ready(std::uint32_t rank);
    void issue_snapshot(std::uint32_t rank, Freed& later);
    void begin_node(std::uint32_t rank, std::uint32_t node);
    template <class Ready>
    void end_node(Rank& r, std::uint32_t node, Ready&& ready);
    void check_finished(std::uint32_t rank);

    const Plan& plan_;
    const bool record_;
    const Clock& clock_;
    NodeStarter& starter_;
    std::vector<Rank> ranks_;
    std::vector<std::int32_t> left_;  // parents, of the nodes of all ranks
    std::vector<Tick> start_, end_;   // the same, where recorded
    std::vector<Tick> finish_, busy_;
};

}  // namespace astrarium
