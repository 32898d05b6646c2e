// The times of collectives by themselves: an ordered table of timers, and what they said, by pattern of arrivals. A further timer (a
// GPU's kernels, a measured table) is a class with one method and a line in the table.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "fold/timers/timer.hpp"

namespace astrarium {

class CollectiveTimers {
public:
    explicit CollectiveTimers(const Timing& timing);

    // A collective of a kind of group whose participants come at `at`, the first at `begin`. Throws Unfoldable where it has no time of its
    // own, Asymmetric where its participants have to be told apart.
    const Measured& measure(std::uint32_t collective, std::size_t kind, const std::vector<Tick>& at, Tick begin);
    std::uint64_t events() const;  // of all runs of collectives

    // When a participant's ports carry a measured collective of unknown uses that begins at `begin`, where it comes at `at`.
    PortUse use(const Measured& measured, std::size_t participant, Tick begin, Tick at) const;

private:
    std::shared_ptr<const Measured> shared(std::uint32_t collective, std::size_t kind, const std::vector<Tick>& offsets, bool together);
    Measured measured(const Asked& asked);

    const Timing timing_;
    std::vector<std::unique_ptr<Timer>> timers_;
    std::unordered_map<Words, std::shared_ptr<const Measured>, WordsHash> measured_;  // by collective and kind, and when all come
    std::vector<const Measured*> together_;                                           // by collective and kind: of all that come at once
    Words key_;
};

}  // namespace astrarium
