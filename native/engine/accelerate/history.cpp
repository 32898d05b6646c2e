#include "accelerate/history.hpp"

#include <algorithm>
#include <cmath>

#include "accelerate/periods/period_skipper.hpp"
#include "accelerate/promotion.hpp"
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

auto History::changing() { return std::tuple_cat(run_.state(), promotion_.state()); }

struct History::State {
    explicit State(History& of) : own(values(of.changing())) {}
    void keep(History& of, std::uint64_t its_number) {
        const Parts& run = of.run_.parts();
        number = its_number, time = number == 1 ? -1 : run.clock.now;
        own = of.changing(), changes = run.nodes.changes();
        if (of.periods_) recurrence = of.periods_->copy(), counted = of.periods_->counted();
    }
    void put_back(History& of) const {
        of.run_.parts().nodes.undo_changes(changes);
        of.changing() = own;
        if (recurrence) of.periods_->put_back(*recurrence, counted);
    }
    std::uint64_t number = 0;  // from 1, in order
    Tick time = -1;            // after all of this instant
    decltype(values(std::declval<History&>().changing())) own;
    std::unique_ptr<Recurrence> recurrence;
    std::uint64_t counted = 0;
    std::size_t changes = 0;
};

History::History(Native& run, Promotion& promotion, PeriodSkipper* periods) : run_(run), promotion_(promotion), periods_(periods) {
    run.parts().nodes.note_changes();
}
History::~History() = default;

// The first state stays. Of the others, one goes once it is older than twice the largest power of 2 in its number: ages about double
// from one to the next.
void History::insert(std::uint64_t most) {
    if (spare_.empty()) spare_.push_back(std::make_unique<State>(*this));
    states_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    states_.back()->keep(*this, ++count_);
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
    const double all = static_cast<double>(run_.parts().clock.handled + redone_);
    return few_events +
           static_cast<std::uint64_t>(std::sqrt(2 * static_cast<double>(state_size) / bytes_of_an_event * all / (1 + returns_)));
}

void History::keep() {
    if (run_.parts().clock.handled < due_) return;
    const std::uint64_t size = state_size();
    insert(std::max<std::uint64_t>(4, most_bytes_kept / size));
    due_ = run_.parts().clock.handled + interval(size);
}

std::size_t History::latest(Tick before) const {
    std::size_t i = states_.size() - 1;
    while (i > 0 && states_[i]->time >= before) --i;
    return i;
}

std::uint64_t History::events_since(Tick before) const {
    return run_.parts().clock.handled - std::get<BatchClock>(states_[latest(before)]->own).handled;
}

void History::go_back() {
    const BatchClock& clock = run_.parts().clock;
    const std::uint64_t handled = clock.handled;
    for (const std::size_t to = latest(promotion_.exact_until()); states_.size() > to + 1;) drop(states_.size() - 1);
    promotion_.promote();
    count_ = states_.back()->number;
    states_.back()->put_back(*this);
    ++returns_;
    redone_ += handled - clock.handled;
    if (states_.size() == 1 && std::exchange(jumped_, false)) run_.parts().nodes.count_parents();
    due_ = clock.handled + interval(state_size());
}

void History::forget() {
    while (states_.size() > 1) drop(states_.size() - 1);
    count_ = 1, jumped_ = true, due_ = 0;
    run_.parts().nodes.forget_changes();
}

// Roughly, in bytes.
std::uint64_t History::state_size() const {
    return run_.parts().messages.size() * sizeof(Message) + 128 * run_.parts().nodes.ranks() + 4096 + run_.parts().collectives.bytes();
}

}  // namespace astrarium
