// The state of collectives that are timed, and what skipping periods changes.
#include <algorithm>
#include <map>

#include "run/collectives.hpp"
#include "run/undisturbed.hpp"

namespace astrarium {

Tick Undisturbed::horizon(Tick now) const {
    for (const Group& group : groups_)
        for (const Gathering& each : group.open)
            for (std::size_t p = 0; p < each.at.size(); ++p)
                if (each.node[p] != nothing) now = std::min(now, each.at[p].at);
    return now;
}

// Which holder a link has does not matter: in a run that counts none is met.
void Undisturbed::write(Recurrence& to, const Collectives& collectives) const {
    for (std::uint32_t group = 0; group < groups_.size(); ++group)
        for (const Gathering& each : groups_[group].open) {
            const std::int64_t issued = std::int64_t{collectives.issued(group)} + collectives.skipped(group);
            to.count(group), to.word(each.serial - issued), to.word(each.collective);
            for (std::uint32_t p = 0; p < each.at.size(); ++p) {
                to.word(each.node[p] != nothing ? 1 + each.at[p].late : 0);
                if (each.node[p] != nothing) to.time(each.at[p].at), to.node(membership_.rank(group, p), each.node[p]);
            }
        }
    to.count(groups_.size());
    holds_.each([&to](std::size_t link, Tick held, Tick used) {
        if (to.matters(held) || to.matters(used)) to.count(link), to.until(held), to.until(used);
    });
}

// As long as each collective is timed, or not, as the one a period before.
std::uint64_t Undisturbed::periods_alike(const std::vector<std::uint32_t>& serials, const Collectives& collectives,
                                         std::uint64_t most) const {
    for (std::uint32_t group = 0; group < groups_.size() && most > 0; ++group) {
        const std::uint32_t period = serials[group];
        if (period == 0 || !groups_[group].placed) continue;
        const auto [low, high] = std::minmax_element(collectives.issues(group).begin(), collectives.issues(group).end());
        const std::uint32_t skipped = collectives.skipped(group), end = *high + skipped;
        std::uint32_t n = *low + skipped < period ? 0 : *low + skipped - period;
        const std::uint64_t last = end + (most - 1) * period;
        while (n < last && groups_[group].meets(n) == groups_[group].meets(n + period)) ++n;
        most = n < end ? 0 : std::min<std::uint64_t>(most, (n - end) / period + 1);
    }
    return most;
}

// Who the holders of a period are in the one before.
std::vector<std::uint32_t> Undisturbed::in_period_before(std::uint32_t first, const std::vector<std::uint32_t>& serials) const {
    const auto count = static_cast<std::uint32_t>(held_.size()) - first;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> number;
    for (std::uint32_t k = 0; k < count; ++k) number.emplace(std::pair(held_[first + k].group, held_[first + k].serial), k);
    std::vector<std::uint32_t> before(count, nothing);
    for (std::uint32_t holder = first < 2 * count ? 0 : first - 2 * count; holder < first; ++holder) {
        const Held& held = held_[holder];
        if (const auto it = number.find({held.group, held.serial + serials[held.group]}); it != number.end()) before[it->second] = holder;
    }
    return before;
}

// The last `timings` holders are those of the period. Each period that is left out has such holders, too, that meet others as these did,
// and as those of the period before did in this one. The holders themselves become those of the last one, since these are under way. What
// gathers is so much further on.
void Undisturbed::skip(const std::vector<std::uint32_t>& serials, std::size_t timings, std::uint64_t periods) {
    const auto further = [&serials](std::uint32_t group, std::uint64_t times) {
        return static_cast<std::uint32_t>(times) * serials[group];
    };
    const auto end = static_cast<std::uint32_t>(held_.size()), first = end - static_cast<std::uint32_t>(timings);
    const std::vector<std::uint32_t> before = in_period_before(first, serials);
    for (std::uint64_t k = 0; k < periods; ++k)
        for (std::uint32_t holder = first; holder < end; ++holder) {
            Held held = held_[holder];
            held.serial += further(held.group, k);
            held_.push_back(held);
            const std::uint32_t other = before[holder - first];
            holds_.add_holder(holds_.met()[holder] || (other != nothing && holds_.met()[other]));
        }
    for (std::uint32_t holder = first; holder < end; ++holder) held_[holder].serial += further(held_[holder].group, periods);
    for (std::uint32_t group = 0; group < groups_.size(); ++group)
        for (Gathering& each : groups_[group].open) each.serial += further(group, periods);
}

}  // namespace astrarium
