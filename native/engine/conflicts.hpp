// Conflict promotion: which collectives met other traffic at a port, and so run as messages; the rest are measured alone.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "classes.hpp"

namespace astrarium {

// A collective is named by its kind of group and how many of the kind came before it (`serial`). A family is all collectives of
// one kind with one description (`collective`): a layer's, of every layer and micro-batch.
class Conflicts {
public:
    bool contains(std::uint32_t kind, std::uint32_t serial, std::uint32_t collective) {
        ++issued_[{kind, collective}];
        return all_ || families_.contains({kind, collective}) || met_.contains({kind, serial});
    }
    void insert(std::uint32_t kind, std::uint32_t serial, std::uint32_t collective) {
        if (met_.emplace(kind, serial).second) ++found_[{kind, collective}];
    }
    // After round `round`: promotes families of which a large part has met others. The part halves every round, so that runs
    // whose conflicts show one by one end soon. What is promoted in vain costs time and changes nothing.
    void promote_families(int round);
    void insert_all() { all_ = true; }
    bool all() const { return all_; }
    std::size_t size() const { return met_.size(); }
    // The same collectives when classes are refined; `kinds` were the groups' before.
    Conflicts renumbered(const std::vector<std::int32_t>& kinds, const RankClasses& to) const;

private:
    using Pair = std::pair<std::uint32_t, std::uint32_t>;
    std::set<Pair> met_, families_;              // kind, serial; kind, collective
    std::map<Pair, std::uint64_t> issued_, found_;  // of a family: in this round; that met others
    bool all_ = false;
};

}  // namespace astrarium
