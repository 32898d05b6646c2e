// Native rule book, one rank per class: earlier states of a run. A timed collective that meets others was begun wrongly; the run
// goes back to before it began, and from there it runs as messages.
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
constexpr std::uint64_t many_redone = 1 << 17;                      // events, beyond as many as have run: a twentieth of a second
constexpr std::uint64_t most_bytes_kept = 256 << 20;

}  // namespace

struct Native::History {
    struct State {
        explicit State(Native& run) : own(values(run.state())), ports(values(run.ports_->state())) {}
        void keep(Native& run, std::uint64_t its_number) {
            number = its_number, time = number == 1 ? -1 : run.clock_.now;
            own = run.state(), ports = run.ports_->state(), counted_down = run.counted_down_.size();
            if (run.recurrence_) recurrence = std::make_unique<Recurrence>(*run.recurrence_);
        }
        void put_back(Native& run) const {
            for (; run.counted_down_.size() > counted_down; run.counted_down_.pop_back()) ++run.parents_[run.counted_down_.back()];
            run.state() = own, run.ports_->state() = ports;
            if (recurrence) run.recurrence_ = std::make_unique<Recurrence>(*recurrence);
        }
        std::uint64_t number = 0;  // from 1, in order
        Tick time = -1;            // after all of this instant
        decltype(values(std::declval<Native&>().state())) own;
        decltype(values(std::declval<Ports&>().state())) ports;
        std::unique_ptr<Recurrence> recurrence;
        std::size_t counted_down = 0;
    };

    // The first state stays. Of the others, one goes once it is older than twice the largest power of 2 in its number: ages about
    // double from one to the next.
    void keep(Native& run, std::uint64_t most) {
        if (spare.empty()) spare.push_back(std::make_unique<State>(run));
        states.push_back(std::move(spare.back()));
        spare.pop_back();
        states.back()->keep(run, ++count);
        const auto old = [this](const State& state) { return count - state.number > 2 * (state.number & (~state.number + 1)); };
        for (std::size_t i = states.size() - 1; i-- > 1;)
            if (old(*states[i])) drop(i);
        while (states.size() > most) drop(1);
    }
    // The latest state before `time`; it is the last one from now on.
    State& before(Tick time) {
        while (states.size() > 1 && states.back()->time >= time) drop(states.size() - 1);
        count = states.back()->number;
        return *states.back();
    }
    void drop(std::size_t i) {
        if (spare.size() < 2) spare.push_back(std::move(states[i]));
        states.erase(states.begin() + static_cast<std::ptrdiff_t>(i));
    }

    std::vector<std::unique_ptr<State>> states, spare;
    std::uint64_t count = 0;
    double returns = 0;
    std::uint64_t redone = 0;  // events that ran again
    bool jumped = false;       // since the first state
    std::uint64_t due = 0;     // number of events after which a state is kept
};

void Native::HistoryEnd::operator()(History* history) const { delete history; }

// Events between two states, as Young has it for checkpoints (CACM 17(9), 1974): the root of twice the cost of keeping one times the
// time from one return to the next, here in events.
std::uint64_t Native::interval(std::uint64_t state_size) const {
    const double all = static_cast<double>(clock_.handled + history_->redone);
    return few_events + static_cast<std::uint64_t>(std::sqrt(2 * static_cast<double>(state_size) / bytes_of_an_event * all / (1 + history_->returns)));
}

void Native::keep_history() {
    if (!history_) history_.reset(new History);
    if (clock_.handled < history_->due) return;
    const std::uint64_t size = state_size();
    history_->keep(*this, std::max<std::uint64_t>(4, most_bytes_kept / size));
    history_->due = clock_.handled + interval(size);
}

void Native::go_back() {
    const std::uint64_t before = clock_.handled;
    const History::State& state = history_->before(back_to_);
    state.put_back(*this);
    ++history_->returns;
    history_->redone += before - clock_.handled;
    if (attempts_ && history_->redone > clock_.handled + many_redone) throw TooManyReturns{};
    if (history_->states.size() == 1 && std::exchange(history_->jumped, false)) count_parents();
    back_to_ = never;
    history_->due = clock_.handled + interval(state_size());
}

// Periods were left out: of the states before, only the first knows what nodes wait for.
void Native::forget_history() {
    if (!history_) return;
    while (history_->states.size() > 1) history_->drop(history_->states.size() - 1);
    history_->count = 1, history_->jumped = true, history_->due = 0;
    counted_down_.clear();
}

// Roughly, in bytes.
std::uint64_t Native::state_size() const {
    std::uint64_t size = messages_.size() * sizeof(Message) + 128 * ranks_.size() + 4096;
    for (const Instance& i : instances_) size += i.chunks.size() * sizeof(ChunkState) + i.members.size() * sizeof(Member) + 8 * i.bit_base.size();
    return size;
}

}  // namespace astrarium

