// What is found out once about ranks and collectives: `Common` of all plans with the same programs, ranks and groups, `Facts` of one plan,
// however often its folding starts again.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "accelerate/memo/line_store.hpp"
#include "accelerate/periods/recurrence.hpp"
#include "accelerate/quotient/classes.hpp"
#include "plan/check_plan.hpp"
#include "plan/plan.hpp"

namespace astrarium {

// Caches which plans were checked, and the classes of equal ranks of each. Safe for several threads. The arrays of a cached plan must live as long as
// the cache, unchanged.
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
    const bool messages_;
    mutable std::mutex lock_;
    std::map<std::pair<Places, const MediumKind*>, std::shared_ptr<const Colours>> colours_;
    std::map<std::pair<std::shared_ptr<const Colours>, std::set<Labels>>, std::shared_ptr<const RankClasses>> classes_;
};

class Facts {
public:
    // `common`: what the plan has in common with others.
    Facts(const Plan& plan, std::shared_ptr<LineStore> store, std::shared_ptr<Common> common)
        : store(std::move(store)), plan_(plan), common_(std::move(common)) {}

    const std::shared_ptr<LineStore> store;

    Beats& beats() { return common_->beats; }
    const std::vector<std::vector<SlotUse>>& uses() const { return common_->sound.uses; }  // of slots, per program
    const Colours& colours() { return *known_colours(); }
    std::shared_ptr<const RankClasses> classes(const std::set<Labels>& split) { return common_->classes(plan_, known_colours(), split); }

    // Of a group (-1: all ranks). Members, and the dims in which they differ.
    const std::vector<std::uint32_t>& members(std::int32_t group) { return known(group).standing->members; }
    const std::vector<std::size_t>& dims(std::int32_t group) { return known(group).standing->dims; }

    // Contents by number, exactly: a schedule; where the members of a group stand; all that the time of a collective of a group depends
    // on but when its members come.
    std::uint32_t schedule(const Schedule* schedule);
    std::uint32_t places(std::int32_t group) { return known(group).places; }  // of its members
    std::uint32_t content(std::uint32_t collective, std::int32_t group);
    // Whether all members of a group stand alike in a phase.
    bool alike(const Phase& phase, std::int32_t group);

private:
    const std::shared_ptr<const Colours>& known_colours() {
        if (!colours_) colours_ = common_->colours(plan_);
        return colours_;
    }
    struct Group {
        const Standing* standing = nullptr;
        std::uint32_t places = 0;
    };
    Group& known(std::int32_t group);
    std::uint64_t dim_in(std::int32_t group, int dim);  // by its number among those in which the members differ
    Words described(const Collective& collective, std::int32_t group);
    bool stands_alike(const Phase& phase, std::int32_t group);

    const Plan& plan_;
    const std::shared_ptr<Common> common_;
    std::shared_ptr<const Colours> colours_;
    std::unordered_map<std::int32_t, Group> group_;  // as far as asked for
    std::unordered_map<const Schedule*, std::uint32_t> schedules_;
    std::map<std::pair<std::uint32_t, std::int32_t>, std::uint32_t> contents_;
    std::map<std::tuple<std::int32_t, const Schedule*, Algorithm, int, int, int>, bool> alike_;
};

}  // namespace astrarium
