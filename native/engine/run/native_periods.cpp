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
    if (promotion_) promotion_->keep_issues();
}

void Native::look_for_periods() {
    Recurrence& to = *nodes_.recurrence();
    if (nodes_.ranks() + messages_.size() + collectives_.open_parts() > largest_state) return to.pass();
    to.begin(clock_.now, promotion_ ? promotion_->horizon(clock_.now) : clock_.now);
    collectives_.write(to);
    nodes_.write(to), post_.write(to);
    messages_.write(to), remote_.write(to);
    if (promotion_) promotion_->write(to);
    write_events();
    if (const auto jump = to.end(counts())) skip_periods(*jump);
    if (promotion_) promotion_->forget_issues();
}

void Native::write_events() {
    Recurrence& to = *nodes_.recurrence();
    clock_.each([&](Tick time, int c, const std::vector<Keyed>& events) {
        to.time(time), to.word(c), to.count(events.size());
        for (const Keyed& event : events) write_event(event);
    });
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
    to.word(static_cast<std::int64_t>(m.low)), to.word(m.tag), to.word(m.peer), to.word(m.together);
    to.word(m.source);
    write_flight(to, m.flight);
    to.word(m.queue != nothing);
    if (m.queue != nothing) collectives_.turns().write(to, m.queue);
}

// What grows from period to period.
std::vector<std::int64_t> Native::counts() const {
    std::vector<std::int64_t> out{static_cast<std::int64_t>(clock_.handled)};
    nodes_.counts(out);
    for (std::uint32_t group = 0; group < collectives_.groups(); ++group) out.push_back(collectives_.issued(group));
    return out;
}

void Native::skip_periods(Recurrence::Jump jump) {
    std::vector<std::uint32_t> serials;  // collectives of a period, per group
    for (std::uint32_t group = 0; group < collectives_.groups(); ++group)
        serials.push_back(static_cast<std::uint32_t>(jump.counts[1 + nodes_.ranks() + group]));
    if (promotion_) jump.periods = promotion_->periods_alike(serials, jump.periods), promotion_->skip(serials, jump.periods);
    nodes_.recurrence()->jump(jump);
    if (jump.periods > 0 && history_) history_->forget();
    const std::uint64_t events = jump.periods * static_cast<std::uint64_t>(jump.counts[0]);
    clock_.handled += events, counted_ += events;
    nodes_.skip(jump, static_cast<std::int64_t>(jump.periods));
    for (std::uint32_t group = 0; group < collectives_.groups(); ++group)
        collectives_.skip(group, static_cast<std::uint32_t>(jump.periods) * serials[group]);
}

}  // namespace astrarium
