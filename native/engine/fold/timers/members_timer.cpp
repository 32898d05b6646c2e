#include "fold/timers/members_timer.hpp"

#include <algorithm>
#include <map>

#include "fold/timers/arrivals.hpp"

namespace astrarium {
namespace {

constexpr std::size_t most_members = 4096;

std::int32_t place_in(const std::vector<std::uint32_t>& ascending, std::uint32_t member) {
    return static_cast<std::int32_t>(std::lower_bound(ascending.begin(), ascending.end(), member) - ascending.begin());
}

}  // namespace

std::optional<Measured> MembersTimer::time(const Asked& asked) {
    std::vector<std::uint32_t> ascending = timing_.kinds.members(asked.kind);
    if (ascending.size() > most_members) throw Unfoldable{"an asymmetric collective of more than 4,096 ranks"};
    std::sort(ascending.begin(), ascending.end());
    Alone alone = run(asked, ascending);
    if (alone.tie) throw Unfoldable{"chunks of a collective race within one instant"};
    return by_participant(asked, ascending, std::move(alone));
}

// Members as ranks in the order of their numbers, as ties go by rank; the group has its own order.
Alone MembersTimer::run(const Asked& asked, const std::vector<std::uint32_t>& ascending) const {
    const std::vector<std::uint32_t>& members = timing_.kinds.members(asked.kind);
    const std::vector<std::uint32_t>& index = timing_.kinds.index_of(asked.kind);  // by position in the group
    std::vector<std::int32_t> order, npu_of, program_of(members.size()), zeros(members.size(), 0), group(members.size(), -1);
    std::vector<std::int64_t> slot_ptr;
    Plan small = timing_.plan_of(collective(asked));
    std::map<Tick, std::int32_t> program_at;
    Arrivals arrivals;
    for (std::size_t p = 0; p < members.size(); ++p) {
        order.push_back(place_in(ascending, members[p]));
        const Tick offset = asked.offsets[index[p]];
        const auto [program, fresh] = program_at.try_emplace(offset, static_cast<std::int32_t>(program_at.size()));
        if (fresh) small.programs.push_back(arrivals.at(offset));
        program_of[static_cast<std::size_t>(order[p])] = program->second;
    }
    for (const std::uint32_t m : ascending) npu_of.push_back(timing_.plan.npu_of[m]);
    for (std::size_t p = 0; p <= members.size(); ++p) slot_ptr.push_back(static_cast<std::int64_t>(p));
    shrink(small, npu_of);
    if (!std::is_sorted(order.begin(), order.end()))
        small.groups.push_back({order.data(), order.size()}), std::fill(group.begin(), group.end(), 0);
    small.program_of = {program_of.data(), program_of.size()}, small.npu_of = {npu_of.data(), npu_of.size()};
    small.slot_ptr = {slot_ptr.data(), slot_ptr.size()};
    small.slot_a = {zeros.data(), zeros.size()}, small.slot_b = {group.data(), group.size()}, small.slot_c = {zeros.data(), zeros.size()};
    return timing_.rules.members(small, timing_.record);
}

Measured MembersTimer::by_participant(const Asked& asked, const std::vector<std::uint32_t>& ascending, Alone alone) const {
    const std::vector<std::uint32_t>& members = timing_.kinds.members(asked.kind);
    const std::vector<std::uint32_t>& index = timing_.kinds.index_of(asked.kind);
    const std::size_t participants = timing_.kinds.participants(asked.kind).size(), dims = timing_.plan.network.dims.size();
    Measured out{std::vector<Tick>(participants, -1),
                 std::vector<std::uint8_t>(participants, 0),
                 alone.quiet,
                 alone.events,
                 {},
                 std::move(alone.steps),
                 {}};
    if (timing_.record) out.loads.resize(participants);
    const bool used = !alone.uses.empty() && !alone.uses[0].empty();
    std::vector<Uses::Row> uses(used ? participants : 0, Uses::Row(dims));
    std::vector<std::vector<std::int64_t>> did, first(participants);  // what all of a class must share, by position in the group
    for (std::size_t p = 0; p < members.size(); ++p) {
        const auto at = static_cast<std::size_t>(place_in(ascending, members[p]));
        did.push_back({alone.each[at], alone.late[at]});
        for (std::size_t k = 0; timing_.record && k < alone.loads[at].size(); ++k) {
            const Load& load = alone.loads[at][k];
            did[p].insert(did[p].end(), {load.dim, load.inward, load.bytes, load.busy});
        }
        for (std::size_t d = 0; used && d < dims; ++d) join(uses[index[p]][d], alone.uses[at][d], 0);
    }
    for (std::size_t p = 0; p < members.size(); ++p) {
        const auto at = static_cast<std::size_t>(place_in(ascending, members[p]));
        if (out.done[index[p]] >= 0) {
            if (did[p] == first[index[p]]) continue;
            throw Asymmetric{{"members of one class end a collective at different times"},
                             by_value(timing_.classes.shape(asked.kind), did)};
        }
        out.done[index[p]] = alone.each[at], out.late[index[p]] = alone.late[at], first[index[p]] = did[p];
        if (timing_.record) out.loads[index[p]] = alone.loads[at];
    }
    for (const Uses::Row& row : uses) out.uses.push_back(timing_.kinds.own_dims(row, asked.kind));
    return out;
}

// A network of as few NPUs as the members need, where each stands as it did: a switch has the coordinates in use only, and a dim
// in which nobody differs has one. On meshes, and where links are shared, others lie on the way.
void MembersTimer::shrink(Plan& small, std::vector<std::int32_t>& npu_of) const {
    const Plan& plan = timing_.plan;
    if (timing_.meshes() || !plan.network.medium->on_ports || plan.reduce_bandwidth.size > 0) return;
    const Geometry geometry(plan.network);
    std::vector<std::int32_t> moved(npu_of.size(), 0);
    std::int64_t npus = 1;
    for (std::size_t d = 0; d < plan.network.dims.size(); ++d) {
        std::vector<int> places;
        for (const std::int32_t npu : npu_of) places.push_back(geometry.coordinate(npu, d));
        std::sort(places.begin(), places.end());
        places.erase(std::unique(places.begin(), places.end()), places.end());
        Dim& dim = small.network.dims[d];
        const bool few = dim.shape == Shape::switch_ || places.size() == 1;
        if (few) dim.npus = static_cast<int>(places.size());
        for (std::size_t p = 0; p < npu_of.size(); ++p) {
            const int place = geometry.coordinate(npu_of[p], d);
            const auto at = few ? std::lower_bound(places.begin(), places.end(), place) - places.begin() : place;
            moved[p] += static_cast<std::int32_t>(at * npus);
        }
        npus *= dim.npus;
    }
    small.npus = static_cast<int>(npus);
    npu_of = std::move(moved);
}

}  // namespace astrarium
