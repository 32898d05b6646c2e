#include "fold/fold.hpp"

#include <algorithm>
#include <set>

#include "plan/slots.hpp"

namespace astrarium {

Fold::Fold(const Plan& plan, bool record, Facts& facts, const std::set<Labels>& split)
    : plan_(plan), record_(record), astra_(plan.policy.order == Order::astra_sim), facts_(facts), store_(facts.store), held_classes_(facts.classes(split)), classes_(*held_classes_), idle_(plan, PortRows::looped(), false), usage_(plan.network.dims.size()), programs_(plan.programs) {
    check_supported();
    for (const Dim& dim : plan.network.dims) meshes_ = meshes_ || dim.shape == Shape::mesh;
    std::size_t nodes = 0;
    for (const std::int32_t rank : classes_.first) {
        Class k;
        k.program = &programs_[static_cast<std::size_t>(plan.program_of[static_cast<std::size_t>(rank)])];
        k.slots = static_cast<std::size_t>(plan.slot_ptr[static_cast<std::size_t>(rank)]);
        k.node_base = node_number(nodes);
        k.rank = static_cast<std::uint32_t>(rank);
        k.left = static_cast<std::uint32_t>(k.program->nodes());
        k.out.resize(plan.network.dims.size()), k.in.resize(plan.network.dims.size());
        k.issued_on.assign(classes_.first_group.size(), 0);
        nodes += k.program->nodes();
        left_.insert(left_.end(), k.program->parents.begin(), k.program->parents.end());
        class_.push_back(std::move(k));
    }
    if (record) start_.assign(nodes, -1), end_.assign(nodes, -1);
    finish_.assign(class_.size(), 0);
    busy_.assign(class_.size(), 0);
    class_size_.assign(class_.size(), 0);
    for (const std::int32_t c : classes_.of) ++class_size_[static_cast<std::size_t>(c)];
    for (const std::int32_t group : classes_.first_group) {
        std::vector<std::uint32_t> found;
        if (group < 0)
            for (std::uint32_t c = 0; c < class_.size(); ++c) found.push_back(c);
        else
            for (const std::int32_t member : plan.groups[static_cast<std::size_t>(group)])
                found.push_back(static_cast<std::uint32_t>(classes_.of[static_cast<std::size_t>(member)]));
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
        participants_.push_back(std::move(found));
        kind_size_.push_back(static_cast<std::uint32_t>(group < 0 ? plan.ranks() : plan.groups[static_cast<std::size_t>(group)].size));
    }
    if (const std::size_t pairs = plan.collectives.size() * kind_size_.size(); pairs < 1u << 20) together_.assign(pairs, nullptr);
}

void Fold::check_supported() const {
    const Policy& policy = plan_.policy;
    if (policy.rendezvous) throw Unfoldable{"rendezvous"};
    if (policy.shared_bus) throw Unfoldable{"a shared local bus"};
    if (policy.queues_per_dim > 1) throw Unfoldable{"several queues per dim"};
    if (const char* why = never_folds(plan_)) throw Unfoldable{why};
    const bool shared = plan_.network.medium->links;
    for (const Collective& c : plan_.collectives) {
        if (c.custom) throw Unfoldable{"a custom collective"};
        for (const Chunk& chunk : c.chunks)
            for (const Phase& phase : chunk.phases)
                if (phase.algorithm == Algorithm::double_binary_tree) throw Unfoldable{"ASTRA-sim's tree counters"};
    }
    if (!shared) return;
    if (record_ && plan_.ranks() < static_cast<std::size_t>(plan_.npus)) throw Unfoldable{"NPUs without a rank pass messages on"};
    // Links carry other ranks' messages: only collectives of everybody, one at a time, keep to themselves.
    if (!classes_.partner_slot.empty()) throw Unfoldable{"messages between ranks over shared links"};
    for (const std::int32_t rank : classes_.first)
        for (auto s = static_cast<std::size_t>(plan_.slot_ptr[static_cast<std::size_t>(rank)]);
             s < static_cast<std::size_t>(plan_.slot_ptr[static_cast<std::size_t>(rank) + 1]); ++s)
            if (plan_.slot_b[s] >= 0 && plan_.groups[static_cast<std::size_t>(plan_.slot_b[s])].size != plan_.ranks())
                throw Unfoldable{"collectives of groups over shared links"};
}

Outcome Fold::run() {
    start();
    while (!pending_.empty()) {
        now_ = pending_.top().time;
        instant();
        if (recurrence_ && recurrence_->due() && (pending_.empty() || pending_.top().time > now_)) look_for_periods();
    }
    for (const Class& k : class_)
        if (k.left) throw Endless{{"the run does not end"}};
    return outcome();
}

void Fold::start() {
    // One rank in two groups of one kind would meet itself.
    for (Class& k : class_) {
        std::set<std::int32_t> groups, kinds;
        const std::vector<SlotUse>& uses = facts_.uses()[static_cast<std::size_t>(plan_.program_of[k.rank])];
        for (std::size_t s = 0; s < uses.size(); ++s) {
            if (uses[s].kind != Kind::collective) continue;
            const std::int32_t group = plan_.slot_b[k.slots + s];
            if (group >= 0 && groups.insert(group).second && !kinds.insert(classes_.group_kind[static_cast<std::size_t>(group)]).second)
                throw Unfoldable{"a rank in two groups of one kind"};
        }
    }
    if (!record_) {
        std::vector<std::uint32_t> program_of, base;
        for (const Class& k : class_) program_of.push_back(static_cast<std::uint32_t>(plan_.program_of[k.rank])), base.push_back(k.node_base);
        recurrence_ = std::make_unique<Recurrence>(program_of, base, programs_, left_, facts_.beats());
    }
    for (std::uint32_t c = 0; c < class_.size(); ++c)
        for (std::uint32_t n = 0; n < class_[c].program->nodes(); ++n)
            if (class_[c].program->parents[n] == 0) push_ready(class_[c], n);
    for (std::uint32_t c = 0; c < class_.size(); ++c) astra_ ? issue_ready(c) : issue_by_lane(c);
}

// All that ends in one round of an instant: what is due, what takes no time after that, then what arrivals end. Natively
// every rank then looks once. ASTRA-sim looks at its ready nodes after each completion; where several of a rank come at
// once, their order must not matter.
void Fold::instant() {
    std::vector<std::uint32_t>& touched = touched_;
    touched.clear();
    late_ = pending_.top().late || (late_ && last_ == now_);
    last_ = now_;
    for (const bool late = pending_.top().late; !pending_.empty() && pending_.top().time == now_ && pending_.top().late == late;) {
        const Event event = pending_.top();
        pending_.pop();
        touched.push_back(event.cls);
        if (event.node == none) continue;
        class_[event.cls].completing.push_back(event.node);
        ++events_;
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const std::uint32_t c : touched) {
        Class& k = class_[c];
        if (astra_ && k.completing.size() > 1 && order_matters(c)) throw Unfoldable{"ranks race within one ns"};
        std::vector<std::uint32_t>& nodes = ended_;
        nodes.clear();
        std::swap(nodes, k.completing);
        std::sort(nodes.begin(), nodes.end());
        const bool several = nodes.size() > 1;
        for (const std::uint32_t node : nodes) {
            complete(c, node);
            if (astra_) issue_ready(c);
        }
        if (!astra_) issue_by_lane(c);
        if (astra_ && several && !pending_.empty() && pending_.top().time == now_)
            throw Unfoldable{"ranks race within one ns"};
    }
}

void Fold::push_ready(Class& k, std::uint32_t node) const {
    const int lane = k.program->lane[node];
    if (!astra_ && lane == lane_comm)
        k.comm.emplace_back(node, now_);
    else
        k.ready.push(lane, node);
}

void Fold::finish_node(Class& k, std::uint32_t node, std::vector<std::int32_t>& left) const {
    const Program& program = *k.program;
    if (const int lane = program.lane[node]; lane >= 0) --k.inflight[lane];
    --k.ongoing;
    --k.left;
    for (std::int32_t e = program.child_ptr[node]; e < program.child_ptr[node + 1]; ++e) {
        const auto child = static_cast<std::uint32_t>(program.child[static_cast<std::size_t>(e)] - program.skipped);
        if (--left[child] == 0) push_ready(k, child);
    }
}

void Fold::complete(std::uint32_t c, std::uint32_t node) {
    Class& k = class_[c];
    const Program& program = *k.program;
    if (const int lane = program.lane[node]; lane >= 0) --k.inflight[lane];
    --k.ongoing;
    --k.left;
    if (record_) end_[k.node_base + node] = now_;
    finish_[c] = add(now_, skipped_);
    for (std::int32_t e = program.child_ptr[node]; e < program.child_ptr[node + 1]; ++e) {
        const auto child = static_cast<std::uint32_t>(program.child[static_cast<std::size_t>(e)] - program.skipped);
        if (--left_[k.node_base + child] == 0) {
            push_ready(k, child);
            if (recurrence_) recurrence_->ready(c, child);
        } else if (recurrence_) {
            recurrence_->waits(c, child);
        }
    }
    if (recurrence_) recurrence_->completed(c, node);
}

std::uint32_t Fold::take_comm(Class& k) const {
    const auto better = [&](const auto& x, const auto& y) {
        if (plan_.policy.lifo == 0) {
            const auto priority = [&](std::uint32_t node) {
                if (static_cast<Kind>(k.program->kind[node]) != Kind::collective) return std::int32_t{0};
                return plan_.slot_c[k.slots + static_cast<std::size_t>(k.program->slot[node])];
            };
            const std::int32_t a = priority(x.first), b = priority(y.first);
            if (a != b) return a > b;
        } else if (x.second != y.second) {
            return plan_.policy.lifo > 0 ? x.second > y.second : x.second < y.second;
        }
        return x.first < y.first;
    };
    const auto best = std::min_element(k.comm.begin(), k.comm.end(), better);
    const std::uint32_t node = best->first;
    *best = k.comm.back();
    k.comm.pop_back();
    return node;
}

// The next node to issue under ASTRA-sim: ascending id.
bool Fold::next_ready(Class& k, std::uint32_t& node) const {
    int best_lane = -2;
    std::uint32_t best = none;
    for (int lane = -1; lane < lane_count; ++lane) {
        if (lane >= 0 && k.inflight[lane] >= static_cast<std::uint32_t>(plan_.lanes[lane])) continue;
        if (k.ready.empty(lane) || k.ready.lowest(lane) >= best) continue;
        best = k.ready.lowest(lane), best_lane = lane;
    }
    if (best_lane == -2) return false;
    k.ready.pop(best_lane);
    node = best;
    return true;
}

// ASTRA-sim: a snapshot of ready nodes, lowest id first. What a SKIP frees is not part of it: the rank looks again at its
// next event, or at once when it has nothing in flight.
void Fold::issue_ready(std::uint32_t c) {
    Class& k = class_[c];
    for (bool again = true; again;) {
        std::vector<std::pair<int, std::uint32_t>> later;
        std::uint32_t node = 0;
        while (next_ready(k, node)) {
            if (static_cast<Kind>(k.program->kind[node]) != Kind::skip) {
                issue(c, node);
                continue;
            }
            if (const int lane = k.program->lane[node]; lane >= 0) ++k.inflight[lane];
            ++k.ongoing;
            busy_[c] += k.program->busy[node];
            if (record_) start_[k.node_base + node] = now_;
            ReadySet waiting;
            std::swap(waiting, k.ready);
            complete(c, node);
            for (int lane = -1; lane < lane_count; ++lane)
                for (const std::uint32_t freed : k.ready.all(lane)) later.emplace_back(lane, freed);
            std::swap(waiting, k.ready);
        }
        for (const auto& [lane, freed] : later) k.ready.push(lane, freed);
        again = !later.empty() && k.ongoing == 0;
    }
}

// Natively lane by lane, each once: what a node that ends as it is issued makes ready on an earlier lane waits for another look.
void Fold::issue_by_lane(std::uint32_t c) {
    Class& k = class_[c];
    for (int lane = -1; lane < lane_count; ++lane) {
        const auto room = [&] { return lane < 0 || k.inflight[lane] < static_cast<std::uint32_t>(plan_.lanes[lane]); };
        if (lane == lane_comm) {
            while (!k.comm.empty() && room()) issue(c, take_comm(k));
            continue;
        }
        while (!k.ready.empty(lane) && room()) {
            const std::uint32_t node = k.ready.lowest(lane);
            k.ready.pop(lane);
            issue(c, node);
        }
    }
}

void Fold::issue(std::uint32_t c, std::uint32_t node) {
    Class& k = class_[c];
    const Program& program = *k.program;
    if (const int lane = program.lane[node]; lane >= 0) ++k.inflight[lane];
    ++k.ongoing;
    busy_[c] += program.busy[node];
    if (record_) start_[k.node_base + node] = now_;
    switch (static_cast<Kind>(program.kind[node])) {
        case Kind::delay:
        case Kind::skip: pending_.push({add(now_, program.duration[node]), false, c, node}); break;
        case Kind::collective: issue_collective(c, node); break;
        case Kind::send: send(c, node); break;
        case Kind::recv: receive(c, node); break;
        case Kind::remote: {
            if (plan_.remote.kind != RemoteKind::per_npu) throw Unfoldable{"shared or missing remote memory"};
            const Tick time = ticks(static_cast<double>(program.size[node]) / plan_.remote.bandwidth, plan_.network.whole_ns);
            pending_.push({add(now_, add(plan_.remote.latency * 1000, time)), false, c, node});
            break;
        }
    }
}

// --- several completions of one rank at one instant (ASTRA-sim)

std::vector<std::uint32_t> Fold::dry_run(std::uint32_t c, const std::vector<std::uint32_t>& order) const {
    Class k = class_[c];
    std::vector<std::int32_t> left(left_.begin() + k.node_base, left_.begin() + k.node_base + static_cast<std::ptrdiff_t>(k.program->nodes()));
    std::vector<std::uint32_t> issued;
    for (const std::uint32_t node : order) {
        finish_node(k, node, left);
        std::uint32_t next = 0;
        while (next_ready(k, next)) {
            if (static_cast<Kind>(k.program->kind[next]) == Kind::skip) throw Unfoldable{"ranks race within one ns"};
            if (const int lane = k.program->lane[next]; lane >= 0) ++k.inflight[lane];
            issued.push_back(next);
        }
    }
    std::sort(issued.begin(), issued.end());
    return issued;
}

bool Fold::order_matters(std::uint32_t c) {
    std::vector<std::uint32_t> order = class_[c].completing;
    if (order.size() > 4) return true;
    std::sort(order.begin(), order.end());
    const std::vector<std::uint32_t> first = dry_run(c, order);
    while (std::next_permutation(order.begin(), order.end()))
        if (dry_run(c, order) != first) return true;
    return false;
}

// --- messages

// When a message that leaves now arrives. Natively both NPUs' ports of its dims must have nothing else to carry.
Tick Fold::message_time(std::uint32_t c, std::uint32_t other, std::uint32_t peer, std::int64_t size, bool& late) {
    const std::int32_t from = plan_.npu_of[class_[c].rank], to = plan_.npu_of[peer];
    if (astra_) {
        Load load;
        const Tick time = unshared_time(plan_, static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), size, load);
        carry(c, {load});
        leave(c, {load});
        return add(now_, time);
    }
    const Flight flight(from, to, size);
    std::vector<Load> out, in;
    if (idle_.passes(flight)) throw Unfoldable{passing};
    const Ports::Transit t = idle_.transit(flight, out, in);
    carry(c, out);
    carry(other, in);
    leave(c, out);
    for (const Load& load : out) occupy(class_[c].out[static_cast<std::size_t>(load.dim)], now_, add(now_, t.held));
    for (const Load& load : in)
        occupy(class_[other].in[static_cast<std::size_t>(load.dim)], add(now_, t.head), add(now_, t.delivered));
    if (t.delivered == 0) throw Unfoldable{"messages that take no time"};
    late = t.delivered == t.head;
    return add(now_, t.delivered);
}

