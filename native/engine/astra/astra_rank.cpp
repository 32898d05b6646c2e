#include "astra/astra_rank.hpp"

#include <algorithm>

#include "nodes/describe.hpp"

namespace astrarium {

namespace {

constexpr int no_lane = -2;

}  // namespace

AstraRanks::AstraRanks(const Plan& plan, std::size_t ranks, bool record, const Clock& clock, NodeStarter& starter)
    : plan_(plan), record_(record), clock_(clock), starter_(starter), ranks_(ranks), finish_(ranks, -1), busy_(ranks, 0) {
    std::size_t nodes = 0;
    for (std::size_t r = 0; r < plan.ranks(); ++r) {
        ranks_[r].program = static_cast<std::uint32_t>(plan.program_of[r]);
        ranks_[r].node_base = node_number(nodes);
        nodes += plan.program(r).nodes();
    }
    left_.reserve(nodes);
    for (std::size_t r = 0; r < plan.ranks(); ++r)
        left_.insert(left_.end(), plan.program(r).parents.begin(), plan.program(r).parents.end());
    if (record) start_.assign(nodes, -1), end_.assign(nodes, -1);
}

void AstraRanks::begin() {
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        const Program& program = plan_.program(rank);
        for (std::size_t node = 0; node < program.nodes(); ++node)
            if (program.parents[node] == 0) ranks_[rank].ready.push(program.lane[node], static_cast<std::uint32_t>(node));
        issue_ready(rank);
        check_finished(rank);
    }
}

void AstraRanks::complete(std::uint32_t rank, std::uint32_t node) {
    Rank& r = ranks_[rank];
    if (const int lane = plan_.programs[r.program].lane[node]; lane >= 0) --r.inflight[lane];
    --r.ongoing;
    end_node(r, node, [&r](int lane, std::uint32_t child) { r.ready.push(lane, child); });
    issue_ready(rank);
    check_finished(rank);
}

// Tells `ready` of the children that it frees.
template <class Ready>
void AstraRanks::end_node(Rank& r, std::uint32_t node, Ready&& ready) {
    const Program& program = plan_.programs[r.program];
    if (record_) end_[r.node_base + node] = clock_.now;
    for (std::int32_t e = program.child_ptr[node]; e < program.child_ptr[node + 1]; ++e) {
        const auto child = static_cast<std::uint32_t>(program.child[static_cast<std::size_t>(e)]);
        if (--left_[r.node_base + child] == 0) ready(program.lane[child], child);
    }
}

// Every ready node of a snapshot, in ascending order, that finds room on its lane. A node freed by a SKIP inside the
// snapshot waits for the rank's next event; when nothing is in flight that event would never come, so look again.
void AstraRanks::issue_ready(std::uint32_t rank) {
    Rank& r = ranks_[rank];
    if (r.ready.empty()) return;
    for (bool again = true; again;) {
        Freed later;
        issue_snapshot(rank, later);
        for (const auto& [lane, node] : later) r.ready.push(lane, node);
        again = !later.empty() && r.ongoing == 0;
    }
}

void AstraRanks::issue_snapshot(std::uint32_t rank, Freed& later) {
    Rank& r = ranks_[rank];
    const Program& program = plan_.programs[r.program];
    for (int lane = lane_with_room(r); lane != no_lane; lane = lane_with_room(r)) {
        const std::uint32_t node = r.ready.lowest(lane);
        r.ready.pop(lane);
        begin_node(rank, node);
        if (static_cast<Kind>(program.kind[node]) == Kind::skip) {  // completes at once, its children are not part of this snapshot
            end_node(r, node, [&later](int child_lane, std::uint32_t child) { later.emplace_back(child_lane, child); });
            continue;
        }
        if (lane >= 0) ++r.inflight[lane];
        ++r.ongoing;
        starter_.start(rank, node);
    }
}

// That of the lowest ready node which finds room.
int AstraRanks::lane_with_room(const Rank& r) const {
    int best = no_lane;
    for (int lane = -1; lane < lane_count; ++lane) {
        if (r.ready.empty(lane) || (lane >= 0 && r.inflight[lane] >= static_cast<std::uint32_t>(plan_.lanes[lane]))) continue;
        if (best == no_lane || r.ready.lowest(lane) < r.ready.lowest(best)) best = lane;
    }
    return best;
}

void AstraRanks::begin_node(std::uint32_t rank, std::uint32_t node) {
    const Rank& r = ranks_[rank];
    busy_[rank] += plan_.programs[r.program].busy[node];
    if (record_) start_[r.node_base + node] = clock_.now;
}

void AstraRanks::check_finished(std::uint32_t rank) {
    Rank& r = ranks_[rank];
    if (r.finished || r.ongoing != 0 || !r.ready.empty()) return;
    r.finished = true;
    finish_[rank] = clock_.now;
}

bool AstraRanks::all_finished() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.finished; });
}

void AstraRanks::report(Outcome& out) const {
    out.finish = finish_;
    out.busy = busy_;
    for (std::size_t r = 0; r < ranks_.size(); ++r) out.row.push_back(static_cast<std::int32_t>(r));
    if (!record_) return;
    out.node_ptr.push_back(0);
    for (std::size_t r = 0; r < plan_.ranks(); ++r)
        out.node_ptr.push_back(out.node_ptr.back() + static_cast<std::int64_t>(plan_.program(r).nodes()));
    out.start = start_, out.end = end_;
}

std::size_t AstraRanks::blocked(std::uint32_t rank) const {
    const auto first = left_.begin() + static_cast<std::ptrdiff_t>(ranks_[rank].node_base);
    return static_cast<std::size_t>(
        std::count_if(first, first + static_cast<std::ptrdiff_t>(plan_.program(rank).nodes()), [](std::int32_t left) { return left > 0; }));
}

void AstraRanks::explain(std::uint32_t rank, Wait& wait) const {
    const ReadySet& ready = ranks_[rank].ready;
    for (int lane = -1; lane < lane_count; ++lane)
        if (!ready.empty(lane)) say(wait, place_of(plan_, plan_.program(rank), rank, ready.lowest(lane)), " waits for its lane");
}

}  // namespace astrarium
