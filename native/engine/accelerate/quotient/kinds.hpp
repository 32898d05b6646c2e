// Kinds of groups (0: all ranks), as those ask about them that time collectives: which classes take part, and where members stand.
#pragma once
#include <cstdint>
#include <vector>

#include "accelerate/memo/facts.hpp"
#include "accelerate/quotient/classes.hpp"
#include "media/distance.hpp"

namespace astrarium {

// Throws Unfoldable for what no rule book folds.
void check_foldable(const Plan& plan, const RankClasses& classes, bool record);

class Kinds {
public:
    // Throws Unfoldable where a rank is in two groups of one kind: it would meet itself.
    Kinds(const Plan& plan, Facts& facts, const RankClasses& classes);

    std::size_t count() const { return size_.size(); }
    std::uint32_t size(std::size_t kind) const { return size_[kind]; }  // of a group
    std::int64_t class_size(std::size_t cls) const { return class_size_[cls]; }
    std::int32_t group(std::size_t kind) const { return classes_.first_group[kind]; }  // one of the kind; -1: all ranks
    const std::vector<std::uint32_t>& participants(std::size_t kind) const { return participants_[kind]; }  // classes, ascending
    const std::vector<std::uint32_t>& members(std::size_t kind) { return facts_.members(group(kind)); }     // of that one group
    // By member: the number of its class among the participants. Equal numbers of the whole mean equal lists, in any plan.
    const std::vector<std::uint32_t>& index_of(std::size_t kind);
    std::uint32_t index_number(std::size_t kind);
    // How many groups of a kind meet: each rank takes part in one, and the members of a class are shared among them.
    std::int64_t groups_like(std::size_t kind) const { return groups_like_[kind]; }
    // The dims in which a group's members differ: no message of its collectives loads a port of another. Throws Unfoldable where its
    // messages may pass NPUs of a line that are not members: other groups may use the same links.
    const std::vector<std::size_t>& dims(std::size_t kind);
    // Of uses by dim of the network: those of the dims in which the group's members differ.
    Uses::Row own_dims(const Uses::Row& row, std::size_t kind) const;

private:
    void check_groups() const;
    bool passes_others(std::size_t kind, const std::vector<std::size_t>& dims) const;

    const Plan& plan_;
    Facts& facts_;
    const RankClasses& classes_;
    std::vector<std::vector<std::uint32_t>> participants_;
    std::vector<std::uint32_t> size_, index_number_;
    std::vector<std::int64_t> class_size_, groups_like_;
    std::vector<std::uint8_t> keeps_to_itself_;      // as far as asked for
    std::vector<std::vector<std::uint32_t>> index_;  // as far as asked for
};

}  // namespace astrarium