void Fold::carry(std::uint32_t c, const std::vector<Load>& loads) {
    if (!record_) return;
    for (const Load& load : loads) {
        Load& sum = class_[c].traffic.try_emplace({load.dim, load.port, load.inward}, load.dim, load.port, load.inward).first->second;
        sum.bytes += load.bytes, sum.busy += load.busy;
    }
}

// Ports out of a class's ranks are busy from now on.
void Fold::leave(std::uint32_t c, const std::vector<Load>& loads) {
    if (!record_) return;
    for (const Load& load : loads) usage_.add(static_cast<std::size_t>(load.dim), now_, load.busy, class_size_[c]);
}

void Fold::occupy(Tick& until_now, Tick from, Tick until) {
    if (from < until_now) throw Unfoldable{overlapping};
    until_now = std::max(until_now, until);
}

void Fold::occupy(PortLog& log, Tick from, Tick until) {
    if (log.long_enough()) forget(log);
    if (!log.occupy(from, until)) throw Unfoldable{overlapping};
}

// A collective that has not begun counts from the first of its members that came.
void Fold::forget(PortLog& log) const {
    Tick first = now_;
    for (const auto& [key, meeting] : meetings_) first = std::min(first, meeting.first);
    log.forget(first);
}

void Fold::send(std::uint32_t c, std::uint32_t node) {
    Class& k = class_[c];
    const std::size_t slot = k.slots + static_cast<std::size_t>(k.program->slot[node]);
    const auto peer = static_cast<std::uint32_t>(plan_.slot_a[slot]);
    const auto other = static_cast<std::uint32_t>(classes_.of[peer]);
    bool late = false;
    const Tick there = message_time(c, other, peer, k.program->size[node], late);
    pending_.push({there, late, c, node});
    auto& box = mail_[{other, static_cast<std::uint32_t>(classes_.partner_slot[slot])}];
    if (box.empty() || box.front().sent) return box.push_back({true, late, there, none});
    pending_.push({there, late, other, box.front().node});
    box.pop_front();
}

