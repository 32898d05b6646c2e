#include "fold/timers/class_timer.hpp"

namespace astrarium {
namespace {

constexpr std::size_t small_group = 64;  // where all members run: they may end alike though their steps differ

}  // namespace

std::optional<Measured> ClassTimer::time(const Asked& asked) {
    if (timing_.kinds.members(asked.kind).size() <= small_group || collective(asked).in_switch || collective(asked).meets ||
        timing_.meshes() || !timing_.plan.network.medium->on_ports)
        return std::nullopt;
    if (!quotient_) quotient_ = std::make_unique<Quotient>(timing_.plan, timing_.classes, timing_.facts);
    const auto& participants = timing_.kinds.participants(asked.kind);
    Alone alone = run_quotient_alone(*quotient_, collective(asked), static_cast<std::uint32_t>(asked.kind), participants, asked.offsets,
                                     timing_.record);
    if (alone.tie) throw Unfoldable{"chunks of a collective race within one instant"};
    Measured out{{}, {}, alone.quiet, alone.events, {}, std::move(alone.steps), {}};
    for (const std::uint32_t cls : participants) {
        out.done.push_back(alone.each[cls]), out.late.push_back(alone.late[cls]);
        if (timing_.record) out.loads.push_back(std::move(alone.loads[cls]));
        if (!alone.uses[cls].empty()) out.uses.push_back(timing_.kinds.own_dims(alone.uses[cls], asked.kind));
    }
    for (Step& step : out.steps) step.change /= timing_.kinds.groups_like(asked.kind);  // the steps of one group
    return out;
}

}  // namespace astrarium
