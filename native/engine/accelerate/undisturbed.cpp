#include "accelerate/undisturbed.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/slots.hpp"

namespace astrarium {
namespace {

constexpr std::uint32_t most_timed = 4096;

// Every hop and every message takes time, so that what comes within one instant is the same with and without others.
bool takes_time(const Network& network) {
    return std::all_of(network.dims.begin(), network.dims.end(),
                       [](const Dim& dim) { return dim.npus < 2 || ticks(dim.latency, false) > 0; });
}

}  // namespace

Undisturbed::Undisturbed(const Plan& plan) : plan_(plan), membership_(plan), times_(plan), groups_(plan.groups.size() + 1) {
    const MediumKind& medium = *plan.network.medium;
    const bool known = (medium.on_ports || (medium.on_links && medium.queues)) && !plan.network.graph && plan.changes.time.size == 0 &&
                       plan.reduce_bandwidth.size == 0 && takes_time(plan.network);
    for (const Collective& c : plan.collectives) able_.push_back(known && able(c));
    if (!known) throw Disturbed{"they cannot be on this network"};
    const std::vector<std::uint8_t> used = groups_in_use();
    for (std::uint32_t g = 0; g < groups_.size(); ++g) {
        const std::uint32_t size = membership_.size(g);
        if (!used[g] || size < 2 || size > most_timed) continue;
        std::vector<std::uint32_t> ranks;
        for (std::uint32_t p = 0; p < size; ++p) ranks.push_back(membership_.rank(g, p));
        groups_[g].place = times_.place(ranks), groups_[g].placed = true;
    }
    if (std::none_of(groups_.begin(), groups_.end(), [](const Group& g) { return g.placed; })) throw Disturbed{"none can be"};
}

// Groups with collectives that can be timed.
std::vector<std::uint8_t> Undisturbed::groups_in_use() const {
    std::vector<std::uint8_t> used(groups_.size(), 0);
    for (std::uint32_t rank = 0; rank < plan_.ranks(); ++rank) {
        const std::vector<SlotUse> uses = slots_of(plan_.program(rank));
        for (std::size_t s = 0; s < uses.size(); ++s) {
            if (uses[s].kind != Kind::collective) continue;
            const std::size_t slot = static_cast<std::size_t>(plan_.slot_ptr[rank]) + s;
            const std::int32_t group = plan_.slot_b[slot];
            used[group < 0 ? membership_.all() : static_cast<std::uint32_t>(group)] |= able_[static_cast<std::size_t>(plan_.slot_a[slot])];
        }
    }
    return used;
}

// Its messages take time, and its links show what it used.
bool Undisturbed::able(const Collective& c) const {
    if (c.custom || c.lasts || c.in_switch || c.meets || c.total_chunks < 1 || c.max_phases < 1) return false;
    const auto& dims = plan_.network.dims;
    const double fastest =
        std::max_element(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.bandwidth < b.bandwidth; })->bandwidth;
    for (const Chunk& chunk : c.chunks)
        for (const Phase& phase : chunk.phases) {
            if (phase.n < 2) continue;
            if (!phase.schedule || ticks(static_cast<double>(phase.block_size) / fastest, false) == 0) return false;
            const auto& blocks = phase.schedule->send_block_ptr;
            if (std::adjacent_find(blocks.begin(), blocks.end()) != blocks.end()) return false;  // a message without bytes
        }
    return true;
}

void Undisturbed::begin(const Parts& run) {
    run_ = &run, ++runs_;
    holds_.reset(2 * run.messages.traffic()->ports()), held_.clear(), gatherings_.clear();
    run.messages.watch(holds_);
}

bool Undisturbed::measure(const Member& m) {
    const Group& group = groups_[m.group];
    if (!able_[m.collective] || !group.placed || group.meets(m.serial + run_->collectives.skipped(m.group))) return false;
    Gathering& gathering = gatherings_.of(m, membership_.size(m.group), run_->clock);
    if (gathering.collective != m.collective) throw Disturbed{"members of a group issue different ones"};  // a run of messages says so
    const Coming coming{run_->clock.now, run_->nodes.late()};  // late: after messages that arrive in this instant
    if (Gathering all; gatherings_.take(m, coming, gathering, all)) time(m, all);
    return true;
}

