// One member per class of a large group, as messages between these (`run_quotient_alone`).
#pragma once
#include <memory>

#include "fold/quotient/quotient.hpp"
#include "fold/timers/timer.hpp"

namespace astrarium {

class ClassTimer final : public Timer {
public:
    explicit ClassTimer(const Timing& timing) : Timer(timing) {}
    std::optional<Measured> time(const Asked& asked) override;

private:
    std::unique_ptr<Quotient> quotient_;  // made when first asked for
};

}  // namespace astrarium
