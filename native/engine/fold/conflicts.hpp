// Conflict promotion: which collectives met other traffic at a port, and so run as messages; the rest are measured alone.
#pragma once
#include <cstdint>
#include <vector>

#include "fold/quotient/classes.hpp"

namespace astrarium {

// A collective is named by its kind of group and how many of the kind came before it (`serial`).
class Conflicts {
public:
    bool contains(std::uint32_t kind, std::uint32_t serial) const {
        return kind < met_.size() && serial < met_[kind].size() && met_[kind][serial];
    }
    void insert(std::uint32_t kind, std::uint32_t serial) {
        if (kind >= met_.size()) met_.resize(kind + std::size_t{1});
        if (serial >= met_[kind].size()) met_[kind].resize(serial + std::size_t{1}, false);
        met_[kind][serial] = true;
    }
    // The same collectives when classes are refined; `kinds` were the groups' before.
    Conflicts renumbered(const std::vector<std::int32_t>& kinds, const RankClasses& to) const;

private:
    std::vector<std::vector<bool>> met_;  // [kind][serial]
};

}  // namespace astrarium
