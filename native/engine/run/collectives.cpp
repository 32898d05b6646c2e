#include "run/collectives.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace astrarium {
namespace {

std::string op_name(int op) {
    static const char* const names[] = {"all_reduce", "reduce",         "all_gather",           "gather", "scatter", "broadcast",
                                        "all_to_all", "reduce_scatter", "reduce_scatter_block", "barrier"};
    return op >= 0 && static_cast<std::size_t>(op) < std::size(names) ? names[op] : "operation " + std::to_string(op);
}

// A phase of given time: its participants leave so long after the last of them has come, and after another chunk's such phase is over.
void meet_in_phase(Instance& i, std::uint32_t instance, std::uint32_t state, std::size_t count, BatchClock& clock) {
    const ChunkState mine = i.chunks[state];
    const bool alone = i.members.size() == 1;  // one stands for all
    const auto of = [&](std::int32_t k) {
        return alone ? state : static_cast<std::uint32_t>(static_cast<std::size_t>(mine.base + k * mine.now().stride) * count + mine.chunk);
    };
    const std::int32_t n = alone ? 1 : mine.now().n;
    for (std::int32_t k = 0; k < n; ++k)
        if (!i.chunks[of(k)].inside || i.chunks[of(k)].phase != mine.phase) return;
    Tick start = clock.now;
    for (std::int32_t k = 0; k < n; ++k) start = std::max(start, i.members[i.chunks[of(k)].position].free);
    const Tick end = add(start, mine.now().lasts);
    for (std::int32_t k = 0; k < n; ++k) {
        ChunkState& s = i.chunks[of(k)];
        s.over = i.members[s.position].free = end;
        clock.at(end, BatchClock::done, {i.members[s.position].key(), std::uint64_t{s.chunk} << 32, phase_over, of(k), instance});
    }
}

}  // namespace

Collectives::Collectives(const Plan& plan, BatchClock& clock, Nodes& nodes, Messages& messages, const RunOptions& options)
    : plan_(plan), clock_(clock), nodes_(nodes), messages_(messages), alone_(options.alone), equals_(options.equals),
      accelerator_(options.accelerator), membership_(plan), geometry_(plan.network), send_order_(plan), receive_delays_(plan),
      turns_(plan, *this, messages, clock), custom_(plan, clock, nodes, messages, *this), next_serial_(plan.groups.size() + 1),
      open_(plan.groups.size() + 1), skipped_(plan.groups.size() + 1, 0) {}

std::uint32_t Collectives::open(std::uint32_t group, std::uint32_t collective, std::uint32_t serial) {
    if (free_.empty()) {
        free_.push_back(static_cast<std::uint32_t>(instances_.size()));
        instances_.emplace_back();
    }
    if (equals_) equals_->check(plan_.collectives[collective], group);
    const std::uint32_t id = free_.back();
    free_.pop_back();
    Instance& i = instances_[id];
    i = Instance{};
    i.collective = collective, i.group = group, i.serial = opened_++;
    const Collective& c = plan_.collectives[collective];
    const std::uint32_t members = alone_ ? 1 : membership_.size(group), chunks = static_cast<std::uint32_t>(c.total_chunks);
    if (static_cast<std::uint64_t>(members) * chunks > 1u << 30) throw Unsupported("a collective of more than 2^30 chunks of members");
    i.members.resize(members);
    for (std::uint32_t p = 0; p < members; ++p) {
        i.members[p].rank = membership_.rank(group, p);
        i.members[p].chunks_left = chunks;
        i.members[p].entered.assign(c.lists(), 0);
        i.members[p].left.assign(c.lists(), 0);
    }
    open_[group].emplace_back(serial, id);
    if (!c.custom && !c.lasts) i.lay_chunks(id, c, [&](std::uint32_t p) { return place_of(group, p); });
    for (std::size_t k = static_cast<std::size_t>(members) * chunks; k < i.chunks.size(); ++k) {
        ChunkState& s = i.chunks[k];
        const InSwitch& able = s.now().in_switch;
        const std::int32_t npu = plan_.npu_of[membership_.rank(group, s.position)];
        s.node = able.nodes.empty() ? geometry_.switch_of(static_cast<std::size_t>(s.now().dim), npu)
                                    : able.nodes[static_cast<std::size_t>(s.index - s.now().n)];
    }
    return id;
}

void Collectives::issue(std::uint32_t rank, std::uint32_t node, std::size_t slot) {
    const auto id = static_cast<std::uint32_t>(plan_.slot_a[slot]);
    const std::uint32_t group = plan_.slot_b[slot] < 0 ? membership_.all() : static_cast<std::uint32_t>(plan_.slot_b[slot]);
    const std::uint32_t position = membership_.position(group, rank);
    if (position == Membership::none) throw BadTrace("the rank is not a member of the collective's group", nodes_.place(rank, node));
    auto& next = next_serial_[group];
    if (next.empty()) next.resize(membership_.size(group));
    const std::uint32_t serial = next[position]++;
    if (accelerator_ && accelerator_->measure({rank, node, group, position, id, serial})) return;
    const auto& open_ones = open_[group];
    const auto it = std::find_if(open_ones.begin(), open_ones.end(), [serial](const auto& one) { return one.first == serial; });
    const std::uint32_t instance = it != open_ones.end() ? it->second : open(group, id, serial);
    check_alike(rank, node, plan_.collectives[id], instance, serial);
    join(instance, position, node);
}

