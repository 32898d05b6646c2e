#include "run/undisturbed.hpp"

#include <algorithm>
#include <utility>

#include "plan/slots.hpp"
#include "run/what.hpp"

namespace astrarium {
namespace {

constexpr std::uint32_t most_members = 4096;
constexpr int most_runs = 4;

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
        if (!used[g] || size < 2 || size > most_members) continue;
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

void Undisturbed::begin(BatchClock& clock, Traffic& traffic) {
    clock_ = &clock, traffic_ = &traffic, ++runs_;
    holds_.reset(2 * traffic.ports()), held_.clear();
    for (Group& g : groups_) g.open.clear();
}

void Undisturbed::gather(const Member& member, std::uint32_t collective, std::uint32_t serial) {
    auto& open = groups_[member.group].open;
    auto it = std::find_if(open.begin(), open.end(), [serial](const Gathering& g) { return g.serial == serial; });
    const std::uint32_t size = membership_.size(member.group);
    if (it == open.end())
        it = open.insert(open.end(), {serial, collective, 0, std::vector<Coming>(size), std::vector<std::uint32_t>(size, nothing)});
    if (it->collective != collective) throw Disturbed{"members of a group issue different ones"};  // a run of messages says so
    it->at[member.position] = {clock_->now, member.late}, it->node[member.position] = member.node;
    if (++it->arrived < size) return;
    const Gathering all = std::move(*it);
    open.erase(it);
    over(member.group, all);
}

// All members of a collective have come: when each ends.
void Undisturbed::over(std::uint32_t group, const Gathering& all) {
    const AloneTimes::Place& place = groups_[group].place;
    std::vector<Coming> comings = all.at;
    const Tick first = std::min_element(comings.begin(), comings.end(), [](const Coming& a, const Coming& b) { return a.at < b.at; })->at;
    const bool early = std::any_of(comings.begin(), comings.end(), [first](const Coming& c) { return c.at == first && !c.late; });
    for (Coming& c : comings) c = {c.at - first, c.late && (early || c.at > first)};  // nobody is late if all are
    const AloneTimes::Timed* const t = times_.timed(place, all.collective, comings);
    if (!t) throw Disturbed{"one does not end"};
    const std::uint32_t holder = holds_.add_holder();
    held_.push_back({group, all.serial});
    for (const AloneTimes::LinkUse& use : t->links) {
        const std::size_t link = times_.link(place, use, *traffic_);
        holds_.hold(link, add(first, use.from), add(first, use.until), holder);
        traffic_->charge(use.inward ? link - traffic_->ports() : link, use.inward, use.bytes, use.busy);
    }
    if (traffic_->records()) traffic_->usage.add(t->use, first);
    end(group, all, *t, first, holder);
}

void Undisturbed::end(std::uint32_t group, const Gathering& all, const AloneTimes::Timed& t, Tick first, std::uint32_t holder) {
    for (std::uint32_t p = 0; p < all.at.size(); ++p) {
        const std::uint32_t rank = membership_.rank(group, p);
        Tick end = add(first, t.done[p]);
        if (end <= clock_->now) holds_.meets(holder), end = clock_->now + 1;  // before the last has come: too late to say
        const std::uint64_t key = static_cast<std::uint64_t>(rank) << 32 | all.node[p];
        clock_->at(end, t.late[p] ? BatchClock::arrive : BatchClock::done,
                   {key, 0, t.late[p] ? measured_over : node_over, rank, all.node[p]});
    }
}

bool Undisturbed::exact() const {
    return std::none_of(holds_.met().begin(), holds_.met().end(), [](std::uint8_t met) { return met != 0; });
}

std::string Undisturbed::found() const {
    const std::vector<std::uint8_t>& met = holds_.met();
    return "collectives timed alone, run " + std::to_string(runs_) + ": " +
           std::to_string(std::count_if(met.begin(), met.end(), [](std::uint8_t each) { return each != 0; })) + " of " +
           std::to_string(met.size()) + " met other traffic";
}

bool Undisturbed::goes_again() {
    for (std::size_t holder = 0; holder < held_.size(); ++holder) {
        if (!holds_.met()[holder]) continue;
        auto& meet = groups_[held_[holder].group].meet;
        if (meet.size() <= held_[holder].serial) meet.resize(held_[holder].serial + std::size_t{1}, 0);
        meet[held_[holder].serial] = 1;
    }
    return runs_ < most_runs;
}

}  // namespace astrarium
