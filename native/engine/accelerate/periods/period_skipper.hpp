// Leaves out periods of a native run: its state as words, and what leaving out changes.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "accelerate/periods/recurrence.hpp"
#include "run/native.hpp"

namespace astrarium {

class PeriodSkipper {
public:
    // Before the run starts. Where nothing recurs that it could tell, it does nothing. `accelerator`: or null.
    PeriodSkipper(const Parts& run, Accelerator* accelerator, Beats& beats);
    // After an instant: whether periods were left out.
    bool look() { return recurrence_ && recurrence_->due() && look_at_state(); }
    std::uint64_t counted() const { return counted_; }  // events of periods that were left out

    // Earlier states.
    std::unique_ptr<Recurrence> copy() const { return recurrence_ ? std::make_unique<Recurrence>(*recurrence_) : nullptr; }
    void put_back(const Recurrence& earlier, std::uint64_t counted);

private:
    bool look_at_state();
    void write_events();
    void write_event(const Keyed& event);
    void write_message(MessageId id);
    std::vector<std::int64_t> counts() const;
    bool skip(Jump jump);

    const Parts& run_;
    Accelerator* const accelerator_;
    Traffic* const traffic_;  // where recorded
    std::unique_ptr<Recurrence> recurrence_;
    StateWords* to_ = nullptr;  // of the state that is being written
    std::uint64_t counted_ = 0;
};

}  // namespace astrarium
