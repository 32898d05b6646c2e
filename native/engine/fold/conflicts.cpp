#include "fold/conflicts.hpp"

namespace astrarium {

Conflicts Conflicts::renumbered(const std::vector<std::int32_t>& kinds, const RankClasses& to) const {
    Conflicts out;
    out.met_.resize(to.first_group.size());
    for (std::uint32_t kind = 0; kind < to.first_group.size(); ++kind) {
        const std::int32_t group = to.first_group[kind];
        const auto before = group < 0 ? 0 : static_cast<std::uint32_t>(kinds[static_cast<std::size_t>(group)]);
        if (before < met_.size()) out.met_[kind] = met_[before];
    }
    return out;
}

}  // namespace astrarium
