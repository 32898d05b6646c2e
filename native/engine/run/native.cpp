#include "run/native.hpp"

#include <algorithm>

#include "media/foreign_medium.hpp"
#include "plan/rates.hpp"
#include "plan/run.hpp"

namespace astrarium {

Native::Native(const Plan& plan, bool record, bool alone, const Plugins& plugins)
    : plan_(plan), record_(record), alone_(alone), plugins_(plugins), membership_(plan), geometry_(plan.network), programs_(&plan.programs) {
    if (plan.network.medium->ends)
        ports_ = std::make_unique<Ports>(plan, alone ? PortRows::looped() : PortRows::each(plan), record);
    else
        medium_ = plugins.network ? std::make_unique<ForeignMedium>(*plugins.network, *this) : plan.network.medium->open(plan, record, *this);
    prepare();
}

Native::Native(const Plan& plan, Beats& beats) : Native(plan, false) { count_periods(beats); }

void Native::prepare() {
    const Plan& plan = plan_;
    const std::size_t ranks = plan.ranks();
    if (!alone_) refuse_too_large(plan, record_);
    ranks_.resize(ranks);
    std::size_t nodes = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
        ranks_[r].program = static_cast<std::uint32_t>(plan.program_of[r]);
        ranks_[r].node_base = node_number(nodes);
        ranks_[r].left = static_cast<std::uint32_t>(plan.program(r).nodes());
        unfinished_ += ranks_[r].left > 0;
        nodes += plan.program(r).nodes();
    }
    parents_.reserve(nodes);
    count_parents();
    if (record_) start_.assign(nodes, -1), end_.assign(nodes, -1);
    finish_.assign(ranks, 0);
    late_.assign(ranks + alone_, 0);
    busy_.assign(ranks, 0);
    next_serial_.resize(plan.groups.size() + 1);
    open_.resize(plan.groups.size() + 1);
}

void Native::count_parents() {
    parents_.clear();
    for (std::size_t r = 0; r < plan_.ranks(); ++r) parents_.insert(parents_.end(), plan_.program(r).parents.begin(), plan_.program(r).parents.end());
}

Outcome Native::run() {
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
        const Program& program = plan_.program(r);
        for (std::uint32_t n = 0; n < program.nodes(); ++n)
            if (program.parents[n] == 0) make_ready(r, n);
    }
    if (fold_ && !scouts_) keep_history();
    if (plugins_.growth) {
        clock_.strict = true;
        plugins_.growth->source.start(handed_);
        take_work();
    }
    if (plan_.network.medium->own_clock)
        for (medium_->begin(); step_beside();) {
        }
    else
        while (!clock_.empty()) instant();
    explain_stall();
    return outcome();
}

void Native::handle(const Keyed& event) {
    switch (static_cast<What>(event.kind)) {
        case node_over: return complete_node(event.a, static_cast<std::uint32_t>(event.b));
        case send_over: {
            Message message = messages_[event.a];
            message_free_.push_back(event.a);
            return delivered(message);
        }
        case receive_over:
            return receive_complete(static_cast<std::uint32_t>(event.b >> 32), event.a, static_cast<std::uint32_t>(event.low), static_cast<std::uint32_t>(event.b));
        case phase_started: return release_sends(static_cast<std::uint32_t>(event.b), event.a);
        case phase_over: return try_leave(static_cast<std::uint32_t>(event.b), event.a);
        case look: return issue_ready(event.a);
        case leave_in_turn:
            return queue_sends(static_cast<std::uint32_t>(event.b >> 32), event.a, static_cast<std::uint32_t>(event.low), static_cast<std::uint32_t>(event.b));
        case leave_source:
            for (std::uint32_t id = event.a, next; id != none; id = next) next = messages_[id].next, depart(id);
            return;
        case reach_next: last_arrival_ = clock_.now; return arrive(event.a);
        case custom_over: return custom_complete(event.a, static_cast<std::uint32_t>(event.b));
        case measured_over:
            return clock_.at(clock_.now, BatchClock::done, {event.high, 0, node_over, event.a, event.b});
        case medium_due: return medium_->wake(event.a, clock_.now);
    }
}

// The next instant. What turns out to be wrong in it is undone.
void Native::instant() {
    try {
        clock_.instant([this](const Keyed& event) { handle(event); });
    } catch (const Unfoldable&) {
        if (back_to_ == never) throw;
    }
    if (back_to_ != never) return go_back();
    if (recurrence_ && recurrence_->due()) look_for_periods();
    if (history_) keep_history();
}

// --- messages

std::uint32_t Native::new_message() {
    if (message_free_.empty()) {
        message_free_.push_back(static_cast<std::uint32_t>(messages_.size()));
        if ((messages_.size() & 0xffff) == 0) refuse_too_many(messages_.size()), stop_if_interrupted();
        messages_.emplace_back();
    }
    const std::uint32_t id = message_free_.back();
    message_free_.pop_back();
    messages_[id] = Message{};
    return id;
}

void Native::post(std::uint32_t id) {
    const Message& m = messages_[id];
    clock_.at(clock_.now, m.receives ? BatchClock::issue : BatchClock::depart, {m.high, m.low, leave_source, id, 0});
}

void Native::depart(std::uint32_t id) {
    if (medium_) return medium_->ask(id, clock_.now);
    const Tick when = messages_[id].together > 1 ? depart_together(id) : ports_->depart(messages_[id].flight, clock_.now);
    if (image_) keep_apart(messages_[id].flight.source, out_held_);
    clock_.at(when, BatchClock::arrive, arrives(id));
}

