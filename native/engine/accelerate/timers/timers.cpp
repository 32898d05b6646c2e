#include "accelerate/timers/timers.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "accelerate/alone.hpp"
#include "accelerate/quotient/quotient.hpp"

namespace astrarium {
namespace {

constexpr std::size_t most_pairs = 1 << 20;  // of collectives and kinds that have a place in a table

// A collective of given time, so long after the last has come.
class GivenTimer final : public Timer {
public:
    explicit GivenTimer(const Timing& timing) : Timer(timing) {}
    std::optional<Measured> time(const Asked& asked) override {
        const Tick lasts = collective(asked).lasts;
        if (!lasts) return std::nullopt;
        const std::size_t participants = asked.offsets.size();
        const Tick done = add(*std::max_element(asked.offsets.begin(), asked.offsets.end()), lasts);
        Measured found{std::vector<Tick>(participants, done), std::vector<std::uint8_t>(participants, 0), 0, participants, {}, {}, {}};
        found.uses.assign(participants, Uses::Row(timing_.plan.network.dims.size()));
        return found;
    }
};

// A message that could be delivered at the instant at which it leaves: then no timer can tell.
class InstantTimer final : public Timer {
public:
    explicit InstantTimer(const Timing& timing) : Timer(timing) {}
    std::optional<Measured> time(const Asked& asked) override {
        for (const std::size_t d : timing_.facts.dims(timing_.kinds.group(asked.kind))) {
            const Dim& dim = timing_.plan.network.dims[d];
            if (ticks(dim.latency, false) > 0) continue;
            for (const Chunk& chunk : collective(asked).chunks)
                for (const Phase& phase : chunk.phases)
                    if (phase.n > 1 && ticks(static_cast<double>(phase.block_size) / dim.bandwidth, false) == 0)
                        throw Unfoldable{"messages that take no time"};
        }
        return std::nullopt;
    }
};

// --- members that are interchangeable in every phase and come at once: one runs, and receives what it sends

class SymmetricTimer final : public Timer {
public:
    explicit SymmetricTimer(const Timing& timing) : Timer(timing) {}
    std::optional<Measured> time(const Asked& asked) override;

private:
    bool symmetric(const Collective& c, std::size_t kind) const;
    bool reduce_alike(const std::vector<std::uint32_t>& members) const;
    LineStore::Looped looped(const Asked& asked);
    LineStore::Looped loop_back(const Collective& c, std::size_t kind);
};

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

// --- one member per class of a large group, as messages between these

constexpr std::size_t small_group = 64;  // where all members run: they may end alike though their steps differ

class ClassTimer final : public Timer {
public:
    explicit ClassTimer(const Timing& timing) : Timer(timing) {}
    std::optional<Measured> time(const Asked& asked) override;

private:
    std::unique_ptr<Quotient> quotient_;  // made when first asked for
};

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

// --- every member, each as messages

constexpr std::size_t most_members = 4096;

std::int32_t place_in(const std::vector<std::uint32_t>& ascending, std::uint32_t member) {
    return static_cast<std::int32_t>(std::lower_bound(ascending.begin(), ascending.end(), member) - ascending.begin());
}

class MembersTimer final : public Timer {
public:
    explicit MembersTimer(const Timing& timing) : Timer(timing) {}
    std::optional<Measured> time(const Asked& asked) override;

private:
    Alone run(const Asked& asked, const std::vector<std::uint32_t>& ascending) const;
    Measured by_participant(const Asked& asked, const std::vector<std::uint32_t>& ascending, Alone alone) const;
    void shrink(Plan& small, std::vector<std::int32_t>& npu_of) const;
};

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

}  // namespace

bool Timing::meshes() const {
    const auto& dims = plan.network.dims;
    return std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.shape == Shape::mesh; });
}

Plan Timing::plan_of(const Collective& c) const {
    Plan small;
    small.npus = plan.npus, small.network = plan.network, small.policy = plan.policy;
    small.collectives.push_back(c);
    small.lanes[lane_comm] = plan.lanes[lane_comm];
    small.reduce_bandwidth = plan.reduce_bandwidth;
    return small;
}