// All members of a collective have come: when each ends.
void Undisturbed::time(const Member& last, const Gathering& all) {
    const AloneTimes::Place& place = groups_[last.group].place;
    std::vector<Coming> comings = all.at;
    const Tick first = std::min_element(comings.begin(), comings.end(), [](const Coming& a, const Coming& b) { return a.at < b.at; })->at;
    const bool early = std::any_of(comings.begin(), comings.end(), [first](const Coming& c) { return c.at == first && !c.late; });
    for (Coming& c : comings) c = {c.at - first, c.late && (early || c.at > first)};  // nobody is late if all are
    const AloneTimes::Timed* const t = times_.timed(place, all.collective, comings);
    if (!t) throw Disturbed{"one does not end"};
    const std::uint32_t holder = holds_.add_holder();
    held_.push_back({last.group, last.serial + run_->collectives.skipped(last.group)});
    Traffic& traffic = *run_->messages.traffic();
    for (const AloneTimes::LinkUse& use : t->links) {
        const std::size_t link = times_.link(place, use, traffic);
        if (!holds_.is_free(link, add(first, use.from))) holds_.meet(holder);
        holds_.hold(link, add(first, use.until), holder);
        traffic.charge(use.inward ? link - traffic.ports() : link, use.inward, use.bytes, use.busy);
    }
    if (traffic.records()) traffic.usage.add(t->use, first);
    end(last.group, all, *t, first, holder);
}

void Undisturbed::end(std::uint32_t group, const Gathering& all, const AloneTimes::Timed& t, Tick first, std::uint32_t holder) {
    for (std::uint32_t p = 0; p < all.at.size(); ++p) {
        const std::uint32_t rank = membership_.rank(group, p);
        Tick end = add(first, t.done[p]);
        if (end <= run_->clock.now) holds_.meet(holder), end = run_->clock.now + 1;  // before the last has come: too late to say
        const std::uint64_t key = static_cast<std::uint64_t>(rank) << 32 | all.node[p];
        run_->clock.at(end, t.late[p] ? BatchClock::arrive : BatchClock::done,
                       {key, 0, t.late[p] ? measured_over : node_over, rank, all.node[p]});
    }
}

std::string Undisturbed::promote() {
    for (const std::uint32_t holder : holds_.found()) {
        const Held& held = held_[holder];
        auto& meet = groups_[held.group].meet;
        if (meet.size() <= held.serial) meet.resize(held.serial + std::size_t{1}, 0);
        meet[held.serial] = 1;
    }
    return "collectives timed alone, run " + std::to_string(runs_) + ": " + std::to_string(holds_.found().size()) + " of " +
           std::to_string(held_.size()) + " met other traffic";
}

// --- periods that recur

// Which holder a link has does not matter: in a run that counts none is met.
void Undisturbed::write(StateWords& to) const {
    gatherings_.write(to, run_->collectives);
    holds_.each([&to](std::size_t link, Tick held, Tick used, std::uint32_t) {
        if (to.matters(held) || to.matters(used)) to.count(link), to.until(held), to.until(used);
    });
}

// As long as each collective is timed, or not, as the one a period before.
std::uint64_t Undisturbed::periods_alike(const Period& of, std::uint64_t most) const {
    const Collectives& collectives = run_->collectives;
    for (std::uint32_t group = 0; group < groups_.size() && most > 0; ++group) {
        const std::uint32_t period = of.serials[group];
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

// The last holders, as many as collectives came in the period, are those of the period. Each period that is left out has such holders, too,
// that meet others as these did, and as those of the period before did in this one. The holders themselves become those of the last one,
// since these are under way.
void Undisturbed::skip(const Period& period, std::uint64_t periods) {
    const auto further = [&period](std::uint32_t group, std::uint64_t times) {
        return static_cast<std::uint32_t>(times) * period.serials[group];
    };
    const auto end = static_cast<std::uint32_t>(held_.size()), first = end - static_cast<std::uint32_t>(period.issues);
    const std::vector<std::uint32_t> before = in_period_before(first, period.serials);
    for (std::uint64_t k = 0; k < periods; ++k)
        for (std::uint32_t holder = first; holder < end; ++holder) {
            Held held = held_[holder];
            held.serial += further(held.group, k);
            held_.push_back(held);
            const std::uint32_t other = before[holder - first];
            holds_.add_holder(holds_.met(holder) || (other != nothing && holds_.met(other)));
        }
    for (std::uint32_t holder = first; holder < end; ++holder) held_[holder].serial += further(held_[holder].group, periods);
}

}  // namespace astrarium
