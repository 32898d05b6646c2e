#include "run/history.hpp"

#include <algorithm>
#include <cmath>

#include "run/native.hpp"

namespace astrarium {
namespace {

template <class... T>
std::tuple<T...> values(const std::tuple<T&...>& of) {
    return of;
}

constexpr std::uint64_t few_events = 256, bytes_of_an_event = 512;  // so that keeping states takes a small part of the time
constexpr std::uint64_t most_bytes_kept = 256 << 20;

}  // namespace

struct History::State {
    explicit State(Native& run) : own(values(run.state())) {}
    void keep(Native& run, std::uint64_t its_number) {
        number = its_number, time = number == 1 ? -1 : run.clock_.now;
        own = run.state(), changes = run.nodes_.changes();
        recurrence = run.nodes_.copy_recurrence();
    }
    void put_back(Native& run) const {
        run.nodes_.undo_changes(changes);
        run.state() = own;
        if (recurrence) run.nodes_.put_back(*recurrence);
    }
    std::uint64_t number = 0;  // from 1, in order
    Tick time = -1;            // after all of this instant
    decltype(values(std::declval<Native&>().state())) own;
    std::unique_ptr<Recurrence> recurrence;
    std::size_t changes = 0;
};

History::History(Native& run) : run_(run) { run.nodes_.note_changes(); }
History::~History() = default;

// The first state stays. Of the others, one goes once it is older than twice the largest power of 2 in its number: ages about double
// from one to the next.
void History::insert(std::uint64_t most) {
    if (spare_.empty()) spare_.push_back(std::make_unique<State>(run_));
    states_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    states_.back()->keep(run_, ++count_);
    const auto old = [this](const State& state) { return count_ - state.number > 2 * (state.number & (~state.number + 1)); };
    for (std::size_t i = states_.size() - 1; i-- > 1;)
        if (old(*states_[i])) drop(i);
    while (states_.size() > most) drop(1);
}

void History::drop(std::size_t i) {
    if (spare_.size() < 2) spare_.push_back(std::move(states_[i]));
    states_.erase(states_.begin() + static_cast<std::ptrdiff_t>(i));
}

// Events between two states, as Young has it for checkpoints (CACM 17(9), 1974): the root of twice the cost of keeping one times the
// time from one return to the next, here in events.
std::uint64_t History::interval(std::uint64_t state_size) const {
    const double all = static_cast<double>(run_.clock_.handled + redone_);
    return few_events +
           static_cast<std::uint64_t>(std::sqrt(2 * static_cast<double>(state_size) / bytes_of_an_event * all / (1 + returns_)));
}

void History::keep() {
    if (run_.clock_.handled < due_) return;
    const std::uint64_t size = state_size();
    insert(std::max<std::uint64_t>(4, most_bytes_kept / size));
    due_ = run_.clock_.handled + interval(size);
}

std::size_t History::latest(Tick before) const {
    std::size_t i = states_.size() - 1;
    while (i > 0 && states_[i]->time >= before) --i;
    return i;
}

std::uint64_t History::events_since(Tick before) const {
    return run_.clock_.handled - std::get<BatchClock>(states_[latest(before)]->own).handled;
}

void History::go_back(Tick before) {
    const std::uint64_t handled = run_.clock_.handled;
    for (const std::size_t to = latest(before); states_.size() > to + 1;) drop(states_.size() - 1);
    count_ = states_.back()->number;
    states_.back()->put_back(run_);
    ++returns_;
    redone_ += handled - run_.clock_.handled;
    if (states_.size() == 1 && std::exchange(jumped_, false)) run_.nodes_.count_parents();
    due_ = run_.clock_.handled + interval(state_size());
}

void History::forget() {
    while (states_.size() > 1) drop(states_.size() - 1);
    count_ = 1, jumped_ = true, due_ = 0;
    run_.nodes_.forget_changes();
}

// Roughly, in bytes.
std::uint64_t History::state_size() const {
    return run_.messages_.size() * sizeof(Message) + 128 * run_.nodes_.ranks() + 4096 + run_.collectives_.bytes();
}

}  // namespace astrarium
