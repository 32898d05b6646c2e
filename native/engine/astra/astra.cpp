#include "astra/astra.hpp"

#include "plan/run.hpp"

namespace astrarium {

#include "astra/astra_nodes.inl"
#include "astra/astra_collectives.inl"
#include "astra/astra_machines.inl"
#include "astra/astra_messages.inl"
#include "astra/astra_custom.inl"

Astra::Astra(const Plan& plan, bool record, bool alone)
    : plan_(plan), policy_(plan.policy), record_(record), alone_(alone), geometry_(plan.network), membership_(plan), usage_(plan.network.dims.size()) {
    const std::size_t ranks = alone ? 1 : plan.ranks(), dims = plan.network.dims.size();
    if (plan.network.medium->links && dims != 1)
        throw Unsupported("the congestion-aware back end of ASTRA-sim has one dim, this network has " + std::to_string(dims));
    batches_.resize(ranks);
    ranks_.resize(ranks);
    std::size_t nodes = 0;
    for (std::size_t r = 0; r < plan.ranks(); ++r) {
        ranks_[r].program = static_cast<std::uint32_t>(plan.program_of[r]);
        ranks_[r].node_base = node_number(nodes);
        nodes += plan.program(r).nodes();
    }
    left_.reserve(nodes);
    for (std::size_t r = 0; r < plan.ranks(); ++r) left_.insert(left_.end(), plan.program(r).parents.begin(), plan.program(r).parents.end());
    if (record) start_.assign(nodes, -1), end_.assign(nodes, -1);
    finish_.assign(ranks, -1);
    busy_.assign(ranks, 0);
    groups_.resize(plan.groups.size() + 1);
    queue_count_ = static_cast<std::uint32_t>(dims) * static_cast<std::uint32_t>(policy_.queues_per_dim);
    threshold_ = static_cast<std::uint32_t>((policy_.active_chunks + policy_.queues_per_dim - 1) / policy_.queues_per_dim);
    queues_.resize(ranks * queue_count_);
    running_.assign(ranks * queue_count_, 0);
    last_insert_.assign(ranks * queue_count_, {-1, none});
    Allocator allocator;
    allocator.last = static_cast<std::uint32_t>(policy_.queues_per_dim) / 2;
    allocators_.assign(ranks * dims, allocator);
    tree_turn_.assign(ranks * 16 * dims, 0);
    const auto n = static_cast<std::size_t>(plan.network.dims[0].npus);
    if (plan.network.medium->links)
        links_.resize(plan.network.dims[0].shape == Shape::fully_connected ? n * n : 2 * n + 2);
    if (record) {
        const std::size_t ports = plan.network.medium->links ? links_.size() : static_cast<std::size_t>(plan.npus) * dims;
        port_bytes_.assign(ports, 0), port_busy_.assign(ports, 0);
    }
    if (policy_.shared_bus)
        for (std::uint32_t r = 0; r < ranks; ++r)
            buses_.emplace_back(
                *policy_.shared_bus, [this, r](Tick delta, std::uint32_t code) { own(r, delta, bus_event, r, code); },
                [this, r](std::uint32_t stream, bool reduces) { handle_own(r, {none, bundle_ready, stream, reduces}); });
}

Outcome Astra::run() {
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) fire(r);
    clock_.run([this](const Event& event) { handle(event); });
    explain_stall();
    return outcome();
}

inline void Astra::own(std::uint32_t rank, Tick delta, std::uint32_t kind, std::uint32_t a, std::uint32_t b) {
    const Tick time = add(clock_.now, delta);
    std::uint32_t id = own_free_;
    if (id == none) {
        id = static_cast<std::uint32_t>(own_pool_.size());
        own_pool_.emplace_back();
    } else {
        own_free_ = own_pool_[id].next;
    }
    own_pool_[id] = {none, kind, a, b};
    auto& open = batches_[rank];
    for (Batch& batch : open) {
        if (batch.time != time) continue;
        own_pool_[batch.tail].next = id;
        batch.tail = id;
        return;
    }
    open.push_back({time, id, id});
    clock_.at(time, {own_batch, rank, 0});
}

