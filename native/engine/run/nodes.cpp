#include "run/nodes.hpp"

#include <algorithm>

#include "plan/rates.hpp"

namespace astrarium {
namespace {

// The choice of a scheduling plug-in.
std::uint32_t pick(ForeignScheduler& scheduler, const Program& program, std::uint32_t rank, int lane, std::vector<std::uint32_t> nodes,
                   Tick now) {
    std::sort(nodes.begin(), nodes.end());
    std::vector<std::uint64_t> ids;
    for (const std::uint32_t node : nodes) ids.push_back(program.node_id[node]);
    const std::size_t chosen = scheduler.pick(rank, lane, ids, now);
    if (chosen >= nodes.size())
        throw PluginFault("picks number " + std::to_string(chosen) + " of " + std::to_string(nodes.size()) + " nodes");
    return nodes[chosen];
}

}  // namespace

Nodes::Nodes(const Plan& plan, BatchClock& clock, bool record, const Plugins& plugins, Tasks& tasks)
    : plan_(plan), clock_(clock), record_(record), plugins_(plugins), tasks_(tasks), ranks_(plan.ranks()), programs_(&plan.programs) {
    std::size_t nodes = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const std::size_t mine = plan.program(r).nodes();
        ranks_[r].program = static_cast<std::uint32_t>(plan.program_of[r]);
        ranks_[r].node_base = node_number(nodes);
        ranks_[r].left = static_cast<std::uint32_t>(mine);
        unfinished_ += mine > 0;
        nodes += mine;
    }
    parents_.reserve(nodes);
    count_parents();
    if (record_) start_.assign(nodes, -1), end_.assign(nodes, -1);
    finish_.assign(ranks_.size(), 0), late_.assign(ranks_.size(), 0), busy_.assign(ranks_.size(), 0);
}

void Nodes::count_parents() {
    parents_.clear();
    for (std::size_t r = 0; r < plan_.ranks(); ++r)
        parents_.insert(parents_.end(), plan_.program(r).parents.begin(), plan_.program(r).parents.end());
}

void Nodes::start() {
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
        const Program& program = plan_.program(r);
        for (std::uint32_t n = 0; n < program.nodes(); ++n)
            if (program.parents[n] == 0) make_ready(r, n);
    }
    if (!plugins_.growth) return;
    clock_.strict = true;
    plugins_.growth->source.start(handed_);
    take_work();
}

// Of a workload that decides as it runs.
void Nodes::take_work() {
    for (const Handed& work : handed_) {
        plugins_.growth->add(work);
        if (record_) start_.push_back(-1), end_.push_back(-1);
        if (ranks_[work.rank].left++ == 0) ++unfinished_;
        make_ready(work.rank, work.node);
    }
    handed_.clear();
}

void Nodes::make_ready(std::uint32_t rank, std::uint32_t node) {
    Rank& r = ranks_[rank];
    const int lane = (*programs_)[r.program].lane[node];
    if (lane == lane_comm) r.comm.emplace_back(node, clock_.now);
    else r.ready.push(lane, node);
    if (watch_) watch_->make_ready(rank, node);
    want_look(rank);
}

void Nodes::want_look(std::uint32_t rank) {
    if (ranks_[rank].looking) return;
    ranks_[rank].looking = true;
    clock_.at(clock_.now, BatchClock::issue, {rank, 0, What::look, rank, 0});
}

// Of the ready nodes of another lane: the one with the lowest id, or a plug-in's choice.
std::uint32_t Nodes::take_ready(std::uint32_t rank, int lane) {
    ReadySet& ready = ranks_[rank].ready;
    if (!plugins_.scheduler || lane < 0 || ready.all(lane).size() < 2) {
        const std::uint32_t node = ready.lowest(lane);
        ready.pop(lane);
        return node;
    }
    return ready.take(lane, pick(*plugins_.scheduler, plan_.program(rank), rank, lane, ready.all(lane), clock_.now));
}

// Of the ready nodes of the COMM lane: explicit priority highest, or latest ready (LIFO), or earliest (FIFO); then node id.
std::uint32_t Nodes::take_comm(std::uint32_t rank) {
    auto& ready = ranks_[rank].comm;
    if (plugins_.scheduler && ready.size() > 1) {
        std::vector<std::uint32_t> nodes;
        for (const auto& [node, since] : ready) nodes.push_back(node);
        const std::uint32_t chosen = pick(*plugins_.scheduler, plan_.program(rank), rank, lane_comm, nodes, clock_.now);
        std::erase_if(ready, [chosen](const auto& entry) { return entry.first == chosen; });
        return chosen;
    }
    const Program& mine = program(rank);
    const auto better = [&](const auto& x, const auto& y) {
        if (plan_.policy.lifo == 0) {
            const auto priority = [&](std::uint32_t node) {
                if (static_cast<Kind>(mine.kind[node]) != Kind::collective) return std::int32_t{0};
                return plan_.slot_c[static_cast<std::size_t>(plan_.slot_ptr[rank] + mine.slot[node])];
            };
            const std::int32_t a = priority(x.first), b = priority(y.first);
            if (a != b) return a > b;
        } else if (x.second != y.second) {
            return plan_.policy.lifo > 0 ? x.second > y.second : x.second < y.second;
        }
        return x.first < y.first;
    };
    const auto best = std::min_element(ready.begin(), ready.end(), better);
    const std::uint32_t node = best->first;
    *best = ready.back();
    ready.pop_back();
    return node;
}

