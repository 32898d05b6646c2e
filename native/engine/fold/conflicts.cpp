#include "fold/conflicts.hpp"

namespace astrarium {

Conflicts Conflicts::renumbered(const std::vector<std::int32_t>& kinds, const RankClasses& to) const {
    Conflicts out;
    for (std::uint32_t kind = 0; kind < to.first_group.size(); ++kind) {
        const std::int32_t group = to.first_group[kind];
        const auto before = group < 0 ? 0 : static_cast<std::uint32_t>(kinds[static_cast<std::size_t>(group)]);
        for (auto at = met_.lower_bound({before, 0}); at != met_.end() && at->first == before; ++at) out.insert(kind, at->second);
    }
    return out;
}

}  // namespace astrarium
