// Native rule book: the state of a run as words, and what skipping periods changes.
#include "run/native.hpp"

namespace astrarium {
namespace {

constexpr std::size_t largest_state = 1 << 20;  // ranks, messages, and chunks at members

}  // namespace

void Native::count_periods(Beats& beats) {
    const auto other = [this](const Collective& c) { return c.custom || (c.lasts && !quotient_); };
    if (std::any_of(plan_.collectives.begin(), plan_.collectives.end(), other) || (medium_ && medium_->free_times().empty())) return;
    periods_.programs = plan_.programs;
    programs_ = &periods_.programs;
    std::vector<std::uint32_t> program_of, base;
    for (const Rank& rank : ranks_) program_of.push_back(rank.program), base.push_back(rank.node_base);
    recurrence_ = std::make_unique<Recurrence>(program_of, base, periods_.programs, parents_, beats);
    periods_.serials.assign(open_.size(), 0);
}

void Native::look_for_periods() {
    std::size_t size = ranks_.size() + messages_.size();
    for (const auto& open : open_)
        for (const auto& [serial, id] : open) size += instances_[id].chunks.size() + instances_[id].members.size();
    if (size > largest_state) return recurrence_->pass();
    Tick horizon = clock_.now;  // what a collective that gathers may still ask about
    for (const auto& [key, g] : gatherings_)
        for (std::size_t p = 0; p < g.node.size(); ++p)
            if (g.node[p] != none) horizon = std::min(horizon, g.at[p]);
    recurrence_->begin(clock_.now, horizon);
    write_instances();
    write_ranks();
    write_gatherings();
    write_held();
    write_events();
    if (const auto jump = recurrence_->end(counts())) skip_periods(*jump);
    periods_.issues.clear();
}

void Native::write_ranks() {
    Recurrence& to = *recurrence_;
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) to.lanes(r, ranks_[r].inflight, ranks_[r].ready, ranks_[r].comm);
    std::vector<const std::pair<const MessageKey, Meeting>*> open;
    for (const auto& entry : meetings_)
        open.push_back(&entry);
    const auto key = [](const MessageKey& k) { return std::tuple(k.destination, k.source, k.tag, k.size); };
    std::sort(open.begin(), open.end(), [&](const auto* x, const auto* y) { return key(x->first) < key(y->first); });
    to.count(open.size());
    for (const auto* entry : open) {
        const auto& [id, meeting] = *entry;
        for (const std::int64_t value : {std::int64_t{id.destination}, std::int64_t{id.source}, id.tag, id.size, std::int64_t{meeting.delivered}}) to.word(value);
        to.count(meeting.posted.size() - meeting.met);
        for (std::size_t k = meeting.met; k < meeting.posted.size(); ++k) to.node(id.destination, static_cast<std::uint32_t>(meeting.posted[k]));
    }
}

void Native::write_instances() {
    Recurrence& to = *recurrence_;
    periods_.number.assign(instances_.size(), none);
    std::uint32_t open = 0;
    for (std::uint32_t group = 0; group < open_.size(); ++group) {
        to.count(next_serial_[group].size());
        for (const std::uint32_t serial : next_serial_[group]) to.word(static_cast<std::int64_t>(serial) - issued(group));
        to.count(open_[group].size());
        for (const auto& [serial, id] : open_[group]) {
            periods_.number[id] = open++;
            const Instance& i = instances_[id];
            to.word(static_cast<std::int64_t>(serial) - issued(group)), to.word(i.collective), to.word(i.done);
            for (const Member& m : i.members) {
                to.word(m.node != none), to.word(m.chunks_left);
                if (m.node != none) to.node(m.rank, m.node);
                for (const std::uint32_t visits : m.entered) to.word(visits);
                for (const std::uint32_t visits : m.left) to.word(visits);
            }
            for (const ChunkState& s : i.chunks) {
                to.word(std::int64_t{s.phase} << 1 | s.inside);
                if (s.inside) to.word(std::int64_t{s.next_send} << 32 | s.prefix), to.word(std::int64_t{s.complete} << 32 | s.undelivered), to.until(s.over);
            }
            for (const std::uint64_t bits : i.delivered) to.word(static_cast<std::int64_t>(bits));
            for (const std::uint64_t bits : i.complete) to.word(static_cast<std::int64_t>(bits));
        }
    }
}

void Native::write_gatherings() {
    Recurrence& to = *recurrence_;
    to.count(gatherings_.size());
    for (const auto& [key, g] : gatherings_) {
        to.word(key.first), to.word(static_cast<std::int64_t>(key.second) - issued(key.first)), to.word(g.collective);
        for (std::uint32_t p = 0; p < g.node.size(); ++p) {
            to.word(g.node[p] != none);
            if (g.node[p] != none) to.time(g.at[p]), to.node(membership_.rank(key.first, p), g.node[p]);
        }
    }
}

