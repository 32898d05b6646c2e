#include "accelerate/periods/period_skipper.hpp"

#include <algorithm>

namespace astrarium {
namespace {

constexpr std::size_t largest_state = 1 << 20;  // ranks, messages, and chunks at members

void write_flight(StateWords& to, const Flight& f) {
    to.word(std::int64_t{f.source} << 32 | static_cast<std::uint32_t>(f.destination)),
        to.word(std::int64_t{f.from} << 32 | static_cast<std::uint32_t>(f.to));
    to.word(f.at), to.word(f.size << 1 | f.at_switch), to.until(f.tail);
}

}  // namespace

PeriodSkipper::PeriodSkipper(const Parts& run, Accelerator* accelerator, Beats& beats)
    : run_(run), accelerator_(accelerator), traffic_(run.record ? run.messages.traffic() : nullptr) {
    const auto other = [&run](const Collective& c) { return c.custom || c.meets || ((c.lasts || c.in_switch) && !run.folded); };
    if (std::any_of(run.plan.collectives.begin(), run.plan.collectives.end(), other) || !run.messages.recurs()) return;
    recurrence_ = std::make_unique<Recurrence>(run.nodes.own_programs(), beats);
    run.nodes.watch(recurrence_.get());
    if (traffic_) traffic_->count_periods();
}

void PeriodSkipper::put_back(const Recurrence& earlier, std::uint64_t counted) {
    counted_ = counted;
    recurrence_ = std::make_unique<Recurrence>(earlier);
    run_.nodes.watch(recurrence_.get());
}

bool PeriodSkipper::look_at_state() {
    const BatchClock& clock = run_.clock;
    if (!recurrence_->worth_it(clock.handled) ||
        run_.nodes.ranks() + run_.messages.size() + run_.collectives.open_parts() > largest_state) {
        recurrence_->pass();
        return false;
    }
    to_ = &recurrence_->begin(clock.now, accelerator_ ? accelerator_->horizon(clock.now) : clock.now);
    run_.collectives.write(*to_);
    run_.nodes.write(*to_), run_.post.write(*to_);
    run_.messages.write(*to_), run_.memory.write(*to_);
    if (accelerator_) accelerator_->write(*to_);
    write_events();
    const auto jump = recurrence_->end(counts());
    return jump && skip(*jump);
}

void PeriodSkipper::write_events() {
    StateWords& to = *to_;
    run_.clock.each(
        [&](Tick time, int c, const std::vector<Keyed>& events) {
            to.time(time), to.word(c), to.count(events.size());
            for (const Keyed& event : events) write_event(event);
        },
        reach_next);
}

void PeriodSkipper::write_event(const Keyed& event) {
    StateWords& to = *to_;
    to.word(event.kind), to.word(static_cast<std::int64_t>(event.low));
    switch (static_cast<What>(event.kind)) {
        case node_over:
        case measured_over: return to.word(event.a), to.node(event.a, static_cast<std::uint32_t>(event.b));
        case send_over:
        case leave_source:
        case reach_next: return write_message(event.a);
        case receive_over:
            return to.word(event.a), to.word(run_.collectives.number(static_cast<std::uint32_t>(event.b >> 32))),
                   to.word(static_cast<std::uint32_t>(event.b));
        case phase_started:
        case phase_over: return to.word(event.a), to.word(run_.collectives.number(static_cast<std::uint32_t>(event.b)));
        default: return to.word(event.a), to.word(static_cast<std::int64_t>(event.b));  // no other is pending between instants
    }
}

void PeriodSkipper::write_message(MessageId id) {
    StateWords& to = *to_;
    const Message& m = run_.messages[id];
    to.word(m.purpose);
    if (m.purpose == Message::chunk)
        to.word(run_.collectives.number(m.instance)), to.word(std::int64_t{m.source_state} << 32 | m.state),
            to.word(std::int64_t{m.phase} << 32 | m.receive);
    to.node(static_cast<std::uint32_t>(m.high >> 32), static_cast<std::uint32_t>(m.high));
    to.word(static_cast<std::int64_t>(m.low)), to.word(m.tag), to.word(m.peer), to.word(m.together);
    to.word(m.source);
    write_flight(to, m.flight);
    to.word(m.queue != nothing);
    if (m.queue != nothing) run_.collectives.turns().write(to, m.queue);
}

// What grows from period to period: events, work of nodes, collectives of groups, and those that may be timed.
std::vector<std::int64_t> PeriodSkipper::counts() const {
    std::vector<std::int64_t> out{static_cast<std::int64_t>(run_.clock.handled)};
    run_.nodes.counts(out);
    const Collectives& collectives = run_.collectives;
    for (std::uint32_t group = 0; group < collectives.groups(); ++group)
        out.push_back(std::int64_t{collectives.issued(group)} + collectives.skipped(group));
    out.push_back(static_cast<std::int64_t>(accelerator_ ? accelerator_->issues() : 0));
    if (traffic_) traffic_->counts(out);
    return out;
}

bool PeriodSkipper::skip(Jump jump) {
    Collectives& collectives = run_.collectives;
    Accelerator::Period period;
    std::size_t next = 1 + run_.nodes.ranks();  // of the counts
    for (std::uint32_t group = 0; group < collectives.groups(); ++group)
        period.serials.push_back(static_cast<std::uint32_t>(jump.counts[next++]));
    period.issues = static_cast<std::size_t>(jump.counts[next++]);
    if (accelerator_) jump.periods = accelerator_->periods_alike(period, jump.periods);
    if (jump.periods == 0) return recurrence_->decline(), false;
    if (traffic_ && !traffic_->knows(jump.counts, next))
        return traffic_->remember(jump.counts, next) ? recurrence_->hold() : recurrence_->decline(), false;
    if (accelerator_) accelerator_->skip(period, jump.periods);
    if (traffic_) traffic_->skip(jump.counts, next, static_cast<std::int64_t>(jump.periods), jump.time);
    run_.nodes.skip(jump);
    recurrence_->jump(jump);
    const std::uint64_t events = jump.periods * static_cast<std::uint64_t>(jump.counts[0]);
    run_.clock.handled += events, counted_ += events;
    for (std::uint32_t group = 0; group < collectives.groups(); ++group)
        collectives.skip(group, static_cast<std::uint32_t>(jump.periods) * period.serials[group]);
    return true;
}

}  // namespace astrarium
