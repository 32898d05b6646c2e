// Classes of ranks that provably do the same at the same time, by colour refinement.
#pragma once
#include <algorithm>
#include <compare>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "media/distance.hpp"
#include "plan/plan.hpp"
#include "plan/slots.hpp"
#include "accelerate/quotient/standing.hpp"
#include "plan/unfoldable.hpp"

namespace astrarium {

// Positions in the groups of a shape (0: all ranks), by a label that tells some of them apart.
struct Labels {
    std::uint64_t shape;
    std::vector<std::uint32_t> of;  // [positions]
    auto operator<=>(const Labels&) const = default;
};
// Positions of one value share a label.
template <class Value>
Labels by_value(std::uint64_t shape, const std::vector<Value>& values) {
    std::vector<Value> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    Labels out{shape, {}};
    for (const Value& v : values)
        out.of.push_back(static_cast<std::uint32_t>(std::lower_bound(sorted.begin(), sorted.end(), v) - sorted.begin()));
    return out;
}

// Members of a class turned out not to be equal; classes that tell these positions apart may be.
struct Asymmetric : Unfoldable {
    Labels apart;
};

// What no refinement changes: who meets whom, where ranks stand, and a first colour of each rank and group.
class Colours {
public:
    using Hash = std::uint64_t;
    using SlotUses = std::vector<std::vector<SlotUse>>;  // per program
    Colours(const Plan& plan, const SlotUses& uses);     // throws Unfoldable where it is not known which messages meet

    std::vector<std::int32_t> partner_slot;  // [slots] slot at the peer, -1 elsewhere; empty where there are no messages
    std::vector<Hash> rank;                  // program, which collectives on which of the rank's own groups, which way to peers
    std::vector<Hash> group_shape;           // places of the members relative to the first
    const int* coordinates(std::size_t rank) const { return &coordinates_[rank * dims_]; }
    mutable Standings standings;  // of groups

private:
    void match_messages(const Plan& plan, const SlotUses& uses);
    void shape_groups(const Plan& plan);
    void start(const Plan& plan);
    Hash place(const Network& network, std::size_t origin, std::size_t rank, bool way = false) const;

    std::size_t dims_;
    bool meshes_ = false;
    std::vector<int> coordinates_;
};

// Two ranks share a class when they run the same program, take part in the same kind of groups (classes by position,
// places of the members relative to the first), and their messages go to, and come from, ranks of the same class over
// the same way. `kind` numbers groups likewise; kind 0 is all ranks.
class RankClasses {
public:
    RankClasses(const Plan& plan, std::shared_ptr<const Colours> colours, const std::set<Labels>& split);

    std::vector<std::int32_t> of;                   // [ranks]
    std::vector<std::int32_t> first;                // [classes] lowest rank
    std::vector<std::int32_t> group_kind;           // [groups]
    std::vector<std::int32_t> first_group;          // [kinds] a group of the kind; -1 all ranks
    const std::vector<std::int32_t>& partner_slot;  // of the colours

    // The shape of a kind of group, for `Labels`.
    std::uint64_t shape(std::size_t kind) const { return kind == 0 ? 0 : start_->group_shape[static_cast<std::size_t>(first_group[kind])]; }

private:
    std::shared_ptr<const Colours> start_;
};

}  // namespace astrarium