void Collectives::check_alike(std::uint32_t rank, std::uint32_t node, const Collective& mine, std::uint32_t instance,
                              std::uint32_t serial) const {
    const Instance& i = instances_[instance];
    const Collective& theirs = plan_.collectives[i.collective];
    if (mine.same_work(theirs)) return;
    const std::uint32_t number = serial + skipped_[i.group] + 1;
    throw BadTrace("collective number " + std::to_string(number) + " of its group is " + op_name(mine.op) + " of " +
                       std::to_string(mine.size) + " bytes here, but another member issued " + op_name(theirs.op) + " of " +
                       std::to_string(theirs.size) +
                       " bytes: the ranks issue this group's collectives in different orders; let each wait for the "
                       "one before it on every rank (dependencies of the trace), or try collective.scheduling: fifo",
                   nodes_.place(rank, node));
}

void Collectives::join(std::uint32_t instance, std::uint32_t position, std::uint32_t node) {
    const Collective& theirs = plan_.collectives[instances_[instance].collective];
    Member& member = instances_[instance].members[position];
    member.node = node;
    if (theirs.custom) return custom_.start(instance, position);
    if (theirs.lasts) return meet_lasting(instance);
    if (member.chunks_left > 0 && theirs.max_phases > 0) return begin(instance, position);
    end_member(instance, position);
}

void Collectives::end_member(std::uint32_t instance, std::uint32_t position) {
    Instance& i = instances_[instance];
    Member& member = i.members[position];
    member.chunks_left = 0;
    ++i.done;
    nodes_.over(member.rank, member.node, clock_.now);
    close_if_done(instance);
}

// A collective of given time: nobody sends, all end so long after the last has come.
void Collectives::meet_lasting(std::uint32_t instance) {
    Instance& i = instances_[instance];
    if (++i.done < i.members.size()) return;
    const Tick end = add(clock_.now, plan_.collectives[i.collective].lasts);
    for (const Member& m : i.members) nodes_.over(m.rank, m.node, end);
    close_if_done(instance);
}

void Collectives::begin(std::uint32_t instance, std::uint32_t position) {
    const std::size_t lists = plan_.collectives[instances_[instance].collective].lists();
    for (std::uint32_t list = 0; list < lists; ++list) advance(instance, position, list);
}

// Lets the next visits of a list begin at this member, while the window has room.
void Collectives::advance(std::uint32_t instance, std::uint32_t position, std::uint32_t list) {
    const Collective& c = plan_.collectives[instances_[instance].collective];
    const auto chunks = static_cast<std::size_t>(c.total_chunks);
    for (;;) {
        Instance& i = instances_[instance];
        if (i.members.empty()) return;  // the last chunk left meanwhile
        Member& m = i.members[position];
        if (m.entered[list] >= c.visits(list)) return;
        const auto [chunk, phase] = c.visit(list, m.entered[list]);
        const ChunkState& s = i.chunks[position * chunks + chunk];
        if (phase >= s.phases->size()) {  // it has fewer phases: passed over
            ++m.entered[list], ++m.left[list];
            continue;
        }
        if (s.inside || s.phase + 1 != static_cast<std::int32_t>(phase)) return;
        if (c.active_chunks > 0 && m.entered[list] - m.left[list] >= static_cast<std::uint32_t>(c.active_chunks)) return;
        ++m.entered[list];
        enter(instance, position, chunk, phase);
    }
}

void Collectives::enter(std::uint32_t instance, std::uint32_t position, std::uint32_t chunk, std::uint32_t phase) {
    Instance& i = instances_[instance];
    const Collective& c = plan_.collectives[i.collective];
    const auto at = static_cast<std::uint32_t>(static_cast<std::size_t>(position) * static_cast<std::size_t>(c.total_chunks) + chunk);
    ChunkState& s = i.chunks[at];
    s.enter(phase, place_of(i.group, position), i.bit_base[at * static_cast<std::size_t>(c.max_phases) + phase]);
    if (s.now().lasts) return meet_in_phase(i, instance, at, static_cast<std::size_t>(c.total_chunks), clock_);
    const bool starts = s.starts();
    if (starts && plan_.policy.endpoint_delay == 0 && !clock_.strict) release_sends(instance, at);
    else if (starts)
        clock_.at(add(clock_.now, plan_.policy.endpoint_delay), BatchClock::done,
                  {i.members[position].key(), static_cast<std::uint64_t>(chunk) << 32, phase_started, at, instance});
    const bool told = plan_.network.medium->receives;
    if (told) post_receives(instance, at);
    const std::size_t first = s.bits, end = told ? first : first + s.receives;
    for (std::size_t k = first; k < end; ++k) {
        if (i.delivered[k >> 6] == 0) k |= 63;  // mostly nothing has come before
        else if (const auto r = static_cast<std::uint32_t>(k - first); bit(i.delivered, k))
            receive_at(instance, at, r, r, add(clock_.now, receive_delay(i, s, r)));
    }
    if (s.sends == 0 && s.receives == 0) try_leave(instance, at);
}

