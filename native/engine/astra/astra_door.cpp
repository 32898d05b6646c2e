#include "astra/astra_door.hpp"

#include "media/distance.hpp"

namespace astrarium {

Door::Door(const Plan& plan, std::size_t ranks, Clock& clock, NpuEvents& events, Bus::Finish crossed)
    : plan_(plan), clock_(clock), events_(events) {
    if (!plan.policy.shared_bus) return;
    for (std::uint32_t r = 0; r < ranks; ++r) {
        const auto schedule = [this, r](Tick delta, std::uint32_t code) { events_.after(r, delta, {npu_event::bus, r, code}); };
        buses_.emplace_back(*plan.policy.shared_bus, schedule, crossed);
    }
}

Tick Door::reduction(const Stream& s, std::int64_t size) const {
    const double rate = plan_.reduction_rate(plan_.npu_of[s.rank]);
    if (rate <= 0) return 0;
    const double pass = static_cast<double>(size) / rate * 1e9;
    return plan_.network.whole_ns ? 3 * ticks(pass, true) : ticks(3 * pass, false);
}

}  // namespace astrarium