inline void Astra::run_batch(std::uint32_t rank) {
    std::uint32_t id = none;
    for (const Batch& batch : batches_[rank])
        if (batch.time == clock_.now) id = batch.head;
    for (;;) {
        const Own event = own_pool_[id];
        handle_own(rank, event);
        const std::uint32_t next = own_pool_[id].next;  // handling may have appended
        own_pool_[id].next = own_free_;
        own_free_ = id;
        if (next == none) break;
        id = next;
    }
    auto& open = batches_[rank];
    for (std::size_t i = 0; i < open.size(); ++i) {
        if (open[i].time != clock_.now) continue;
        open[i] = open.back();
        open.pop_back();
        return;
    }
}

inline void Astra::handle_own(std::uint32_t rank, const Own& event) {
    switch (event.kind) {
        case node_done: return complete(event.a, event.b);
        case bundle_ready:
            if (event.b) return own(rank, streams_[event.a].reduce_delay, bundle_ready, event.a, 0);
            return run_general(event.a);
        case remote_free: return remote_done(event.a);
        case custom_done: return custom_completed(event.a, event.b);
        case bus_event: return buses_[event.a].run(event.b, clock_.now);
        default: break;
    }
}

inline void Astra::handle(const Event& event) {
    switch (event.kind) {
        case own_batch: return run_batch(event.a);
        case chunk_arrives:
            return chunk_arrived(event.a, static_cast<std::uint32_t>(event.b >> 32), static_cast<std::uint32_t>(event.b));
        case chunk_received:
            if (watch_) note_arrival(streams_[event.a].rank, event.a, none);
            return run_received(event.a);
        case message_arrives: return message_arrived(event.a);
        case callback_due: {
            const Callback c = callbacks_[event.a];
            callback_free_.push_back(event.a);
            return call(c);
        }
        case next_hop: {
            const Message m = messages_[event.a];
            if (m.at != m.destination) return hop(event.a);
            messages_[event.a].next = message_free_;
            message_free_ = event.a;
            return handle(m.then);
        }
        case link_free: return link_freed(event.a);
        default: break;
    }
}

// One sentence per rank that is not finished: what its unfinished nodes wait for.
void Astra::explain_stall() const {
    std::vector<std::string> waits;
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
        const Program& program = plan_.program(r);
        std::size_t blocked = 0;
        for (std::size_t n = 0; n < program.nodes(); ++n) blocked += left_[ranks_[r].node_base + n] > 0;
        if (ranks_[r].finished && blocked == 0) continue;
        std::string text = "rank " + std::to_string(r) + ":";
        if (ranks_[r].finished) {
            (text += ' ') += std::to_string(blocked);
            waits.push_back(text += " nodes never start: they wait for each other");
            continue;
        }
        for (const Group& group : groups_)
            for (const auto& [serial, at] : group.open) {
                const Instance& i = instances_[at];
                for (std::uint32_t p = 0; p < i.members; ++p) {
                    if (i.node[p] == none || i.left[p] == 0) continue;
                    if (membership_.rank(i.group, p) != r) continue;
                    (text += ' ') += describe(r, i.node[p]);
                    for (std::uint32_t q = 0; q < i.members; ++q)
                        if (i.node[q] == none) {
                            text += " waits for rank " + std::to_string(membership_.rank(i.group, q));
                            break;
                        }
                }
            }
        for (const auto& [key, lane] : lanes_)
            for (const std::uint32_t id : lane.entries) {
                const Entry& e = entries_[id];
                if (e.wanted && e.received.what == Callback::node && e.received.a == r)
                    (text += ' ') += describe(r, e.received.b) + " waits for a send that never comes";
            }
        for (int lane = -1; lane < lane_count; ++lane)
            if (!ranks_[r].ready.empty(lane)) (text += ' ') += describe(r, ranks_[r].ready.lowest(lane)) + " waits for its lane";
        if (blocked) (text += ' ') += std::to_string(blocked) + " nodes wait for these";
        waits.push_back(std::move(text));
    }
    if (!waits.empty()) throw Stall(std::move(waits));
}

