// Collectives whose phases are each over one dim, and no two dims' phases take turns: what all members do is found line by line, dim
// after dim.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "fold/timers/timer.hpp"

namespace astrarium {

class LineTimer final : public Timer {
public:
    explicit LineTimer(const Timing& timing) : Timer(timing) {}
    std::optional<Measured> time(const Asked& asked) override;

    struct Stage {  // successive phases over one dim
        std::size_t dim = 0;
        std::vector<std::size_t> phases;
        std::vector<std::pair<int, int>> factors;  // stride, n: of positions in the group, ascending
    };

private:
    struct LaidStage {
        std::size_t dim;
        std::vector<std::uint32_t> steps, first;  // positions of a line relative to its first; first of each line
        std::uint32_t line;
    };
    using Laid = std::vector<LaidStage>;  // none: it cannot run line by line

    LineStore& store() { return *timing_.facts.store; }
    bool lay(const Collective& c, const std::vector<std::uint32_t>& members, Laid& out);
    std::uint32_t line(const Collective& c, const Stage& stage, const std::vector<int>& places);
    std::uint64_t run_stage(const LaidStage& stage, const std::vector<std::uint32_t>& index, std::vector<Pattern>& now,
                            std::vector<Uses::Row>& uses);
    void end(const Asked& asked, const std::vector<std::uint32_t>& index, const std::vector<Pattern>& now, Measured& found);

    std::map<std::pair<std::uint32_t, std::size_t>, Laid> laid_;  // by collective and kind
};

}  // namespace astrarium