CollectiveTimers::CollectiveTimers(const Timing& timing) : timing_(timing) {
    timers_.push_back(std::make_unique<GivenTimer>(timing));
    if (timing.rules.instants) timers_.push_back(std::make_unique<InstantTimer>(timing));
    timers_.push_back(std::make_unique<SymmetricTimer>(timing));
    timers_.push_back(make_line_timer(timing));
    timers_.push_back(std::make_unique<ClassTimer>(timing));
    timers_.push_back(std::make_unique<MembersTimer>(timing));
    if (const std::size_t pairs = timing.plan.collectives.size() * timing.kinds.count(); pairs < most_pairs)
        together_.assign(pairs, nullptr);
}

const Measured& CollectiveTimers::measure(std::uint32_t id, std::size_t kind, const std::vector<Tick>& at, Tick begin) {
    const bool together = std::all_of(at.begin(), at.end(), [begin](Tick t) { return t == begin; });
    const std::size_t known = static_cast<std::size_t>(id) * timing_.kinds.count() + kind;
    if (together && known < together_.size() && together_[known]) return *together_[known];
    key_.assign(1, known);
    for (const Tick t : at) key_.push_back(static_cast<std::uint64_t>(t - begin));
    auto it = measured_.find(key_);
    if (it == measured_.end()) {
        const Words key = key_;
        it = measured_.emplace(key, shared(id, kind, {key.begin() + 1, key.end()}, together)).first;
    }
    if (together && known < together_.size()) together_[known] = it->second.get();
    return *it->second;
}

// By content, where other plans may have such a collective. What cannot be measured throws, and leaves nothing behind.
std::shared_ptr<const Measured> CollectiveTimers::shared(std::uint32_t id, std::size_t kind, const std::vector<Tick>& offsets,
                                                         bool together) {
    const Collective& c = timing_.plan.collectives[id];
    const Asked asked{id, kind, offsets, together};
    if (!timing_.by_lines() || c.custom || c.lasts) return std::make_shared<const Measured>(measured(asked));
    LineStore& store = *timing_.facts.store;
    Words content{timing_.facts.content(id, timing_.kinds.group(kind)), timing_.kinds.index_number(kind)};
    content.insert(content.end(), offsets.begin(), offsets.end());
    const std::uint64_t shape = timing_.classes.shape(kind);
    const auto kept = store.measured(content, [&] {
        try {
            return std::make_shared<const LineStore::Kept>(LineStore::Kept{measured(asked), {}, {}});
        } catch (const Asymmetric& reason) {
            if (reason.apart.of.empty() || reason.apart.shape != shape) throw;
            return std::make_shared<const LineStore::Kept>(LineStore::Kept{{}, reason.why, reason.apart.of});
        }
    });
    if (!kept->apart.empty()) throw Asymmetric{{kept->why}, {shape, kept->apart}};
    return {kept, &kept->found};
}

Measured CollectiveTimers::measured(const Asked& asked) {
    for (const auto& timer : timers_)
        if (auto found = timer->time(asked)) return std::move(*found);
    throw std::logic_error("the last timer did not tell a time");
}

std::uint64_t CollectiveTimers::events() const {
    std::uint64_t sum = 0;
    for (const auto& [key, measured] : measured_) sum += measured->events;
    return sum;
}

// A member ends when all that it sent and was sent is delivered: then its ports are free. Where messages of others pass them (on a mesh,
// over links), once all are.
PortUse CollectiveTimers::use(const Measured& measured, std::size_t participant, Tick begin, Tick at) const {
    PortUse mine;
    const bool passed = timing_.meshes() || timing_.plan.network.medium->on_links;
    const Tick done = add(begin, measured.done[participant]), until = passed ? std::max(done, add(begin, measured.quiet)) : done;
    mine.out.add(at, until), mine.in.add(begin, until);
    return mine;
}

}  // namespace astrarium
