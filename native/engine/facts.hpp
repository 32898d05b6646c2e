// What folding finds out about a plan once, however often it starts again; and what of it other plans may share.
#pragma once
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "common.hpp"
#include "line_store.hpp"

namespace astrarium {

class Facts {
public:
    // `common`: what the plan has in common with others.
    Facts(const Plan& plan, std::shared_ptr<LineStore> store, std::shared_ptr<Common> common)
        : store(std::move(store)), plan_(plan), common_(std::move(common)), group_(plan.groups.size() + 1) {
        for (const Dim& dim : plan.network.dims) meshes_ = meshes_ || dim.shape == Shape::mesh;
    }

    const std::shared_ptr<LineStore> store;

    Beats& beats() { return common_->beats; }
    const Colours& colours() { return *known_colours(); }
    std::shared_ptr<const RankClasses> classes(const std::set<Labels>& split) { return common_->classes(plan_, known_colours(), split); }

    // Of a group (-1: all ranks). Members, and the dims in which they differ.
    const std::vector<std::uint32_t>& members(std::int32_t group) { return known(group).members; }
    const std::vector<std::size_t>& dims(std::int32_t group) { return known(group).dims; }

    // Contents, exactly: a schedule (by number), and all that the time of a collective of a group depends on but when its members come.
    std::uint32_t schedule(const Schedule* schedule);
    const Words& places(std::int32_t group) { return known(group).places; }  // of its members
    std::uint32_t content(std::uint32_t collective, std::int32_t group);  // by number
    // Whether all members of a group stand alike in a phase.
    bool alike(const Phase& phase, std::int32_t group);

private:
    const std::shared_ptr<const Colours>& known_colours() {
        if (!colours_) colours_ = common_->colours(plan_);
        return colours_;
    }
    struct Group {
        std::vector<std::uint32_t> members;
        std::vector<std::size_t> dims;
        Words places;
    };
    Group& known(std::int32_t group);
    void describe(Group& group) const;
    std::uint64_t dim_in(std::int32_t group, int dim);  // by its number among those in which the members differ
    Words described(const Collective& collective, std::int32_t group);
    bool stands_alike(const Phase& phase, std::int32_t group);

    const Plan& plan_;
    bool meshes_ = false;
    const std::shared_ptr<Common> common_;
    std::shared_ptr<const Colours> colours_;
    std::vector<Group> group_;  // the last: all ranks
    std::unordered_map<const Schedule*, std::uint32_t> schedules_;
    std::map<std::pair<std::uint32_t, std::int32_t>, std::uint32_t> contents_;
    std::map<std::tuple<std::int32_t, const Schedule*, Algorithm, int, int, int>, bool> alike_;
};

}  // namespace astrarium
