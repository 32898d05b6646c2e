#include "conflicts.hpp"

namespace astrarium {

void Conflicts::promote_families(int round) {
    for (const auto& [family, found] : found_)
        if (found << (round + 1) >= issued_[family]) families_.insert(family);
    issued_.clear();
}

Conflicts Conflicts::renumbered(const std::vector<std::int32_t>& kinds, const RankClasses& to) const {
    Conflicts out;
    out.all_ = all_;
    const auto copy = [](std::uint32_t before, std::uint32_t now, const std::set<Pair>& from, std::set<Pair>& copied) {
        for (auto at = from.lower_bound({before, 0}); at != from.end() && at->first == before; ++at) copied.emplace(now, at->second);
    };
    for (std::uint32_t kind = 0; kind < to.first_group.size(); ++kind) {
        const std::int32_t group = to.first_group[kind];
        const auto before = group < 0 ? 0 : static_cast<std::uint32_t>(kinds[static_cast<std::size_t>(group)]);
        copy(before, kind, met_, out.met_);
        copy(before, kind, families_, out.families_);
    }
    return out;
}

}  // namespace astrarium
