// Collectives whose members are interchangeable in every phase and come at once: one member runs, and receives what it sends.
#pragma once
#include "fold/timers/timer.hpp"

namespace astrarium {

class SymmetricTimer final : public Timer {
public:
    explicit SymmetricTimer(const Timing& timing) : Timer(timing) {}
    std::optional<Measured> time(const Asked& asked) override;

private:
    bool symmetric(const Collective& c, std::size_t kind) const;
    bool reduce_alike(const std::vector<std::uint32_t>& members) const;
    LineStore::Looped looped(const Asked& asked);
    LineStore::Looped loop_back(const Collective& c, std::size_t kind);
};

}  // namespace astrarium