void Collectives::try_leave(std::uint32_t instance, std::uint32_t state) {
    Instance& i = instances_[instance];
    ChunkState& s = i.chunks[state];
    if (!s.inside || s.node >= 0 || s.complete != s.receives || s.next_send != s.sends || s.undelivered != 0) return;
    if (s.over > clock_.now) return clock_.at(s.over, BatchClock::done, {i.members[s.position].rank, s.chunk, phase_over, state, instance});
    s.inside = false;
    const auto phase = static_cast<std::uint32_t>(s.phase);
    const std::uint32_t position = s.position, chunk = s.chunk;
    Member& m = i.members[position];
    const Collective& c = plan_.collectives[i.collective];
    const std::uint32_t list = c.list_of(chunk, phase);
    ++m.left[list];
    const bool last = phase + 1 == s.phases->size();
    if (!last) {
        advance(instance, position, c.list_of(chunk, phase + 1));
        return advance(instance, position, list);
    }
    if (--m.chunks_left > 0) return advance(instance, position, list);
    ++i.done;
    if (alone_) alone_done_ = clock_.now, alone_late_ = nodes_.late();
    else nodes_.complete(m.rank, m.node);
    close_if_done(instance);
}

void Collectives::close_if_done(std::uint32_t instance) {
    Instance& i = instances_[instance];
    if (i.done != i.members.size()) return;
    auto& open = open_[i.group];
    open.erase(std::find_if(open.begin(), open.end(), [instance](const auto& o) { return o.second == instance; }));
    i = Instance{};
    free_.push_back(instance);
}

void Collectives::explain(std::vector<Wait>& why) const {
    for (std::uint32_t group = 0; group < open_.size(); ++group)
        for (const auto& [serial, at] : open_[group]) {
            const Instance& i = instances_[at];
            std::string absent;
            for (std::uint32_t p = 0; p < i.members.size() && absent.empty(); ++p)
                if (i.members[p].node == nothing) absent = " waits for rank " + std::to_string(membership_.rank(group, p));
            if (absent.empty()) absent = " has all its members, but not all its messages can move";
            for (const Member& m : i.members)
                if (m.node != nothing && m.chunks_left) say(why[m.rank], nodes_.place(m.rank, m.node), absent);
        }
}

// --- the state of a run

std::size_t Collectives::open_parts() const {
    std::size_t out = 0;
    for (const auto& open : open_)
        for (const auto& [serial, id] : open) out += instances_[id].chunks.size() + instances_[id].members.size();
    return out;
}

std::uint64_t Collectives::bytes() const {
    std::uint64_t out = 0;
    for (const Instance& i : instances_)
        out += i.chunks.size() * sizeof(ChunkState) + i.members.size() * sizeof(Member) + 8 * i.bit_base.size();
    return out;
}

void Collectives::write(StateWords& to) {
    number_.assign(instances_.size(), nothing);
    std::uint32_t open = 0;
    for (std::uint32_t group = 0; group < open_.size(); ++group) {
        to.count(next_serial_[group].size());
        for (const std::uint32_t serial : next_serial_[group]) to.word(static_cast<std::int64_t>(serial) - issued(group));
        to.count(open_[group].size());
        for (const auto& [serial, id] : open_[group]) {
            number_[id] = open++;
            const Instance& i = instances_[id];
            to.word(static_cast<std::int64_t>(serial) - issued(group)), to.word(i.collective), to.word(i.done);
            for (const Member& m : i.members) {
                to.word(m.node != nothing), to.word(m.chunks_left);
                if (m.node != nothing) to.node(m.rank, m.node);
                for (const std::uint32_t visits : m.entered) to.word(visits);
                for (const std::uint32_t visits : m.left) to.word(visits);
            }
            for (const ChunkState& s : i.chunks) {
                to.word(std::int64_t{s.phase} << 1 | s.inside);
                if (s.inside)
                    to.word(std::int64_t{s.next_send} << 32 | s.prefix), to.word(std::int64_t{s.complete} << 32 | s.undelivered),
                        to.until(s.over);
            }
            for (const std::uint64_t bits : i.delivered) to.word(static_cast<std::int64_t>(bits));
            for (const std::uint64_t bits : i.complete) to.word(static_cast<std::int64_t>(bits));
        }
    }
}

}  // namespace astrarium
