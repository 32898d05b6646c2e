// Nodes: the ready set, lanes, and what issuing a node does.

inline void Astra::fire(std::uint32_t rank) {
    const Program& program = plan_.program(rank);
    for (std::size_t node = 0; node < program.nodes(); ++node)
        if (program.parents[node] == 0) ranks_[rank].ready.push(program.lane[node], static_cast<std::uint32_t>(node));
    issue_ready(rank);
    check_finished(rank);
}

inline void Astra::complete(std::uint32_t rank, std::uint32_t node) {
    finish_node(rank, node, false);
    issue_ready(rank);
    check_finished(rank);
}

inline void Astra::finish_node(std::uint32_t rank, std::uint32_t node, bool) {
    Rank& r = ranks_[rank];
    const Program& program = plan_.programs[r.program];
    if (const int lane = program.lane[node]; lane >= 0) --r.inflight[lane];
    --r.ongoing;
    if (record_) end_[r.node_base + node] = clock_.now;
    for (std::int32_t e = program.child_ptr[node]; e < program.child_ptr[node + 1]; ++e) {
        const auto child = static_cast<std::uint32_t>(program.child[static_cast<std::size_t>(e)]);
        if (--left_[r.node_base + child] == 0) r.ready.push(program.lane[child], child);
    }
}

// Every ready node of a snapshot, in ascending order, that finds room on its lane. A node freed by a SKIP inside the
// snapshot waits for the rank's next event; when nothing is in flight that event would never come, so look again.
inline void Astra::issue_ready(std::uint32_t rank) {
    Rank& r = ranks_[rank];
    if (r.ready.empty()) return;
    const Program& program = plan_.programs[r.program];
    for (bool again = true; again;) {
        again = false;
        std::vector<std::pair<int, std::uint32_t>> later;  // freed inside this snapshot
        for (;;) {
            int best_lane = -2;
            std::uint32_t best = none;
            for (int lane = -1; lane < lane_count; ++lane) {
                if (r.ready.empty(lane) || (lane >= 0 && r.inflight[lane] >= static_cast<std::uint32_t>(plan_.lanes[lane])))
                    continue;
                if (r.ready.lowest(lane) < best) best = r.ready.lowest(lane), best_lane = lane;
            }
            if (best_lane == -2) break;
            r.ready.pop(best_lane);
            const auto kind = static_cast<Kind>(program.kind[best]);
            if (kind != Kind::skip) {
                issue(rank, best);
                continue;
            }
            // SKIP: completes at once, its children are not part of this snapshot.
            if (best_lane >= 0) ++r.inflight[best_lane];
            ++r.ongoing;
            busy_[rank] += program.busy[best];
            if (record_) start_[r.node_base + best] = clock_.now;
            ReadySet waiting;
            std::swap(waiting, r.ready);
            finish_node(rank, best, true);
            for (int lane = -1; lane < lane_count; ++lane)
                for (const std::uint32_t node : r.ready.all(lane)) later.emplace_back(lane, node);
            std::swap(waiting, r.ready);
        }
        for (const auto& [lane, node] : later) r.ready.push(lane, node);
        again = !later.empty() && r.ongoing == 0;
    }
}

inline void Astra::issue(std::uint32_t rank, std::uint32_t node) {
    Rank& r = ranks_[rank];
    const Program& program = plan_.programs[r.program];
    if (const int lane = program.lane[node]; lane >= 0) ++r.inflight[lane];
    ++r.ongoing;
    busy_[rank] += program.busy[node];
    if (record_) start_[r.node_base + node] = clock_.now;
    const auto at = static_cast<std::size_t>(plan_.slot_ptr[rank]) +
                    static_cast<std::size_t>(program.slot[node] < 0 ? 0 : program.slot[node]);
    switch (static_cast<Kind>(program.kind[node])) {
        case Kind::delay: own(rank, program.duration[node], node_done, rank, node); break;
        case Kind::collective: issue_collective(rank, node); break;
        case Kind::send:
            send({plan_.slot_b[at], program.size[node], rank, static_cast<std::uint32_t>(plan_.slot_a[at])},
                 {Callback::node, rank, node}, true);
            break;
        case Kind::recv:
            if (static_cast<std::size_t>(plan_.slot_a[at]) >= plan_.ranks())
                throw BadTrace("rank " + std::to_string(rank) + ", " + describe(rank, node) + ": its peer rank does not exist");
            receive({plan_.slot_b[at], program.size[node], static_cast<std::uint32_t>(plan_.slot_a[at]), rank},
                    {Callback::node, rank, node}, true);
            break;
        case Kind::remote: issue_remote(rank, node); break;
        case Kind::skip: break;
    }
}

inline void Astra::check_finished(std::uint32_t rank) {
    Rank& r = ranks_[rank];
    if (r.finished || r.ongoing != 0 || !r.ready.empty()) return;
    r.finished = true;
    finish_[rank] = clock_.now;
}

// Remote memory: access = latency + trunc(size / bandwidth) ns; a node's or the pool's port serves one at a time.
inline void Astra::issue_remote(std::uint32_t rank, std::uint32_t node) {
    const Remote& remote = plan_.remote;
    if (remote.kind == RemoteKind::none)
        throw Unsupported("rank " + std::to_string(rank) + ", " + describe(rank, node) +
                          ": a remote memory access, but the system has no remote memory");
    if (remote.kind == RemoteKind::per_npu) return start_remote(rank, node, none);
    const std::uint32_t port =
        remote.kind == RemoteKind::pool ? 0 : static_cast<std::uint32_t>(plan_.npu_of[rank] / remote.npus_per_node);
    if (port >= remote_busy_.size()) {
        remote_busy_.resize(port + 1);
        remote_waiting_.resize(port + 1);
    }
    if (remote_busy_[port])
        remote_waiting_[port].emplace_back(rank, node);
    else
        start_remote(rank, node, port);
}

inline void Astra::start_remote(std::uint32_t rank, std::uint32_t node, std::uint32_t port) {
    const double size = static_cast<double>(plan_.program(rank).size[node]);
    const Tick time = add(plan_.remote.latency * 1000, ticks(size / plan_.remote.bandwidth, plan_.network.whole_ns));
    own(rank, time, node_done, rank, node);
    if (port == none) return;
    own(rank, time, remote_free, port);
    remote_busy_[port] = true;
}

inline void Astra::remote_done(std::uint32_t port) {
    remote_busy_[port] = false;
    if (remote_waiting_[port].empty()) return;
    const auto [rank, node] = remote_waiting_[port].front();
    remote_waiting_[port].pop_front();
    start_remote(rank, node, port);
}

inline std::string Astra::describe(std::uint32_t rank, std::uint32_t node) const {
    const Program& program = plan_.program(rank);
    static const char* const names[] = {"delay", "collective", "send", "recv", "remote access", "skip"};
    std::string text = "node " + std::to_string(program.node_id[node]) + " (" + names[program.kind[node]];
    const auto kind = static_cast<Kind>(program.kind[node]);
    const auto at = static_cast<std::size_t>(plan_.slot_ptr[rank]) +
                    static_cast<std::size_t>(program.slot[node] < 0 ? 0 : program.slot[node]);
    if (kind == Kind::send || kind == Kind::recv)
        text += std::string(kind == Kind::send ? " to " : " from ") + std::to_string(plan_.slot_a[at]) + ", tag " +
                std::to_string(plan_.slot_b[at]) + ", " + std::to_string(program.size[node]) + " bytes";
    return text + ")";
}
