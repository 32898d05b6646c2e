// Conflict promotion: which collectives met other traffic at a port, and so run as messages; the rest are measured alone.
#pragma once
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "fold/quotient/classes.hpp"

namespace astrarium {

// A collective is named by its kind of group and how many of the kind came before it (`serial`).
class Conflicts {
public:
    bool contains(std::uint32_t kind, std::uint32_t serial) const { return met_.contains({kind, serial}); }
    void insert(std::uint32_t kind, std::uint32_t serial) { met_.emplace(kind, serial); }
    // The same collectives when classes are refined; `kinds` were the groups' before.
    Conflicts renumbered(const std::vector<std::int32_t>& kinds, const RankClasses& to) const;

private:
    std::set<std::pair<std::uint32_t, std::uint32_t>> met_;
};

}  // namespace astrarium
