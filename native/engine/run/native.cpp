#include "run/native.hpp"

#include <algorithm>

#include "clock/interrupt.hpp"
#include "plan/how.hpp"
#include "plan/unfoldable.hpp"

namespace astrarium {
namespace {

// Before anything is made.
const Plan& that_fits(const Plan& plan, const RunOptions& options) {
    if (!options.alone) refuse_too_large(plan, options.record || options.nodes);
    return plan;
}

}  // namespace

Native::Native(const Plan& plan, const RunOptions& options)
    : plan_(that_fits(plan, options)), record_(options.record), own_clock_(plan.network.medium->own_clock), most_(options.most),
      equals_(options.equals), accelerator_(options.accelerator), nodes_(plan_, clock_, record_ || options.nodes, options.plugins, *this),
      messages_(plan_, clock_, options, *this), post_(plan_, clock_, nodes_, messages_, equals_), remote_(plan_, options.plugins.memory),
      collectives_(plan_, clock_, nodes_, messages_, options),
      parts_{plan_, record_, equals_ != nullptr, clock_, nodes_, messages_, post_, remote_, collectives_} {
    if (options.accelerator) options.accelerator->begin(parts_);
}

Outcome Native::run() {
    start();
    run_to_end();
    Outcome out = finish();
    out.how = {every_message};
    return out;
}

void Native::start() {
    nodes_.start();
    if (own_clock_) messages_.medium()->begin();
}

void Native::run_to_end() {
    while (step()) {}
}

bool Native::step() {
    if (own_clock_) return step_beside();
    if (clock_.empty()) return false;
    if (most_ != never) stop_beyond();
    clock_.instant(Handler{*this});
    return true;
}

// Nodes that have not ended will end in the next instant or later. A run with wrongly timed collectives does not count.
void Native::stop_beyond() const {
    if (nodes_.at(clock_.next()) > most_ && !nodes_.done() && (!accelerator_ || accelerator_->exact())) throw Over{most_};
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

void Native::handle(const Keyed& event) {
    const auto low = static_cast<std::uint32_t>(event.low), b = static_cast<std::uint32_t>(event.b),
               instance = static_cast<std::uint32_t>(event.b >> 32);
    switch (static_cast<What>(event.kind)) {
        case node_over: return nodes_.complete(event.a, b);
        case send_over: return land(event.a);
        case reach_adder: return take_out(event.a);
        case receive_over: return collectives_.complete_receives(instance, event.a, low, b);
        case phase_started: return collectives_.release_sends(b, event.a);
        case phase_over: return collectives_.try_leave(b, event.a);
        case look: return nodes_.look(event.a);
        case leave_in_turn: return collectives_.turns().queue(instance, event.a, low, b);
        case leave_source: return messages_.leave(event.a);
        case reach_next: nodes_.arrival(); return messages_.arrive(event.a);
        case custom_over: return collectives_.custom().complete(event.a, b);
        case measured_over: nodes_.arrival(); return nodes_.over(event.a, b, clock_.now);
        case medium_due: return messages_.medium()->wake(event.a, clock_.now);
    }
}

void Native::issue(Kind kind, std::uint32_t rank, std::uint32_t node, std::size_t slot) {
    if (kind == Kind::collective) return collectives_.issue(rank, node, slot);
    if (kind == Kind::send) return post_.send(rank, node, slot);
    if (kind == Kind::recv) return post_.receive(rank, node, slot);
    if (nodes_.program(rank).slot[node] < -1) return post_.access(rank, node);
    if (equals_ && plan_.remote.kind != RemoteKind::per_npu) throw Unfoldable{"shared or missing remote memory"};
    nodes_.over(rank, node, remote_.end(nodes_, rank, node, clock_.now));
}

// A message will be delivered.
void Native::deliver(MessageId id, Tick when) {
    const Message& m = messages_[id];
    if (m.purpose == Message::chunk && !clock_.strict && !plan_.network.medium->receives && collectives_.wanted(m))
        return collectives_.deliver(id, when);
    clock_.at(when, BatchClock::done, {m.high, m.low, send_over, id, 0});
}

void Native::land(MessageId id) {
    if (collectives_.to_switch(messages_[id])) return messages_.reach_adder(id);
    take_out(id);
}

void Native::take_out(MessageId id) {
    const Message m = messages_[id];
    messages_.free(id);
    if (plan_.network.medium->receives) return end_one(m);
    switch (m.purpose) {
        case Message::chunk: return collectives_.take(m);
        case Message::access: return nodes_.complete(m.rank(), static_cast<std::uint32_t>(m.high));
        case Message::node: return post_.take(m);
        case Message::custom: return collectives_.custom().take(m);
    }
}

// Where receives are messages, too.
void Native::end_one(const Message& m) {
    if (m.purpose == Message::node) return nodes_.complete(m.rank(), static_cast<std::uint32_t>(m.high));
    if (m.purpose == Message::custom) return collectives_.custom().complete(m.state, static_cast<std::uint32_t>(m.low));
    collectives_.end_one(m);
}

// --- ends

void Native::explain_stall() {
    if (nodes_.done()) return;
    if (equals_) throw Endless{{"the run does not end"}};
    std::vector<Wait> why(nodes_.ranks()), waits;
    collectives_.explain(why);
    post_.explain(why);
    if (messages_.medium())
        for (std::string& said : messages_.medium()->waits(clock_.now, idle_)) waits.push_back({std::move(said), {}, {}});
    nodes_.explain(std::move(why), waits);
    throw Stall(std::move(waits));
}

Outcome Native::finish() {
    explain_stall();
    return outcome();
}

Outcome Native::outcome() {
    Outcome out;
    out.events = clock_.handled;
    for (std::size_t r = 0; r < nodes_.ranks(); ++r) out.row.push_back(static_cast<std::int32_t>(r));
    nodes_.report(out);
    if (record_ && messages_.traffic()) messages_.traffic()->report(out, messages_.medium() != nullptr);
    if (messages_.medium()) messages_.medium()->report(out);
    return out;
}

Outcome run_native(const Plan& plan, const FoldOptions& options) {
    return Native(plan, {.record = options.record || options.nodes, .most = options.most}).run();
}
Outcome run_with(const Plan& plan, bool record, const Plugins& plugins) {
    return Native(plan, {.record = record, .plugins = plugins}).run();
}

Outcome run_source(Plan& plan, ForeignWork& source, Plugins plugins) {
    Growth growth(plan, source);
    plugins.growth = &growth;
    return run_with(plan, true, plugins);
}

}  // namespace astrarium
