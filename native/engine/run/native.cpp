#include "run/native.hpp"

#include <algorithm>

#include "clock/interrupt.hpp"
#include "plan/how.hpp"

namespace astrarium {
namespace {

constexpr const char* did_not_end = "collectives timed alone: the run did not end";

// Before anything is made.
const Plan& that_fits(const Plan& plan, bool record, bool alone) {
    if (!alone) refuse_too_large(plan, record);
    return plan;
}

}  // namespace

Native::Native(const Plan& plan, bool record, bool alone, const Plugins& plugins)
    : Native(Parts{plan, record, alone, alone ? PortRows::looped() : PortRows::each(plan), plugins, nullptr, nullptr}) {}

Native::Native(const Plan& plan, bool record, Beats& beats) : Native(plan, record) { count_periods(beats); }

Native::Native(const Plan& plan, bool record, Undisturbed& undisturbed, Beats& beats) : Native(plan, record, beats) {
    undisturbed_ = &undisturbed;
    undisturbed.begin(clock_, *messages_.traffic());
    messages_.watch(undisturbed.holds());
    collectives_.time(undisturbed);
}

Native::Native(const Plan& plan, Quotient& quotient, const Folded* folded, bool record)
    : Native(Parts{plan, record, false, quotient.rows(), {}, &quotient, folded}) {
    promotion_.emplace(quotient, folded, clock_, messages_, collectives_, record);
    equals_.emplace(quotient, collectives_.membership());
    collectives_.stand_for(quotient, *equals_, *promotion_);
    messages_.stand_for(*promotion_);
    if (folded && !record) count_periods(folded->beats);
}

Native::Native(const Parts& parts)
    : plan_(that_fits(parts.plan, parts.record, parts.alone)), record_(parts.record), alone_(parts.alone), quotient_(parts.quotient),
      folded_(parts.folded), nodes_(plan_, clock_, record_, parts.plugins, *this),
      messages_(plan_, clock_, record_, parts.rows, parts.plugins.network, *this), post_(plan_, clock_, nodes_, messages_, quotient_),
      remote_(plan_, parts.plugins.memory), collectives_(plan_, clock_, nodes_, messages_, alone_),
      custom_(plan_, clock_, nodes_, messages_, collectives_) {
    collectives_.carry_out_custom(custom_);
}

Outcome Native::run() {
    nodes_.start();
    if (folded_) history_.emplace(*this), history_->keep();
    all_instants();
    explain_stall();
    Outcome out = outcome();
    std::string how = quotient_ ? one_of_each(out.finish.size()) : every_message;
    if (undisturbed_) how = "every rank was simulated; collectives that share no link with other traffic were timed alone";
    out.how = {with_periods(std::move(how), counted_)};
    return out;
}

void Native::all_instants() {
    if (!plan_.network.medium->own_clock) {
        while (!clock_.empty()) instant();
        return;
    }
    for (messages_.medium()->begin(); step_beside();) {}
}

// The next instant of the run or of a medium with a clock of its own; false when there is none, or no use in one.
bool Native::step_beside() {
    Medium& medium = *messages_.medium();
    if (nodes_.done() && !medium.busy()) return false;
    const Tick theirs = medium.next(clock_.now), time = clock_.empty() ? theirs : std::min(clock_.next(), theirs);
    if (time == never || idle_ > medium.patience()) return false;
    if (theirs == time) {
        clock_.now = time;
        if ((++idle_ & 0xffff) == 0) stop_if_interrupted();
        medium.run(time);
    }
    if (!clock_.empty() && clock_.next() == time) clock_.instant(Handler{*this});
    return true;
}

// What turns out to be wrong in it is undone.
void Native::instant() {
    const auto wrong = [this] { return promotion_ && promotion_->back_to() != never; };
    try {
        clock_.instant(Handler{*this});
    } catch (const Unfoldable&) {
        if (!wrong()) throw;
        return go_back();
    }
    if (wrong()) return go_on_before_going_back();
    if (Recurrence* recurrence = nodes_.recurrence(); recurrence && recurrence->due()) look_for_periods();
    if (history_) history_->keep();
}

// For a quarter of the events that will run again: more collectives that meet others are found at the same time.
void Native::go_on_before_going_back() {
    if (go_back_at_ == 0) go_back_at_ = clock_.handled + history_->events_since(promotion_->back_to()) / 4;
    if (clock_.handled >= go_back_at_ || clock_.empty()) go_back();
}

void Native::go_back() {
    history_->go_back(promotion_->back_to());
    promotion_->went_back();
    go_back_at_ = 0;
}

void Native::handle(const Keyed& event) {
    const auto low = static_cast<std::uint32_t>(event.low), b = static_cast<std::uint32_t>(event.b),
               instance = static_cast<std::uint32_t>(event.b >> 32);
    switch (static_cast<What>(event.kind)) {
        case node_over: return nodes_.complete(event.a, b);
        case send_over: return sent(event.a);
        case reach_adder: return take_out(event.a);
        case receive_over: return collectives_.receive_complete(instance, event.a, b);
        case phase_started: return collectives_.release_sends(b, event.a);
        case phase_over: return collectives_.try_leave(b, event.a);
        case look: return nodes_.look(event.a);
        case leave_in_turn: return collectives_.turns().queue(instance, event.a, low, b);
        case leave_source: return messages_.leave(event.a);
        case reach_next: nodes_.arrival(); return messages_.arrive(event.a);
        case custom_over: return custom_.complete(event.a, b);
        case measured_over: nodes_.arrival(); return nodes_.over(event.a, b, clock_.now);
        case medium_due: return messages_.medium()->wake(event.a, clock_.now);
    }
}

void Native::issue(Kind kind, std::uint32_t rank, std::uint32_t node, std::size_t slot) {
    if (kind == Kind::collective) return collectives_.issue(rank, node, slot);
    if (kind == Kind::send) return post_.send(rank, node, slot);
    if (kind == Kind::recv) return post_.receive(rank, node, slot);
    if (nodes_.program(rank).slot[node] < -1) return post_.access(rank, node);
    if (quotient_ && plan_.remote.kind != RemoteKind::per_npu) throw Unfoldable{"shared or missing remote memory"};
    nodes_.over(rank, node, remote_.end(nodes_, rank, node, clock_.now));
}

// A message will be delivered.
void Native::deliver(MessageId id, Tick when) {
    const Message& m = messages_[id];
    if (m.purpose == Message::chunk && !clock_.strict && !plan_.network.medium->receives && collectives_.wanted(m))
        return collectives_.deliver(id, when);
    clock_.at(when, BatchClock::done, {m.high, m.low, send_over, id, 0});
}

void Native::sent(MessageId id) {
    if (collectives_.to_switch(messages_[id])) return messages_.reach_adder(id);
    take_out(id);
}

void Native::take_out(MessageId id) {
    const Message message = messages_[id];
    messages_.free(id);
    delivered(message);
}

void Native::delivered(const Message& m) {
    if (plan_.network.medium->receives) return one_end_over(m);
    if (m.purpose == Message::chunk) return collectives_.delivered(m);
    if (m.purpose == Message::access) return nodes_.complete(m.rank(), static_cast<std::uint32_t>(m.high));
    m.purpose == Message::node ? post_.delivered(m) : custom_.delivered(m);
}

// Where receives are messages, too.
void Native::one_end_over(const Message& m) {
    if (m.purpose == Message::node) return nodes_.complete(m.rank(), static_cast<std::uint32_t>(m.high));
    if (m.purpose == Message::custom) return custom_.complete(m.state, static_cast<std::uint32_t>(m.low));
    collectives_.one_end_over(m);
}

// --- ends

void Native::explain_stall() {
    if (nodes_.done()) return;
    if (quotient_) throw Endless{{"the run does not end"}};
    std::vector<Wait> why(nodes_.ranks()), waits;
    collectives_.explain(why);
    post_.explain(why);
    if (messages_.medium())
        for (std::string& said : messages_.medium()->waits(clock_.now, idle_)) waits.push_back({std::move(said), {}, {}});
    nodes_.explain(std::move(why), waits);
    throw Stall(std::move(waits));
}

Outcome Native::outcome() {
    Outcome out;
    out.events = clock_.handled, out.counted = counted_;
    for (std::size_t r = 0; r < nodes_.ranks() && !quotient_; ++r) out.row.push_back(static_cast<std::int32_t>(r));
    if (quotient_) out.row = quotient_->classes().of, out.folded = true, out.events += folded_ ? folded_->timers.events() : 0;
    nodes_.report(out);
    if (record_ && messages_.traffic()) messages_.traffic()->report(out, messages_.medium() != nullptr);
    if (messages_.medium()) messages_.medium()->report(out);
    return out;
}

Alone Native::run_alone() {
    Traffic& traffic = *messages_.traffic();
    traffic.usage.keep_steps();
    messages_.ports()->keep_uses();
    const std::uint32_t instance = collectives_.open(collectives_.membership().all(), 0, 0);
    collectives_.begin_alone(instance);
    all_instants();
    const bool ended = collectives_.instance(instance).members.empty();
    return {collectives_.alone_done(),
            {},
            messages_.ports()->quiet(),
            !ended,
            clock_.handled,
            {traffic.loads()},
            {collectives_.alone_late()},
            traffic.usage.steps(),
            {messages_.ports()->uses(0)}};
}

Alone Native::run_members() {
    Traffic& traffic = *messages_.traffic();
    Ports* ports = messages_.ports();
    traffic.usage.keep_steps();
    if (ports) ports->keep_uses();
    nodes_.start();
    all_instants();
    Alone out{
        0, nodes_.finish(), ports ? ports->quiet() : 0, !nodes_.done(), clock_.handled, {}, nodes_.ended_late(), traffic.usage.steps(), {}};
    for (std::size_t r = 0; r < nodes_.ranks(); ++r)
        out.uses.push_back(ports ? ports->uses(quotient_ ? r : static_cast<std::size_t>(plan_.npu_of[r])) : std::vector<PortUse>{});
    if (record_) out.loads = loads_of(outcome(), plan_.npu_of);
    return out;
}

// Who comes late does so once the messages of that instant have arrived.
AloneOnLinks Native::run_on_links(const std::vector<Coming>& comings) {
    Traffic& traffic = *messages_.traffic();
    LinkHolds used;
    used.reset(2 * traffic.ports());
    messages_.watch(used);
    traffic.usage.keep_steps();
    for (std::uint32_t rank = 0; rank < comings.size(); ++rank)
        clock_.at(comings[rank].at, comings[rank].late ? BatchClock::arrive : BatchClock::done,
                  {std::uint64_t{rank} << 32, 0, comings[rank].late ? measured_over : node_over, rank, 0});
    all_instants();
    if (!nodes_.done()) return {};
    AloneOnLinks out{nodes_.finish(), nodes_.ended_late(), traffic.usage.steps(), {}, {}, clock_.handled};
    out.traffic = outcome();
    const Outcome& t = out.traffic;
    for (std::size_t k = 0; k < t.link_dim.size(); ++k) {
        const bool inward = t.link_from[k] < 0;
        const std::size_t port =
            traffic.port(static_cast<std::size_t>(t.link_dim[k]), inward ? t.link_to[k] : t.link_from[k], t.link_port[k]) +
            (inward ? traffic.ports() : 0);
        out.windows.push_back({used.used_from(port), used.used_until(port)});
    }
    return out;
}

Outcome run_native(const Plan& plan, bool record) { return Native(plan, record).run(); }
AloneOnLinks run_alone_on_links(const Plan& plan, const std::vector<Coming>& comings) { return Native(plan, true).run_on_links(comings); }

// A run whose collectives met others counts for nothing. What goes wrong in it, a run of messages says as it is.
Outcome run_native_every_rank(const Plan& plan, bool record, Beats& beats) {
    std::vector<std::string> how;
    try {
        Undisturbed undisturbed(plan);
        for (bool again = true; again;) {
            Outcome out = Native(plan, record, undisturbed, beats).run();
            out.events += undisturbed.measured();
            if (undisturbed.exact()) return after(how, std::move(out));
            how.push_back(undisturbed.found());
            again = undisturbed.goes_again();
        }
    } catch (const Undisturbed::Disturbed& reason) {
        how.push_back(std::string("collectives timed alone: given up, as ") + reason.why);
    } catch (const Stall&) { how.push_back(did_not_end); } catch (const BadTrace&) {
        how.push_back(did_not_end);
    } catch (const Unsupported&) { how.push_back(did_not_end); }
    return after(how, plan.changes.time.size > 0 ? run_native(plan, record) : Native(plan, record, beats).run());
}

Alone run_native_alone(const Plan& plan, bool record) { return Native(plan, record, true).run_alone(); }
Alone run_native_members(const Plan& plan, bool record) { return Native(plan, record).run_members(); }
Outcome run_with(const Plan& plan, bool record, const Plugins& plugins) { return Native(plan, record, false, plugins).run(); }

Outcome run_source(Plan& plan, ForeignWork& source, Plugins plugins) {
    Growth growth(plan, source);
    plugins.growth = &growth;
    return Native(plan, true, false, plugins).run();
}

}  // namespace astrarium
