// Native rule book, nodes: ready sets, lanes, and what issuing does.
#include "plan/rates.hpp"
#include "run/native.hpp"

namespace astrarium {
namespace {

// The choice of a scheduling plug-in.
std::uint32_t pick(ForeignScheduler& scheduler, const Program& program, std::uint32_t rank, int lane, std::vector<std::uint32_t> nodes, Tick now) {
    std::sort(nodes.begin(), nodes.end());
    std::vector<std::uint64_t> ids;
    for (const std::uint32_t node : nodes) ids.push_back(program.node_id[node]);
    const std::size_t chosen = scheduler.pick(rank, lane, ids, now);
    if (chosen >= nodes.size()) throw PluginFault("picks number " + std::to_string(chosen) + " of " + std::to_string(nodes.size()) + " nodes");
    return nodes[chosen];
}

}  // namespace

void Native::make_ready(std::uint32_t rank, std::uint32_t node) {
    Rank& r = ranks_[rank];
    const int lane = (*programs_)[r.program].lane[node];
    if (lane == lane_comm)
        r.comm.emplace_back(node, clock_.now);
    else
        r.ready.push(lane, node);
    if (recurrence_) recurrence_->ready(rank, node);
    want_look(rank);
}

void Native::want_look(std::uint32_t rank) {
    if (ranks_[rank].looking) return;
    ranks_[rank].looking = true;
    clock_.at(clock_.now, BatchClock::issue, {rank, 0, look, rank, 0});
}

// Of the ready nodes of another lane: the one with the lowest id, or a plug-in's choice.
std::uint32_t Native::take_ready(std::uint32_t rank, int lane) {
    ReadySet& ready = ranks_[rank].ready;
    if (!plugins_.scheduler || lane < 0 || ready.all(lane).size() < 2) {
        const std::uint32_t node = ready.lowest(lane);
        ready.pop(lane);
        return node;
    }
    return ready.take(lane, pick(*plugins_.scheduler, plan_.program(rank), rank, lane, ready.all(lane), clock_.now));
}

// Of the ready nodes of the COMM lane: explicit priority highest, or latest ready (LIFO), or earliest (FIFO); then node id.
std::uint32_t Native::take_comm(std::uint32_t rank) {
    auto& ready = ranks_[rank].comm;
    if (plugins_.scheduler && ready.size() > 1) {
        std::vector<std::uint32_t> nodes;
        for (const auto& [node, since] : ready) nodes.push_back(node);
        const std::uint32_t chosen = pick(*plugins_.scheduler, plan_.program(rank), rank, lane_comm, nodes, clock_.now);
        std::erase_if(ready, [chosen](const auto& entry) { return entry.first == chosen; });
        return chosen;
    }
    const Program& program = program_of(rank);
    const auto better = [&](const auto& x, const auto& y) {
        if (plan_.policy.lifo == 0) {
            const auto priority = [&](std::uint32_t node) {
                if (static_cast<Kind>(program.kind[node]) != Kind::collective) return std::int32_t{0};
                return plan_.slot_c[static_cast<std::size_t>(plan_.slot_ptr[rank] + program.slot[node])];
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

void Native::issue_ready(std::uint32_t rank) {
    ranks_[rank].looking = false;
    for (int lane = -1; lane < lane_count; ++lane) {
        const auto room = [&] { return lane < 0 || ranks_[rank].inflight[lane] < static_cast<std::uint32_t>(plan_.lanes[lane]); };
        if (lane == lane_comm) {
            while (!ranks_[rank].comm.empty() && room()) issue(rank, take_comm(rank));
            continue;
        }
        while (!ranks_[rank].ready.empty(lane) && room()) {
            issue(rank, take_ready(rank, lane));
        }
    }
}

void Native::issue(std::uint32_t rank, std::uint32_t node) {
    Rank& r = ranks_[rank];
    const Program& program = (*programs_)[r.program];
    if (const int lane = program.lane[node]; lane >= 0) ++r.inflight[lane];
    busy_[rank] += program.busy[node];
    if (record_) start_[number(r, rank, node)] = clock_.now;
    const auto slot = static_cast<std::size_t>(plan_.slot_ptr[rank]) +
                      static_cast<std::size_t>(program.slot[node] < 0 ? 0 : program.slot[node]);
    const std::uint64_t key = static_cast<std::uint64_t>(rank) << 32 | node;
    switch (static_cast<Kind>(program.kind[node])) {
        case Kind::delay:
        case Kind::skip:
            if (const Tick end = end_of(plan_, program, rank, node, clock_.now, busy_[rank]); end != never) clock_.at(end, BatchClock::done, {key, 0, node_over, rank, node});
            break;
        case Kind::collective: issue_collective(rank, node, slot); break;
        case Kind::send: issue_send(rank, node, slot); break;
        case Kind::recv: issue_receive(rank, node, slot); break;
        case Kind::remote: issue_remote(rank, node); break;
    }
}

void Native::complete_node(std::uint32_t rank, std::uint32_t node) {
    Rank& r = ranks_[rank];
    const Program& program = (*programs_)[r.program];
    if (const int lane = program.lane[node]; lane >= 0) --r.inflight[lane];
    if (record_) end_[number(r, rank, node)] = clock_.now;
    finish_[rank] = add(clock_.now, skipped_);
    late_[rank] = last_arrival_ == clock_.now;
    if (--r.left == 0) --unfinished_;
    for (std::int32_t e = program.child_ptr[node]; e < program.child_ptr[node + 1]; ++e) {
        const auto child = static_cast<std::uint32_t>(program.child[static_cast<std::size_t>(e)] - program.skipped);
        if (history_) counted_down_.push_back(r.node_base + child);
        if (--parents_[r.node_base + child] == 0)
            make_ready(rank, child);
        else if (recurrence_)
            recurrence_->waits(rank, child);
    }
    if (recurrence_) recurrence_->completed(rank, node);
    if (plugins_.growth) {
        plugins_.growth->source.completed(rank, node, clock_.now, handed_);
        take_work();
    }
    want_look(rank);
}

void Native::check_peer(std::uint32_t rank, std::uint32_t node, std::uint32_t peer) const {
    if (peer == rank && !image_) throw BadTrace("rank " + std::to_string(rank) + ", " + describe(rank, node) + ": its peer is the rank itself");
    if (peer >= plan_.ranks())
        throw BadTrace("rank " + std::to_string(rank) + ", " + describe(rank, node) + ": its peer rank does not exist");
}

void Native::issue_send(std::uint32_t rank, std::uint32_t node, std::size_t slot) {
    const auto peer = static_cast<std::uint32_t>(plan_.slot_a[slot]);
    check_peer(rank, node, peer);
    const std::uint32_t id = new_message();
    Message& m = messages_[id];
    m.purpose = Message::node;
    m.rank = rank, m.node_index = node, m.peer = peer, m.tag = plan_.slot_b[slot];
    m.high = static_cast<std::uint64_t>(rank) << 32 | node;
    m.source = image_ ? image_->source(slot) : rank;
    m.flight = image_ ? image_->flight(rank, slot) : Flight(plan_.npu_of[rank], plan_.npu_of[peer], 0);
    m.flight.size = program_of(rank).size[node];
    post(id);
}

void Native::issue_receive(std::uint32_t rank, std::uint32_t node, std::size_t slot) {
    const auto peer = static_cast<std::uint32_t>(plan_.slot_a[slot]);
    check_peer(rank, node, peer);
    if (plan_.network.medium->receives) return post_receive(rank, node, peer, plan_.slot_b[slot]);
    const MessageKey key{plan_.slot_b[slot], program_of(rank).size[node], peer, rank};
    Meeting& meeting = meetings_[key];
    if (meeting.delivered == 0) return meeting.posted.push_back(node);
    if (--meeting.delivered == 0) meetings_.erase(key);
    clock_.at(clock_.now, BatchClock::done, {static_cast<std::uint64_t>(rank) << 32 | node, 0, node_over, rank, node});
}

void Native::issue_remote(std::uint32_t rank, std::uint32_t node) {
    const Remote& remote = plan_.remote;
    if (image_ && remote.kind != RemoteKind::per_npu) throw Unfoldable{"shared or missing remote memory"};
    if (plugins_.memory) {
        const Tick end = add(clock_.now, plugins_.memory->access(rank, program_of(rank).size[node], clock_.now));
        return clock_.at(end, BatchClock::done, {static_cast<std::uint64_t>(rank) << 32 | node, 0, node_over, rank, node});
    }
    if (remote.kind == RemoteKind::none)
        throw Unsupported("rank " + std::to_string(rank) + ", " + describe(rank, node) +
                          ": a remote memory access, but the system has no remote memory");
    const double size = static_cast<double>(program_of(rank).size[node]);
    const Tick time = add(remote.latency * 1000, ticks(size / remote.bandwidth, plan_.network.whole_ns));
    Tick end = add(clock_.now, time);
    if (remote.kind != RemoteKind::per_npu) {
        const auto port = static_cast<std::size_t>(remote.kind == RemoteKind::pool ? 0 : plan_.npu_of[rank] / remote.npus_per_node);
        if (port >= remote_free_.size()) remote_free_.resize(port + 1, 0);
        end = add(std::max(clock_.now, remote_free_[port]), time);
        remote_free_[port] = end;
    }
    clock_.at(end, BatchClock::done, {static_cast<std::uint64_t>(rank) << 32 | node, 0, node_over, rank, node});
}

}  // namespace astrarium