void Fold::receive(std::uint32_t c, std::uint32_t node) {
    auto& box = mail_[{c, static_cast<std::uint32_t>(class_[c].program->slot[node])}];
    if (box.empty() || !box.front().sent) return box.push_back({false, false, 0, node});
    const Mail mail = box.front();
    box.pop_front();
    const bool arrived = mail.there < now_ || (mail.there == now_ && late_ >= mail.late);
    pending_.push({std::max(now_, mail.there), mail.late && !arrived, c, node});
}

Outcome Fold::outcome() {
    Outcome out;
    out.row = classes_.of;
    out.finish = finish_, out.busy = busy_;
    out.events = events_, out.counted = counted_;
    out.events += measured_events();
    out.folded = true;
    if (!record_) return out;
    out.node_ptr.push_back(0);
    for (const Class& k : class_) out.node_ptr.push_back(out.node_ptr.back() + static_cast<std::int64_t>(k.program->nodes()));
    out.start = start_, out.end = end_;
    usage_.report(out);
    for (const Class& k : class_)  // the first rank of each class stands for all
        for (const auto& [key, load] : k.traffic) {
            const std::int32_t npu = plan_.npu_of[k.rank];
            out.link_dim.push_back(load.dim);
            out.link_from.push_back(load.inward ? -1 : npu), out.link_to.push_back(load.inward ? npu : -1);
            out.link_bytes.push_back(load.bytes), out.link_busy.push_back(load.busy);
        }
    return out;
}

std::uint64_t Fold::measured_events() const {
    std::uint64_t sum = 0;
    for (const auto& [key, measured] : measured_) sum += measured->events;
    return sum;
}

}  // namespace astrarium
