// What plans with the same programs, ranks and groups have in common, found out once: that they are sound, and which ranks do alike.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "plan/check_plan.hpp"
#include "fold/quotient/classes.hpp"
#include "plan/plan.hpp"
#include "fold/periods/recurrence.hpp"

namespace astrarium {

// For several threads at once. Arrays of the plan it was made from must live as long, unchanged.
class Common {
public:
    // `collectives`: how many the plan has. Throws where it is broken.
    Common(const Plan& plan, std::size_t collectives);

    const Sound sound;
    Beats beats;
    std::shared_ptr<const Colours> colours(const Plan& plan);
    std::shared_ptr<const RankClasses> classes(const Plan& plan, const std::shared_ptr<const Colours>& colours,
                                               const std::set<Labels>& split);
    std::size_t bytes() const;  // about

private:
    static constexpr std::size_t most_networks = 64, most_classes = 256;
    using Places = std::vector<std::pair<Shape, int>>;  // NPUs of the dims, and their shape as far as it matters
    const std::size_t ranks_, groups_, slots_;
    mutable std::mutex lock_;
    std::map<std::pair<Places, const MediumKind*>, std::shared_ptr<const Colours>> colours_;
    std::map<std::pair<std::shared_ptr<const Colours>, std::set<Labels>>, std::shared_ptr<const RankClasses>> classes_;
};

}  // namespace astrarium
