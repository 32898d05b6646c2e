#include "fold/timers/collective_timers.hpp"

#include <algorithm>
#include <stdexcept>

#include "fold/timers/class_timer.hpp"
#include "fold/timers/line_timer.hpp"
#include "fold/timers/members_timer.hpp"
#include "fold/timers/symmetric_timer.hpp"

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
    timers_.push_back(std::make_unique<LineTimer>(timing));
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
