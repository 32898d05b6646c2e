// Small programs for a run of one collective: node 0 ends as the rank comes, node 1 takes part.
#pragma once
#include <array>
#include <deque>

#include "plan/plan.hpp"

namespace astrarium {

class Arrivals {
public:
    // Valid as long as this object.
    Program at(Tick offset) {
        const auto& delay = delays_.emplace_back(std::array<std::int64_t, 2>{offset, 0});
        return {{ids, 2},     {kinds, 2}, {lanes, 2},   {delay.data(), 2}, {nothing, 2},
                {nothing, 2}, {slots, 2}, {parents, 2}, {child_ptr, 3},    {child, 1}};
    }
    // It comes once the run ends node 0.
    static Program when_told() {
        return {{ids, 2},     {told, 2},  {lanes, 2}, {nothing, 2},   {nothing, 2},
                {nothing, 2}, {slots, 2}, {waits, 2}, {child_ptr, 3}, {child, 1}};
    }
    static Program none() {
        Program out;
        out.child_ptr = {parents, 1};
        return out;
    }

private:
    static constexpr std::uint64_t ids[] = {0, 1};
    static constexpr std::uint8_t kinds[] = {static_cast<std::uint8_t>(Kind::delay), static_cast<std::uint8_t>(Kind::collective)};
    static constexpr std::uint8_t told[] = {static_cast<std::uint8_t>(Kind::skip), static_cast<std::uint8_t>(Kind::collective)};
    static constexpr std::int16_t lanes[] = {-1, lane_comm};
    static constexpr std::int64_t nothing[] = {0, 0};
    static constexpr std::int32_t slots[] = {-1, 0}, parents[] = {0, 1}, waits[] = {1, 1}, child_ptr[] = {0, 1, 1}, child[] = {1};
    std::deque<std::array<std::int64_t, 2>> delays_;
};

}  // namespace astrarium