// What arrives in one instant goes by what its receiver makes of it: by collective, chunk, phase and receive, other messages after
// these and by bytes. Then by the sender's rank and node.
Keyed Native::arrives(std::uint32_t id) const {
    const Message& m = messages_[id];
    const std::uint64_t source = std::uint64_t{m.source} << 32 | (m.high & 0xffffffffu);
    if (m.purpose != Message::chunk) return {~std::uint64_t{0}, static_cast<std::uint64_t>(m.flight.size), reach_next, id, source};
    const std::uint64_t collective = instances_[m.instance].collective, chunk = m.low >> 32;
    return {collective << 32 | chunk, std::uint64_t{m.phase} << 32 | m.receive, reach_next, id, source};
}

void Native::arrive(std::uint32_t id) {
    if (medium_) {
        if (const std::uint32_t queue = std::exchange(messages_[id].queue, none); queue != none) send_next(queue);
        return medium_->ask(id, clock_.now);
    }
    const Flight& flight = messages_[id].flight;
    if (!ports_->arrived(flight)) return depart(id);  // along a mesh
    if (image_) return land(id);
    deliver(id, ports_->deliver(flight, clock_.now));
}

// --- ends

void Native::explain_stall() const {
    if (image_ && unfinished_) throw Endless{{"the run does not end"}};
    std::vector<std::string> why(ranks_.size());
    for (std::uint32_t group = 0; group < open_.size(); ++group)
        for (const auto& [serial, at] : open_[group]) {
            const Instance& i = instances_[at];
            std::string absent;
            for (std::uint32_t p = 0; p < i.members.size() && absent.empty(); ++p)
                if (i.members[p].node == none) absent = " waits for rank " + std::to_string(membership_.rank(group, p));
            for (const Member& m : i.members)
                if (m.node != none && m.chunks_left) why[m.rank] += " " + describe(m.rank, m.node) + absent;
        }
    for (const auto& [key, meeting] : meetings_)
        for (std::size_t k = meeting.met; k < meeting.posted.size() && key.tag >= 0; ++k)
            why[key.destination] += " " + describe(key.destination, static_cast<std::uint32_t>(meeting.posted[k])) + " waits for a send that never comes";
    std::vector<std::string> waits = medium_ && unfinished_ > 0 ? medium_->waits(clock_.now, idle_) : std::vector<std::string>{};
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
        if (ranks_[r].left == 0) continue;
        say_if_it_stands(plan_, r, waits);
        std::string text = "rank " + std::to_string(r) + ":" + why[r];
        for (int lane = -1; lane < lane_count; ++lane)
            if (!ranks_[r].ready.empty(lane)) text += " " + describe(r, ranks_[r].ready.lowest(lane)) + " waits for its lane";
        if (const auto& comm = ranks_[r].comm; !comm.empty())
            text += " " + describe(r, std::min_element(comm.begin(), comm.end())->first) + " waits for its lane";
        text += " (" + std::to_string(ranks_[r].left) + " nodes unfinished)";
        waits.push_back(std::move(text));
    }
    if (!waits.empty()) throw Stall(std::move(waits));
}

Outcome Native::outcome() {
    Outcome out;
    out.events = clock_.handled, out.counted = periods_.events;
    out.finish = std::move(finish_);
    out.busy = std::move(busy_);
    for (std::size_t r = 0; r < ranks_.size() && !image_; ++r) out.row.push_back(static_cast<std::int32_t>(r));
    if (image_) out.row = image_->classes().of, out.folded = true, out.events += fold_ ? fold_->measured_events() : 0;
    if (!record_) return out;
    out.node_ptr.push_back(0);
    for (std::size_t r = 0; r < ranks_.size(); ++r)
        out.node_ptr.push_back(out.node_ptr.back() + static_cast<std::int64_t>(plan_.program(r).nodes()));
    out.start = std::move(start_), out.end = std::move(end_);
    if (traffic()) traffic()->report(out, medium_ != nullptr);
    return out;
}

Traffic* Native::traffic() { return ports_ ? &ports_->traffic : medium_->traffic(); }

Alone Native::run_alone() {
    traffic()->usage.keep_steps();
    ports_->keep_uses();
    const std::uint32_t instance = open_instance(membership_.all(), 0, 0);
    instances_[instance].members[0].node = 0;
    begin(instance, 0);
    clock_.run([this](const Keyed& event) { handle(event); });
    const bool ended = instances_[instance].members.empty();
    return {alone_done_, {}, ports_->quiet(), !ended, clock_.handled, {traffic()->loads()}, {late_[0]}, traffic()->usage.steps(), {ports_->uses(0)}};
}

Alone Native::run_members() {
    traffic()->usage.keep_steps();
    if (ports_) ports_->keep_uses();
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
        if (plan_.program(r).nodes() > 0) make_ready(r, 0);
    clock_.run([this](const Keyed& event) { handle(event); });
    bool ended = true;
    for (const Rank& rank : ranks_) ended = ended && rank.left == 0;
    Alone out{0, finish_, ports_ ? ports_->quiet() : 0, !ended, clock_.handled, {}, late_, traffic()->usage.steps(), {}};
    for (std::size_t r = 0; r < ranks_.size(); ++r)
        out.uses.push_back(ports_ ? ports_->uses(image_ ? r : static_cast<std::size_t>(plan_.npu_of[r])) : std::vector<PortUse>{});
    if (record_) out.loads = loads_of(outcome(), plan_.npu_of);
    return out;
}

Outcome run_native(const Plan& plan, bool record) { return Native(plan, record).run(); }
Outcome run_native_periods(const Plan& plan, Beats& beats) { return Native(plan, beats).run(); }
Alone run_native_alone(const Plan& plan, bool record) { return Native(plan, record, true).run_alone(); }
Alone run_native_members(const Plan& plan, bool record) { return Native(plan, record).run_members(); }

}  // namespace astrarium
