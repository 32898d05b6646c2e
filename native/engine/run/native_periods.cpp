// The state of a run as words, and what skipping periods changes.
#include <algorithm>

#include "run/native.hpp"

namespace astrarium {
namespace {

constexpr std::size_t largest_state = 1 << 20;  // ranks, messages, and chunks at members

void write_flight(Recurrence& to, const Flight& f) {
    to.word(std::int64_t{f.source} << 32 | static_cast<std::uint32_t>(f.destination)),
        to.word(std::int64_t{f.from} << 32 | static_cast<std::uint32_t>(f.to));
    to.word(f.at), to.word(f.size << 1 | f.at_switch), to.until(f.tail);
}

}  // namespace

void Native::count_periods(Beats& beats) {
    const auto other = [this](const Collective& c) { return c.custom || c.meets || ((c.lasts || c.in_switch) && !quotient_); };
    if (std::any_of(plan_.collectives.begin(), plan_.collectives.end(), other) || !messages_.recurs()) return;
    nodes_.count_periods(beats);
    if (record_) messages_.traffic()->count_periods();
    if (promotion_) promotion_->keep_issues();
}

void Native::look_for_periods() {
    Recurrence& to = *nodes_.recurrence();
    if (!to.worth_it(clock_.handled) || nodes_.ranks() + messages_.size() + collectives_.open_parts() > largest_state) return to.pass();
    Tick horizon = clock_.now;
    if (promotion_) horizon = promotion_->horizon(horizon);
    if (undisturbed_) horizon = undisturbed_->horizon(horizon);
    to.begin(clock_.now, horizon);
    collectives_.write(to);
    nodes_.write(to), post_.write(to);
    messages_.write(to), remote_.write(to);
    if (promotion_) promotion_->write(to);
    if (undisturbed_) undisturbed_->write(to, collectives_);
    write_events();
    if (const auto jump = to.end(counts())) skip_periods(*jump);
}

void Native::write_events() {
    Recurrence& to = *nodes_.recurrence();
    clock_.each(
        [&](Tick time, int c, const std::vector<Keyed>& events) {
            to.time(time), to.word(c), to.count(events.size());
            for (const Keyed& event : events) write_event(event);
        },
        reach_next);
}

void Native::write_event(const Keyed& event) {
    Recurrence& to = *nodes_.recurrence();
    to.word(event.kind), to.word(static_cast<std::int64_t>(event.low));
    switch (static_cast<What>(event.kind)) {
        case node_over:
        case measured_over: return to.word(event.a), to.node(event.a, static_cast<std::uint32_t>(event.b));
        case send_over:
        case leave_source:
        case reach_next: return write_message(event.a);
        case receive_over:
            return to.word(event.a), to.word(collectives_.number(static_cast<std::uint32_t>(event.b >> 32))),
                   to.word(static_cast<std::uint32_t>(event.b));
        case phase_started:
        case phase_over: return to.word(event.a), to.word(collectives_.number(static_cast<std::uint32_t>(event.b)));
        default: return to.word(event.a), to.word(static_cast<std::int64_t>(event.b));  // no other is pending between instants
    }
}

void Native::write_message(MessageId id) {
    Recurrence& to = *nodes_.recurrence();
    const Message& m = messages_[id];
    to.word(m.purpose);
    if (m.purpose == Message::chunk)
        to.word(collectives_.number(m.instance)), to.word(std::int64_t{m.source_state} << 32 | m.state),
            to.word(std::int64_t{m.phase} << 32 | m.receive);
    to.node(static_cast<std::uint32_t>(m.high >> 32), static_cast<std::uint32_t>(m.high));
    to.word(static_cast<std::int64_t>(m.low)), to.word(m.tag), to.word(m.peer);
    to.word(m.source);
    write_flight(to, m.flight);
    to.word(m.queue != nothing);
    if (m.queue != nothing) collectives_.turns().write(to, m.queue);
}

// What grows from period to period: events, work of nodes, collectives of groups, and those that may be timed.
std::vector<std::int64_t> Native::counts() {
    std::vector<std::int64_t> out{static_cast<std::int64_t>(clock_.handled)};
    nodes_.counts(out);
    for (std::uint32_t group = 0; group < collectives_.groups(); ++group)
        out.push_back(std::int64_t{collectives_.issued(group)} + collectives_.skipped(group));
    out.push_back(static_cast<std::int64_t>(promotion_ ? promotion_->issues() : undisturbed_ ? undisturbed_->timings() : 0));
    if (record_) messages_.traffic()->counts(out);
    return out;
}

void Native::skip_periods(Recurrence::Jump jump) {
    std::vector<std::uint32_t> serials;  // collectives of a period, per group
    for (std::uint32_t group = 0; group < collectives_.groups(); ++group)
        serials.push_back(static_cast<std::uint32_t>(jump.counts[1 + nodes_.ranks() + group]));
    const std::size_t first = 1 + nodes_.ranks() + serials.size();  // of the counts that are left
    const auto timed = static_cast<std::size_t>(jump.counts[first]);
    Traffic* const traffic = record_ ? messages_.traffic() : nullptr;
    if (promotion_) jump.periods = promotion_->periods_alike(serials, timed, jump.periods);
    if (undisturbed_) jump.periods = undisturbed_->periods_alike(serials, collectives_, jump.periods);
    if (jump.periods == 0) return nodes_.recurrence()->decline();
    if (traffic && !traffic->knows(jump.counts, first + 1)) {
        return traffic->remember(jump.counts, first + 1) ? nodes_.recurrence()->hold() : nodes_.recurrence()->decline();
    }
    if (promotion_) promotion_->skip(serials, timed, jump.periods);
    if (undisturbed_) undisturbed_->skip(serials, timed, jump.periods);
    if (traffic) traffic->skip(jump.counts, first + 1, static_cast<std::int64_t>(jump.periods), jump.time);
    nodes_.skip(jump);
    if (history_) history_->forget();
    const std::uint64_t events = jump.periods * static_cast<std::uint64_t>(jump.counts[0]);
    clock_.handled += events, counted_ += events;
    for (std::uint32_t group = 0; group < collectives_.groups(); ++group)
        collectives_.skip(group, static_cast<std::uint32_t>(jump.periods) * serials[group]);
}

}  // namespace astrarium
