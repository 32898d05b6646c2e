// What folding finds out about a plan once, however often it starts again; and what of it other plans may share.
#pragma once
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "classes.hpp"
#include "line_store.hpp"
#include "recurrence.hpp"

namespace astrarium {

class Facts {
public:
    Facts(const Plan& plan, std::shared_ptr<LineStore> store) : beats(plan), store(std::move(store)), plan_(plan), group_(plan.groups.size() + 1) {
        for (const Dim& dim : plan.network.dims) meshes_ = meshes_ || dim.shape == Shape::mesh;
    }

    Beats beats;
    const std::shared_ptr<LineStore> store;

    const Colours& colours() {
        if (!colours_) colours_ = std::make_unique<Colours>(plan_);
        return *colours_;
    }

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
    std::unique_ptr<const Colours> colours_;
    std::vector<Group> group_;  // the last: all ranks
    std::unordered_map<const Schedule*, std::uint32_t> schedules_;
    std::map<std::pair<std::uint32_t, std::int32_t>, std::uint32_t> contents_;
    std::map<std::tuple<std::int32_t, const Schedule*, Algorithm, int, int, int>, bool> alike_;
};

}  // namespace astrarium
