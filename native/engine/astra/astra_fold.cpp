#include "astra/astra_fold.hpp"

#include <algorithm>
#include <set>

#include "accelerate/fold.hpp"
#include "plan/slots.hpp"

namespace astrarium {
namespace {

const TimedRules rules{&run_astra_alone, &run_astra_members, true, false};

}  // namespace

AstraFold::AstraFold(const Plan& plan, bool record, Facts& facts, std::shared_ptr<const RankClasses> classes)
    : plan_(plan), record_(record), facts_(facts), held_classes_(std::move(classes)), classes_(*held_classes_),
      kinds_(plan, facts, classes_), timers_({plan, record, rules, facts, classes_, kinds_}), usage_(plan.network.dims.size()) {
    check_supported();
    std::size_t nodes = 0;
    for (const std::int32_t rank : classes_.first) {
        Class k;
        k.program = &plan.program(static_cast<std::size_t>(rank));
        k.slots = static_cast<std::size_t>(plan.slot_ptr[static_cast<std::size_t>(rank)]);
        k.node_base = node_number(nodes);
        k.rank = static_cast<std::uint32_t>(rank);
        k.left = static_cast<std::uint32_t>(k.program->nodes());
        k.issued_on.assign(kinds_.count(), 0);
        nodes += k.program->nodes();
        left_.insert(left_.end(), k.program->parents.begin(), k.program->parents.end());
        class_.push_back(std::move(k));
    }
    if (record) start_.assign(nodes, -1), end_.assign(nodes, -1);
    finish_.assign(class_.size(), 0);
    busy_.assign(class_.size(), 0);
}

void AstraFold::check_supported() const {
    check_foldable(plan_, classes_, record_);
    const Policy& policy = plan_.policy;
    if (policy.rendezvous) throw Unfoldable{"rendezvous"};
    if (policy.shared_bus) throw Unfoldable{"a shared local bus"};
    if (policy.queues_per_dim > 1) throw Unfoldable{"several queues per dim"};
    if (plan_.lanes[lane_comm] > 1)
        throw Unfoldable{"several collectives at once in the queues of ASTRA-sim's dims"};  // folding measures each alone
    for (const Collective& c : plan_.collectives)
        for (const Chunk& chunk : c.chunks)
            for (const Phase& phase : chunk.phases)
                if (phase.algorithm == Algorithm::double_binary_tree) throw Unfoldable{"ASTRA-sim's tree counters"};
    for (const std::int32_t rank : classes_.first)
        for (const SlotUse& use : facts_.uses()[static_cast<std::size_t>(plan_.program_of[static_cast<std::size_t>(rank)])])
            if (use.kind == Kind::send && use.count > 1) throw Unfoldable{"messages that share a slot"};
}

Outcome AstraFold::run() {
    start();
    while (!pending_.empty()) {
        now_ = pending_.top().time;
        instant();
    }
    for (const Class& k : class_)
        if (k.left) throw Endless{{"the run does not end"}};
    return outcome();
}

void AstraFold::start() {
    for (Class& k : class_)
        for (std::uint32_t n = 0; n < k.program->nodes(); ++n)
            if (k.program->parents[n] == 0) k.ready.push(k.program->lane[n], n);
    for (std::uint32_t c = 0; c < class_.size(); ++c) issue_ready(c);
}

// All that ends in one round of an instant: what is due, then what takes no time after that. ASTRA-sim looks at its ready nodes after
// each completion; where several of a rank come at once, their order must not matter.
void AstraFold::instant() {
    std::vector<std::uint32_t>& touched = touched_;
    touched.clear();
    for (; !pending_.empty() && pending_.top().time == now_; pending_.pop()) {
        const Event& event = pending_.top();
        touched.push_back(event.cls);
        class_[event.cls].completing.push_back(event.node);
        ++events_;
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const std::uint32_t c : touched) {
        if (class_[c].completing.size() > 1 && order_matters(c)) throw Unfoldable{"ranks race within one ns"};
        std::vector<std::uint32_t>& nodes = ended_;
        nodes.clear();
        std::swap(nodes, class_[c].completing);
        std::sort(nodes.begin(), nodes.end());
        for (const std::uint32_t node : nodes) complete(c, node), issue_ready(c);
        if (nodes.size() > 1 && !pending_.empty() && pending_.top().time == now_) throw Unfoldable{"ranks race within one ns"};
    }
}

void AstraFold::finish_node(Class& k, std::uint32_t node, std::vector<std::int32_t>& left) const {
    const Program& program = *k.program;
    if (const int lane = program.lane[node]; lane >= 0) --k.inflight[lane];
    --k.ongoing;
    --k.left;
    for (std::int32_t e = program.child_ptr[node]; e < program.child_ptr[node + 1]; ++e) {
        const auto child = static_cast<std::uint32_t>(program.child[static_cast<std::size_t>(e)]);
        if (--left[child] == 0) k.ready.push(program.lane[child], child);
    }
}

void AstraFold::complete(std::uint32_t c, std::uint32_t node) {
    Class& k = class_[c];
    const Program& program = *k.program;
    if (const int lane = program.lane[node]; lane >= 0) --k.inflight[lane];
    --k.ongoing;
    --k.left;
    if (record_) end_[k.node_base + node] = now_;
    finish_[c] = now_;
    for (std::int32_t e = program.child_ptr[node]; e < program.child_ptr[node + 1]; ++e) {
        const auto child = static_cast<std::uint32_t>(program.child[static_cast<std::size_t>(e)]);
        if (--left_[k.node_base + child] == 0) k.ready.push(program.lane[child], child);
    }
}

// The next node to issue: ascending id.
bool AstraFold::next_ready(Class& k, std::uint32_t& node) const {
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

// A snapshot of ready nodes, lowest id first. What a SKIP frees is not part of it: the rank looks again at its
// next event, or at once when it has nothing in flight.
void AstraFold::issue_ready(std::uint32_t c) {
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

void AstraFold::issue(std::uint32_t c, std::uint32_t node) {
    Class& k = class_[c];
    const Program& program = *k.program;
    if (const int lane = program.lane[node]; lane >= 0) ++k.inflight[lane];
    ++k.ongoing;
    busy_[c] += program.busy[node];
    if (record_) start_[k.node_base + node] = now_;
    switch (static_cast<Kind>(program.kind[node])) {
        case Kind::delay:
        case Kind::skip: pending_.push({add(now_, program.duration[node]), c, node}); break;
        case Kind::collective: issue_collective(c, node); break;
        case Kind::send: send(c, node); break;
        case Kind::recv: receive(c, node); break;
        case Kind::remote: {
            if (plan_.remote.kind != RemoteKind::per_npu) throw Unfoldable{"shared or missing remote memory"};
            const Tick time = ticks(static_cast<double>(program.size[node]) / plan_.remote.bandwidth, plan_.network.whole_ns);
            pending_.push({add(now_, add(plan_.remote.latency * 1000, time)), c, node});
            break;
        }
    }
}

// --- several completions of one rank at one instant

std::vector<std::uint32_t> AstraFold::dry_run(std::uint32_t c, const std::vector<std::uint32_t>& order) const {
    Class k = class_[c];
    std::vector<std::int32_t> left(left_.begin() + k.node_base,
                                   left_.begin() + k.node_base + static_cast<std::ptrdiff_t>(k.program->nodes()));
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

bool AstraFold::order_matters(std::uint32_t c) {
    std::vector<std::uint32_t> order = class_[c].completing;
    if (order.size() > 4) return true;
    std::sort(order.begin(), order.end());
    const std::vector<std::uint32_t> first = dry_run(c, order);
    while (std::next_permutation(order.begin(), order.end()))
        if (dry_run(c, order) != first) return true;
    return false;
}

// --- messages

void AstraFold::carry(std::uint32_t c, const std::vector<Load>& loads) {
    if (!record_) return;
    for (const Load& load : loads) {
        Load& sum = class_[c].traffic.try_emplace({load.dim, load.port, load.inward}, load.dim, load.port, load.inward).first->second;
        sum.bytes += load.bytes, sum.busy += load.busy;
    }
}

void AstraFold::send(std::uint32_t c, std::uint32_t node) {
    Class& k = class_[c];
    const std::size_t slot = k.slots + static_cast<std::size_t>(k.program->slot[node]);
    const auto peer = static_cast<std::uint32_t>(plan_.slot_a[slot]);
    const auto other = static_cast<std::uint32_t>(classes_.of[peer]);
    Load load;
    const std::int32_t from = plan_.npu_of[k.rank], to = plan_.npu_of[peer];
    const Tick there =
        add(now_, unshared_time(plan_, static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), k.program->size[node], load));
    carry(c, {load});
    if (record_) usage_.add(static_cast<std::size_t>(load.dim), now_, load.busy, kinds_.class_size(c));
    pending_.push({there, c, node});
    auto& box = mail_[{other, static_cast<std::uint32_t>(classes_.partner_slot[slot])}];
    if (box.empty() || box.front().sent) return box.push_back({true, there, none});
    pending_.push({there, other, box.front().node});
    box.pop_front();
}

void AstraFold::receive(std::uint32_t c, std::uint32_t node) {
    auto& box = mail_[{c, static_cast<std::uint32_t>(class_[c].program->slot[node])}];
    if (box.empty() || !box.front().sent) return box.push_back({false, 0, node});
    const Mail mail = box.front();
    box.pop_front();
    pending_.push({std::max(now_, mail.there), c, node});
}

// --- collectives: one per kind of group, measured once per pattern of arrival

void AstraFold::issue_collective(std::uint32_t c, std::uint32_t node) {
    Class& k = class_[c];
    const std::size_t slot = k.slots + static_cast<std::size_t>(k.program->slot[node]);
    const auto id = static_cast<std::uint32_t>(plan_.slot_a[slot]);
    const std::int32_t group = plan_.slot_b[slot];
    const auto kind = static_cast<std::size_t>(group < 0 ? 0 : classes_.group_kind[static_cast<std::size_t>(group)]);
    const auto& participants = kinds_.participants(kind);
    const auto place = std::lower_bound(participants.begin(), participants.end(), c);
    if (place == participants.end() || *place != c) throw Unfoldable{"a collective of a group that the rank is not in"};
    if (participants.size() == 1) return begin_collective(id, kind, {1, {now_}, {node}, id});
    const std::uint32_t serial = k.issued_on[kind]++;
    Meeting& m = meetings_[{kind, serial}];
    if (m.collective == none) {
        m.collective = id;
        m.at.assign(participants.size(), 0), m.node.assign(participants.size(), none);
    } else if (m.collective != id) {
        throw Endless{{"ranks issue a group's collectives in different orders"}};
    }
    const auto index = static_cast<std::size_t>(place - participants.begin());
    m.at[index] = now_, m.node[index] = node;
    if (++m.arrived < participants.size()) return;
    begin_collective(id, kind, m);
    meetings_.erase({kind, serial});
}

// All participants of a collective have come.
void AstraFold::begin_collective(std::uint32_t id, std::size_t kind, const Meeting& all) {
    const auto& participants = kinds_.participants(kind);
    const Tick begin = *std::min_element(all.at.begin(), all.at.end());
    const Measured& measured = timers_.measure(id, kind, all.at, begin);
    if (plan_.network.medium->on_links) {
        if (begin < links_until_) throw Unfoldable{overlapping};
        links_until_ = std::max(links_until_, add(begin, measured.quiet));
    }
    if (record_) usage_.repeat(measured.steps, begin, kinds_.groups_like(kind));
    for (std::size_t i = 0; i < participants.size(); ++i) {
        const Tick done = add(begin, measured.done[i]);
        if (done < now_) throw Unfoldable{"a member of a collective ends before another begins"};
        pending_.push({done, participants[i], all.node[i]});
        if (!measured.loads.empty()) carry(participants[i], measured.loads[measured.loads.size() == 1 ? 0 : i]);
    }
}

Outcome AstraFold::outcome() {
    Outcome out;
    out.row = classes_.of;
    out.finish = finish_, out.busy = busy_;
    out.events = events_ + timers_.events();
    out.folded = true;
    out.how = {one_of_each(class_.size())};
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

namespace {

Outcome with_classes(const Plan& plan, bool record, Facts& facts, const std::set<Labels>& split) {
    std::shared_ptr<const RankClasses> classes = facts.classes(split);
    if (!split.empty() && classes->first.size() * 2 > plan.ranks()) throw Unfoldable{"too few equal ranks"};
    return AstraFold(plan, record, facts, std::move(classes)).run();
}

}  // namespace

Outcome run_astra_folded(const Plan& plan, const FoldOptions& options) {
    Facts facts(plan, options.store, options.common);
    return fold(
        plan, options, [&](const std::set<Labels>& split) { return with_classes(plan, options.record, facts, split); },
        [&] { return run_astra(plan, options.record); });
}

}  // namespace astrarium
