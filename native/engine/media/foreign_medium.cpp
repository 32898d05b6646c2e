#include "media/foreign_medium.hpp"

namespace astrarium {
namespace {

std::string ps(Tick t) { return std::to_string(t) + " ps"; }

}  // namespace

void ForeignMedium::begin() {
    if (const Tick start = network_.time(); start != 0)
        throw PluginFault("its clock stands at " + ps(start) + " before the run; every run needs a new one");
}

Tick ForeignMedium::next(Tick now) {
    if (!touched_) return next_;
    next_ = network_.next_event_time();
    touched_ = false;
    if (next_ < now) throw PluginFault("next_event_time() says " + ps(next_) + ", before now (" + ps(now) + "): time cannot go back");
    return next_;
}

void ForeignMedium::run(Tick to) {
    time_ = never;
    bring_to(to);
    next_ = network_.next_event_time();
    touched_ = false;
    if (next_ <= to)
        throw PluginFault("next_event_time() says " + ps(next_) + " after advance(" + std::to_string(to) +
                          "), which should have run everything up to then");
}

void ForeignMedium::bring_to(Tick time) {
    if (time_ == time) return;
    time_ = time;
    touched_ = true;
    network_.advance(time);
    if (const Tick theirs = network_.time(); theirs != time)
        throw PluginFault("sim_get_time() says " + ps(theirs) + " after advance(" + std::to_string(time) + ")");
}

void ForeignMedium::ask(MessageId id, Tick now) {
    if (lives_.size() <= id) lives_.resize(id + std::size_t{1});
    bring_to(now);
    lives_[id].open = true;
    ++open_;
    touched_ = true;
    const Flight& flight = run_.flight(id);
    const ForeignMessage out{static_cast<std::uint64_t>(lives_[id].generation) << 32 | id, flight.size, flight.source, flight.destination,
                             run_.tag(id)};
    if (run_.receives(id)) network_.receive(out);
    else network_.send(out);
}

void ForeignMedium::over(std::uint64_t token) {
    const auto id = static_cast<MessageId>(token);
    if (id >= lives_.size() || !lives_[id].open || lives_[id].generation != static_cast<std::uint32_t>(token >> 32))
        throw PluginFault("called a callback that it does not have, or called it twice");
    lives_[id] = {lives_[id].generation + 1, false};
    --open_;
    run_.deliver(id, run_.now());
}

void ForeignMedium::schedule(Tick delta, std::uint32_t timer) {
    if (delta < 0) throw PluginFault("schedules a callback " + ps(delta) + " from now: time cannot go back");
    run_.wake(timer, add(run_.now(), delta), Carried::Turn::after);
}

std::vector<std::string> ForeignMedium::waits(Tick now, std::uint64_t steps) const {
    std::vector<std::string> out;
    const std::string who = "network plug-in " + network_.name();
    if (steps > network_.patience())
        out.push_back(who + ": its clock moved " + std::to_string(steps) + " times, to " + ps(now) + ", and it called nothing back");
    for (MessageId id = 0; id < lives_.size(); ++id) {
        if (!lives_[id].open) continue;
        const Flight& flight = run_.flight(id);
        out.push_back(
            who + ": the callback of sim_" + (run_.receives(id) ? "recv" : "send") + " never came (" + std::to_string(flight.size) +
            " bytes from NPU " + std::to_string(flight.source) + " to " + std::to_string(flight.destination) +
            (run_.tag(id) >= Carried::first_tag_of_collectives ? ", of a collective)" : ", tag " + std::to_string(run_.tag(id)) + ")"));
    }
    return out;
}

}  // namespace astrarium
