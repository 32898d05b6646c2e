// Positions of ranks in groups. Group number `groups.size()` is all ranks.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

class Membership {
public:
    static constexpr std::uint32_t none = 0xffffffffu;

    explicit Membership(const Plan& plan) : plan_(plan), sorted_(plan.groups.size()) {}

    std::uint32_t all() const { return static_cast<std::uint32_t>(plan_.groups.size()); }

    std::uint32_t size(std::uint32_t group) const {
        return static_cast<std::uint32_t>(group == all() ? plan_.ranks() : plan_.groups[group].size);
    }

    std::uint32_t rank(std::uint32_t group, std::uint32_t position) const {
        return group == all() ? position : static_cast<std::uint32_t>(plan_.groups[group][position]);
    }

    std::uint32_t position(std::uint32_t group, std::uint32_t rank) {
        if (group == all()) return rank;
        auto& sorted = sorted_[group];
        if (sorted.empty()) {
            const auto& members = plan_.groups[group];
            for (std::uint32_t i = 0; i < members.size; ++i) sorted.emplace_back(members[i], i);
            std::sort(sorted.begin(), sorted.end());
        }
        const auto it = std::lower_bound(sorted.begin(), sorted.end(), std::pair{static_cast<std::int32_t>(rank), 0u});
        return it == sorted.end() || it->first != static_cast<std::int32_t>(rank) ? none : it->second;
    }

private:
    const Plan& plan_;
    std::vector<std::vector<std::pair<std::int32_t, std::uint32_t>>> sorted_;
};

}  // namespace astrarium
