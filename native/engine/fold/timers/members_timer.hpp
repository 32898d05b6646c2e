// Every member of a group, each as messages.
#pragma once
#include "fold/timers/timer.hpp"

namespace astrarium {

class MembersTimer final : public Timer {
public:
    explicit MembersTimer(const Timing& timing) : Timer(timing) {}
    std::optional<Measured> time(const Asked& asked) override;

private:
    Alone run(const Asked& asked, const std::vector<std::uint32_t>& ascending) const;
    Measured by_participant(const Asked& asked, const std::vector<std::uint32_t>& ascending, Alone alone) const;
    void shrink(Plan& small, std::vector<std::int32_t>& npu_of) const;
};

}  // namespace astrarium