Outcome Astra::outcome() {
    Outcome out;
    out.events = clock_.handled;
    out.finish = finish_;
    out.busy = busy_;
    for (std::size_t r = 0; r < ranks_.size(); ++r) out.row.push_back(static_cast<std::int32_t>(r));
    if (!record_) return out;
    out.node_ptr.push_back(0);
    for (std::size_t r = 0; r < plan_.ranks(); ++r)
        out.node_ptr.push_back(out.node_ptr.back() + static_cast<std::int64_t>(plan_.program(r).nodes()));
    out.start = start_, out.end = end_;
    usage_.report(out);
    const bool links = plan_.network.medium->links;
    const auto n = static_cast<std::int32_t>(plan_.network.dims[0].npus);
    for (std::size_t p = 0; p < port_bytes_.size(); ++p) {
        if (port_bytes_[p] == 0) continue;
        const auto dims = static_cast<std::int32_t>(plan_.network.dims.size());
        auto i = static_cast<std::int32_t>(p);
        std::int32_t dim = 0, from = i, to = -1;
        if (!links) {
            dim = i % dims, from = i / dims;
        } else if (plan_.network.dims[0].shape == Shape::ring) {
            from = i / 2, to = wrap(from + (i % 2 ? -1 : 1), n);
        } else if (plan_.network.dims[0].shape == Shape::switch_) {
            from = i < n ? i : -1, to = i < n ? -1 : i - n;
        } else {
            from = i / n, to = i % n;
        }
        out.link_dim.push_back(dim), out.link_from.push_back(from), out.link_to.push_back(to);
        out.link_bytes.push_back(port_bytes_[p]), out.link_busy.push_back(port_busy_[p]);
    }
    return out;
}

Alone Astra::run_alone() {
    watch_ = true;
    usage_.keep_steps();
    const Collective& c = plan_.collectives[0];
    const std::uint32_t instance = instance_for(membership_.all(), 0, c, 0, 0, 0);
    start_chunks(instance, 0, 0, 0);
    clock_.run([this](const Event& event) { handle(event); });
    if (instances_[instance].live) tie_ = true;  // it never ends: let the whole run say why
    Alone out{alone_done_, {}, clock_.now, tie_, clock_.handled, {}, {0}, usage_.steps(), {}};
    if (record_) out.loads = loads_of(outcome(), {plan_.npu_of.data, 1});
    return out;
}

Alone Astra::run_members() {
    watch_ = true;
    usage_.keep_steps();
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) fire(r);
    clock_.run([this](const Event& event) { handle(event); });
    for (const Rank& rank : ranks_) tie_ |= !rank.finished;
    Alone out{0, finish_, clock_.now, tie_, clock_.handled, {}, std::vector<std::uint8_t>(ranks_.size(), 0), usage_.steps(), {}};
    if (record_) out.loads = loads_of(outcome(), plan_.npu_of);
    return out;
}

Outcome run_astra(const Plan& plan, bool record) { return Astra(plan, record).run(); }
Alone run_astra_alone(const Plan& plan, bool record) { return Astra(plan, record, true).run_alone(); }
Alone run_astra_members(const Plan& plan, bool record) { return Astra(plan, record).run_members(); }

Tick unshared_time(const Plan& plan, std::uint32_t from, std::uint32_t to, std::int64_t size, Load& load) {
    std::size_t dim = 0;
    const Tick time = unshared(plan, Geometry(plan.network), static_cast<int>(from), static_cast<int>(to), size, dim);
    load = {static_cast<std::int32_t>(dim), 0, false, size, ticks(static_cast<double>(size) / plan.network.dims[dim].bandwidth, true)};
    return time;
}

std::vector<std::vector<Load>> loads_of(const Outcome& outcome, const View<std::int32_t>& npu_of) {
    std::vector<std::vector<Load>> out(npu_of.size);
    std::unordered_map<std::int32_t, std::size_t> member;
    for (std::size_t p = 0; p < npu_of.size; ++p) member.emplace(npu_of[p], p);
    for (std::size_t k = 0; k < outcome.link_dim.size(); ++k) {
        const bool inward = outcome.link_from[k] < 0;
        const auto found = member.find(inward ? outcome.link_to[k] : outcome.link_from[k]);
        if (found == member.end()) continue;
        const auto port = outcome.link_port.empty() ? static_cast<std::int32_t>(out[found->second].size()) : outcome.link_port[k];
        out[found->second].push_back({outcome.link_dim[k], port, inward, outcome.link_bytes[k], outcome.link_busy[k]});
    }
    return out;
}

}  // namespace astrarium
