// Earlier states of a run with one rank per class. A timed collective that meets others was begun wrongly; the run goes back to before
// it began, and from there it runs as messages.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

class Native;
class PeriodSkipper;
class Promotion;

class History {
public:
    History(Native& run, Promotion& promotion, PeriodSkipper* periods);
    ~History();
    // After an instant: keeps the state, where one is due.
    void keep();
    // To the latest state before the first collective began that met others. These run as messages from there.
    void go_back();
    std::uint64_t events_since(Tick before) const;  // that going back runs again
    // Periods were left out: of the states before, only the first knows what nodes wait for.
    void forget();

private:
    struct State;
    auto changing();  // all that a run changes
    void insert(std::uint64_t most);
    std::size_t latest(Tick before) const;
    void drop(std::size_t i);
    std::uint64_t interval(std::uint64_t state_size) const;
    std::uint64_t state_size() const;

    Native& run_;
    Promotion& promotion_;
    PeriodSkipper* const periods_;  // or null
    std::vector<std::unique_ptr<State>> states_, spare_;
    std::uint64_t count_ = 0;
    double returns_ = 0;
    std::uint64_t redone_ = 0;  // events that ran again
    bool jumped_ = false;       // since the first state
    std::uint64_t due_ = 0;     // number of events after which a state is kept
};

}  // namespace astrarium
