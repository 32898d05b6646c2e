// Programs, ranks and groups of a plan: the same for all plans that have them in common.
#include <algorithm>
#include <set>

#include "plan/check_plan.hpp"

namespace astrarium {

void check_program(const Program& p) {
    const std::size_t n = p.nodes();
    require(p.kind.size == n && p.lane.size == n && p.duration.size == n && p.busy.size == n && p.size.size == n && p.slot.size == n &&
                p.parents.size == n && p.child_ptr.size == n + 1,
            "program arrays differ in length");
    Tick busy = 0;
    for (std::size_t i = 0; i < n; ++i) {
        require(p.kind[i] <= static_cast<std::uint8_t>(Kind::skip) && p.lane[i] >= -1 && p.lane[i] < lane_count && p.duration[i] >= 0 &&
                    p.size[i] >= 0 && p.busy[i] >= 0 && p.child_ptr[i] >= 0 && p.child_ptr[i] <= p.child_ptr[i + 1],
                "node out of range");
        busy = add(busy, p.busy[i]);
    }
    require(static_cast<std::size_t>(p.child_ptr[n]) == p.child.size, "child_ptr out of range");
    std::vector<std::int32_t> parents(n, 0);
    for (const std::int32_t child : p.child) {
        require(child >= 0 && static_cast<std::size_t>(child) < n, "child out of range");
        ++parents[static_cast<std::size_t>(child)];
    }
    require(std::equal(parents.begin(), parents.end(), p.parents.begin()), "parents are not those of the children");
}

std::int64_t largest_message(const Program& p) {
    std::int64_t most = 0;
    for (std::size_t i = 0; i < p.nodes(); ++i)
        if (const auto kind = static_cast<Kind>(p.kind[i]); kind == Kind::send || kind == Kind::recv) most = std::max(most, p.size[i]);
    return most;
}

std::vector<SlotUse> slots_of(const Program& p) {
    std::vector<SlotUse> uses;
    for (std::size_t i = 0; i < p.nodes(); ++i) {
        const auto kind = static_cast<Kind>(p.kind[i]);
        if (!comm(kind)) continue;
        require(p.slot[i] >= 0 && static_cast<std::size_t>(p.slot[i]) < p.nodes(), "slot out of range");
        const auto at = static_cast<std::size_t>(p.slot[i]);
        if (at >= uses.size()) uses.resize(at + 1);
        SlotUse& use = uses[at];
        require(use.count == 0 || (use.kind == kind && use.size == p.size[i]), "nodes that differ share a slot");
        use = {kind, use.count + 1, p.size[i]};
    }
    for (const SlotUse& use : uses) require(use.count > 0, "a slot without a node");
    return uses;
}

namespace {

void check_ranks(const Plan& plan, const Sound& sound) {
    const std::size_t ranks = plan.ranks();
    require(plan.npu_of.size == ranks && plan.slot_ptr.size == ranks + 1, "rank arrays differ in length");
    require(plan.slot_ptr[0] == 0 && plan.slot_b.size == plan.slot_a.size && plan.slot_c.size == plan.slot_a.size,
            "slots differ in length");
    bool ascends = true;
    for (std::size_t r = 0; r < ranks; ++r) {
        require(plan.program_of[r] >= 0 && static_cast<std::size_t>(plan.program_of[r]) < plan.programs.size() && plan.npu_of[r] >= 0 &&
                    plan.npu_of[r] < plan.npus,
                "rank out of range");
        require(plan.slot_ptr[r + 1] ==
                    plan.slot_ptr[r] + static_cast<std::int64_t>(sound.uses[static_cast<std::size_t>(plan.program_of[r])].size()),
                "slots of another program");
        ascends = ascends && (r == 0 || plan.npu_of[r - 1] < plan.npu_of[r]);
    }
    require(static_cast<std::size_t>(plan.slot_ptr[ranks]) == plan.slot_a.size, "slots differ in length");
    if (ascends) return;
    std::vector<std::int32_t> sorted(plan.npu_of.begin(), plan.npu_of.end());
    std::sort(sorted.begin(), sorted.end());
    require(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "two ranks on one NPU");
}

void check_groups(const Plan& plan) {
    std::vector<std::size_t> seen;  // per rank: the last group, plus one, that it was found in
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
        const auto& group = plan.groups[g];
        bool ascends = true;
        for (std::size_t i = 0; i < group.size; ++i) {
            require(group[i] >= 0 && static_cast<std::size_t>(group[i]) < plan.ranks(), "group member out of range");
            ascends = ascends && (i == 0 || group[i - 1] < group[i]);
        }
        if (ascends) continue;
        seen.resize(plan.ranks(), 0);
        for (const std::int32_t member : group) {
            require(seen[static_cast<std::size_t>(member)] != g + 1, "a rank twice in a group");
            seen[static_cast<std::size_t>(member)] = g + 1;
        }
    }
}

// What slots of all ranks name: collectives of which numbers of members.
void find_served(const Plan& plan, std::size_t collectives, Sound& sound) {
    std::set<std::pair<std::uint32_t, std::size_t>> served;
    std::vector<std::size_t> last(collectives, 0);  // members that a collective was last seen with, plus one
    for (std::size_t r = 0; r < plan.ranks(); ++r) {
        const auto& uses = sound.uses[static_cast<std::size_t>(plan.program_of[r])];
        const auto base = static_cast<std::size_t>(plan.slot_ptr[r]);
        for (std::size_t s = 0; s < uses.size(); ++s) {
            const std::int32_t a = plan.slot_a[base + s], b = plan.slot_b[base + s];
            if (uses[s].kind != Kind::collective) {
                require(a >= 0 && b >= 0, "peer or tag out of range");
                continue;
            }
            require(a >= 0 && static_cast<std::size_t>(a) < collectives && b >= -1 && b < static_cast<std::int64_t>(plan.groups.size()),
                    "collective out of range");
            const std::size_t members = b < 0 ? plan.ranks() : plan.groups[static_cast<std::size_t>(b)].size;
            if (std::exchange(last[static_cast<std::size_t>(a)], members + 1) != members + 1) served.emplace(a, members);
            sound.collectives = std::max(sound.collectives, static_cast<std::size_t>(a) + 1);
        }
    }
    sound.served.assign(served.begin(), served.end());
}

}  // namespace

Sound sound_of(const Plan& plan, std::size_t collectives) {
    Sound sound;
    for (const Program& p : plan.programs) {
        check_program(p);
        sound.uses.push_back(slots_of(p));
        sound.largest = std::max(sound.largest, largest_message(p));
    }
    check_ranks(plan, sound);
    check_groups(plan);
    find_served(plan, collectives, sound);
    return sound;
}

}  // namespace astrarium