void Nodes::look(std::uint32_t rank) {
    ranks_[rank].looking = false;
    for (int lane = -1; lane < lane_count; ++lane) {
        const auto room = [&] { return lane < 0 || ranks_[rank].inflight[lane] < static_cast<std::uint32_t>(plan_.lanes[lane]); };
        if (lane == lane_comm) {
            while (!ranks_[rank].comm.empty() && room()) issue(rank, take_comm(rank));
            continue;
        }
        while (!ranks_[rank].ready.empty(lane) && room()) issue(rank, take_ready(rank, lane));
    }
}

void Nodes::issue(std::uint32_t rank, std::uint32_t node) {
    Rank& r = ranks_[rank];
    const Program& mine = (*programs_)[r.program];
    if (const int lane = mine.lane[node]; lane >= 0) ++r.inflight[lane];
    busy_[rank] += mine.busy[node];
    if (record_) start_[number(r, rank, node)] = time();
    const auto kind = static_cast<Kind>(mine.kind[node]);
    if (kind == Kind::delay || kind == Kind::skip) {
        if (const Tick end = end_of(plan_, mine, rank, node, clock_.now, busy_[rank]); end != never) over(rank, node, end);
        return;
    }
    tasks_.issue(kind, rank, node,
                 static_cast<std::size_t>(plan_.slot_ptr[rank]) + static_cast<std::size_t>(mine.slot[node] < 0 ? 0 : mine.slot[node]));
}

void Nodes::complete(std::uint32_t rank, std::uint32_t node) {
    Rank& r = ranks_[rank];
    const Program& mine = (*programs_)[r.program];
    if (const int lane = mine.lane[node]; lane >= 0) --r.inflight[lane];
    if (record_) end_[number(r, rank, node)] = time();
    finish_[rank] = time();
    late_[rank] = late();
    if (--r.left == 0) --unfinished_;
    for (std::int32_t e = mine.child_ptr[node]; e < mine.child_ptr[node + 1]; ++e) {
        const auto child = static_cast<std::uint32_t>(mine.child[static_cast<std::size_t>(e)] - mine.skipped);
        if (noting_) counted_down_.push_back(r.node_base + child);
        if (--parents_[r.node_base + child] == 0) make_ready(rank, child);
        else if (watch_) watch_->make_wait(rank, child);
    }
    if (watch_) watch_->complete(rank, node);
    if (plugins_.growth) {
        plugins_.growth->source.completed(rank, node, clock_.now, handed_);
        take_work();
    }
    want_look(rank);
}

void Nodes::explain(std::vector<Wait> why, std::vector<Wait>& waits) const {
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
        if (ranks_[r].left == 0) continue;
        if (std::string stands = where_it_stands(plan_, r); !stands.empty()) waits.push_back({std::move(stands), {}, {}});
        Wait& wait = why[r];
        for (int lane = -1; lane < lane_count; ++lane)
            if (!ranks_[r].ready.empty(lane)) say(wait, place(r, ranks_[r].ready.lowest(lane)), " waits for its lane");
        if (const auto& comm = ranks_[r].comm; !comm.empty())
            say(wait, place(r, std::min_element(comm.begin(), comm.end())->first), " waits for its lane");
        waits.push_back(
            {"rank " + std::to_string(r) + ":" + wait.text + " (" + std::to_string(ranks_[r].left) + " nodes unfinished)", r, wait.node});
    }
}

void Nodes::report(Outcome& out) {
    out.finish = std::move(finish_), out.busy = std::move(busy_);
    if (!record_) return;
    out.node_ptr.push_back(0);
    for (std::size_t r = 0; r < ranks_.size(); ++r)
        out.node_ptr.push_back(out.node_ptr.back() + static_cast<std::int64_t>(plan_.program(r).nodes()));
    out.start = std::move(start_), out.end = std::move(end_);
}

// --- periods that recur

Nodes::Own Nodes::own_programs() {
    Own out{{}, {}, own_programs_, parents_};
    for (Rank& rank : ranks_) {
        own_programs_.push_back(plan_.programs[rank.program]);
        out.program_of.push_back(std::exchange(rank.program, static_cast<std::uint32_t>(out.program_of.size())));
        out.base.push_back(rank.node_base);
    }
    programs_ = &own_programs_;
    return out;
}

void Nodes::write(StateWords& to) const {
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) to.lanes(r, ranks_[r].inflight, ranks_[r].ready, ranks_[r].comm);
}

// What began or ended in the period that has just ended did so in each that is left out, as much later. Nodes that have not may hold
// times of a branch that the run went back from. Where they are left out, the copies overwrite these before they are read, as nodes ascend;
// all others begin and end later, and overwrite them then.
void Nodes::record_periods(const Jump& jump) {
    const Tick until = time(), from = until - jump.time;
    add(until, times(static_cast<std::int64_t>(jump.periods), jump.time));  // throws beyond the last time that there is
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
        for (std::uint32_t node = jump.among[r].low; node != jump.among[r].end; ++node) {
            const std::size_t at = number(ranks_[r], r, node);
            for (std::vector<Tick>* times : {&start_, &end_})
                for (std::uint64_t k = 1; (*times)[at] > from && (*times)[at] <= until && k <= jump.periods; ++k)
                    (*times)[at + k * jump.nodes[r]] = (*times)[at] + static_cast<Tick>(k) * jump.time;
        }
}

void Nodes::skip(const Jump& jump) {
    if (record_) record_periods(jump);
    const auto periods = static_cast<std::int64_t>(jump.periods);
    skipped_ = add(skipped_, times(periods, jump.time));
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
        const auto nodes = static_cast<std::uint32_t>(periods) * jump.nodes[r];
        ranks_[r].node_base += nodes, ranks_[r].left -= nodes;
        busy_[r] += periods * jump.counts[1 + r];
    }
}

void Nodes::undo_changes(std::size_t until) {
    for (; counted_down_.size() > until; counted_down_.pop_back()) ++parents_[counted_down_.back()];
}

}  // namespace astrarium
