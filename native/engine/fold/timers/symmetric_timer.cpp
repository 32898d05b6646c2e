#include "fold/timers/symmetric_timer.hpp"

#include <algorithm>

namespace astrarium {

std::optional<Measured> SymmetricTimer::time(const Asked& asked) {
    const auto alone = asked.together ? looped(asked) : nullptr;
    if (!alone) return std::nullopt;
    const std::size_t participants = asked.offsets.size();
    Measured found{std::vector<Tick>(participants, alone->done),
                   std::vector<std::uint8_t>(participants, alone->late[0]),
                   alone->quiet,
                   alone->events,
                   alone->loads,
                   alone->steps,
                   {}};
    if (!alone->uses.empty() && !alone->uses[0].empty()) found.uses.assign(participants, alone->uses[0]);
    return found;
}

// By content, for plans that have such a collective.
LineStore::Looped SymmetricTimer::looped(const Asked& asked) {
    const Collective& c = collective(asked);
    if (!timing_.by_lines() || c.custom) return loop_back(c, asked.kind);
    return timing_.facts.store->looped({timing_.facts.content(asked.collective, timing_.kinds.group(asked.kind))},
                                       [&] { return loop_back(c, asked.kind); });
}

// Null where members are not interchangeable, or where the order of chunks within an instant would decide.
LineStore::Looped SymmetricTimer::loop_back(const Collective& c, std::size_t kind) {
    const std::vector<std::uint32_t>& members = timing_.kinds.members(kind);
    if (!symmetric(c, kind) || !reduce_alike(members)) return nullptr;
    std::vector<std::int32_t> npu_of;
    for (const std::uint32_t m : members) npu_of.push_back(timing_.plan.npu_of[m]);
    Plan small = timing_.plan_of(c);
    small.npu_of = {npu_of.data(), npu_of.size()};
    Alone alone = timing_.rules.alone(small, timing_.record);
    if (alone.tie) return nullptr;
    for (Step& step : alone.steps) step.change *= static_cast<std::int64_t>(members.size());  // its equals do the same
    for (Uses::Row& row : alone.uses) row = timing_.kinds.own_dims(row, kind);
    return std::make_shared<const Alone>(std::move(alone));
}

bool SymmetricTimer::symmetric(const Collective& c, std::size_t kind) const {
    if (timing_.plan.network.medium->on_links && !timing_.rules.alone_on_links) return false;
    for (const Chunk& chunk : c.chunks)
        if (!std::all_of(chunk.phases.begin(), chunk.phases.end(),
                         [&](const Phase& phase) { return timing_.facts.alike(phase, timing_.kinds.group(kind)); }))
            return false;
    return true;
}

bool SymmetricTimer::reduce_alike(const std::vector<std::uint32_t>& members) const {
    const Plan& plan = timing_.plan;
    if (plan.reduce_bandwidth.size == 0) return true;
    const double rate = plan.reduction_rate(plan.npu_of[members[0]]);
    return std::all_of(members.begin(), members.end(), [&](std::uint32_t m) { return plan.reduction_rate(plan.npu_of[m]) == rate; });
}

}  // namespace astrarium
