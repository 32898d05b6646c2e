// Runs of one collective by itself.
#pragma once
#include <array>
#include <deque>
#include <vector>

#include "media/usage.hpp"
#include "plan/run.hpp"
#include "plan/unfoldable.hpp"

namespace astrarium {

// Small programs for them: node 0 ends as the rank comes, node 1 takes part.
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

// When a member comes; late: once the messages of that instant have arrived.
struct Coming {
    Tick at = 0;
    bool late = false;
};

// A run by itself: by member, and what its links carried.
struct AloneOnLinks {
    std::vector<Tick> done;          // empty: it did not end
    std::vector<std::uint8_t> late;  // messages had arrived in its last instant before it ended
    std::vector<Step> steps;
    Outcome traffic;
    std::vector<Span> windows;  // by link of the traffic: when the first message asks for it, and the last is through
    std::uint64_t events = 0;
};
// Each rank's node 0 ends as it comes.
AloneOnLinks run_alone_on_links(const Plan& plan, const std::vector<Coming>& comings);

class Quotient;
// Of the classes in `participants`, which come at `offsets`, a collective of a kind of group; the results are by class.
Alone run_quotient_alone(Quotient& quotient, const Collective& collective, std::uint32_t kind,
                         const std::vector<std::uint32_t>& participants, const std::vector<Tick>& offsets, bool record);

// A run of representatives that goes wrong is left to the full run, which says what is wrong, of which rank.
template <class Run>
auto or_unfoldable(Run&& run) {
    try {
        return run();
    } catch (const BadTrace&) { throw Endless{{"the run does not end"}}; } catch (const Stall&) {
        throw Endless{{"the run does not end"}};
    } catch (const Unsupported&) { throw Endless{{"the run does not end"}}; }
}

}  // namespace astrarium