void Native::write_held() {
    Recurrence& to = *recurrence_;
    for (const std::vector<Tick>* times : ports_ ? ports_->free_times() : medium_->free_times())
        for (const Tick free : *times) to.until(free);
    if (ports_) ports_->each_train([&to](std::size_t port, const Ports::Train& train) {
        to.count(port), to.time(train.next), to.word(train.step), to.word(train.left);
        to.word(static_cast<std::int64_t>(train.order.high)), to.word(static_cast<std::int64_t>(train.order.low));
    });
    to.count(remote_free_.size());
    for (const Tick free : remote_free_) to.until(free);
    for (const auto* held : {&out_held_, &in_held_})
        for (const auto& dims : *held)
            for (const Held& h : dims) {
                to.until(h.until), to.until(h.asked);
                if (to.matters(h.until)) to.word(h.kind), to.word(static_cast<std::int64_t>(h.serial) - issued(h.kind == Quotient::all ? membership_.all() : h.kind - 1));
            }
}

void Native::write_events() {
    clock_.each([this](Tick time, int c, const std::vector<Keyed>& events) {
        recurrence_->time(time), recurrence_->word(c), recurrence_->count(events.size());
        for (const Keyed& event : events) write_event(event);
    });
}

void Native::write_event(const Keyed& event) {
    Recurrence& to = *recurrence_;
    to.word(event.kind), to.word(static_cast<std::int64_t>(event.low));
    switch (static_cast<What>(event.kind)) {
        case node_over:
        case measured_over: return to.word(event.a), to.node(event.a, static_cast<std::uint32_t>(event.b));
        case send_over:
        case leave_source:
        case reach_next: return write_message(event.a);
        case receive_over: return to.word(event.a), to.word(periods_.number[event.b >> 32]), to.word(static_cast<std::uint32_t>(event.b));
        case phase_started:
        case phase_over: return to.word(event.a), to.word(periods_.number[event.b]);
        default: return to.word(event.a), to.word(static_cast<std::int64_t>(event.b));  // no other is pending between instants
    }
}

void Native::write_message(std::uint32_t id) {
    Recurrence& to = *recurrence_;
    const Message& m = messages_[id];
    to.word(m.purpose);
    if (m.purpose == Message::chunk)
        to.word(periods_.number[m.instance]), to.word(std::int64_t{m.source_state} << 32 | m.state), to.word(std::int64_t{m.phase} << 32 | m.receive);
    to.node(static_cast<std::uint32_t>(m.high >> 32), static_cast<std::uint32_t>(m.high));
    to.word(static_cast<std::int64_t>(m.low)), to.word(m.tag), to.word(m.peer), to.word(m.together);
    to.word(m.source);
    write_flight(m.flight);
    to.word(m.queue != none);
    if (m.queue == none) return;
    const Queue& q = queues_[m.queue];
    to.word(std::int64_t{q.next} << 32 | q.left), to.count(q.turn.link), to.time(q.turn.start), to.word(q.turn.serial);
}

void Native::write_flight(const Flight& f) {
    Recurrence& to = *recurrence_;
    to.word(std::int64_t{f.source} << 32 | static_cast<std::uint32_t>(f.destination)), to.word(std::int64_t{f.from} << 32 | static_cast<std::uint32_t>(f.to));
    to.word(f.at), to.word(f.size << 1 | f.at_switch), to.until(f.tail);
}

// What grows from period to period.
std::vector<std::int64_t> Native::counts() const {
    std::vector<std::int64_t> out{static_cast<std::int64_t>(clock_.handled)};
    out.insert(out.end(), busy_.begin(), busy_.end());
    for (std::uint32_t group = 0; group < open_.size(); ++group) out.push_back(issued(group));
    return out;
}

// Whether a collective is measured depends on its number: as far as the coming ones are like those of this period. One that some
// members have begun as messages, the others join as such after the jump.
void Native::skip_periods(Recurrence::Jump jump) {
    const auto serials = [&](std::uint32_t kind) {  // of a period
        const std::size_t group = kind == Quotient::all ? membership_.all() : kind - 1;
        return static_cast<std::uint32_t>(jump.counts[1 + ranks_.size() + group]);
    };
    for (const auto& issue : periods_.issues)
        for (std::uint64_t k = 1; k <= jump.periods; ++k)
            if (issue.measured && quotient_->conflicts.contains(issue.kind, issue.serial + static_cast<std::uint32_t>(k) * serials(issue.kind))) jump.periods = k - 1;
    for (const auto& issue : periods_.issues)
        if (!issue.measured) quotient_->conflicts.insert(issue.kind, issue.serial + static_cast<std::uint32_t>(jump.periods) * serials(issue.kind));
    recurrence_->jump(jump);
    if (jump.periods > 0) forget_history();
    const auto periods = static_cast<std::int64_t>(jump.periods);
    skipped_ = add(skipped_, times(periods, jump.time));
    const std::uint64_t events = jump.periods * static_cast<std::uint64_t>(jump.counts[0]);
    clock_.handled += events, periods_.events += events;
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
        ranks_[r].node_base = recurrence_->base(r);
        ranks_[r].left -= static_cast<std::uint32_t>(jump.periods) * jump.nodes[r];
        busy_[r] += periods * jump.counts[1 + r];
    }
    for (std::uint32_t kind = 0; kind < periods_.serials.size(); ++kind)
        periods_.serials[kind] += static_cast<std::uint32_t>(jump.periods) * serials(kind);
}

}  // namespace astrarium
