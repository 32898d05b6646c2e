// Native rule book, collectives: chunks walk their phases; a phase follows a Schedule.
#include <bit>
#include <iterator>
#include <string>

#include "run/native.hpp"

namespace astrarium {
namespace {

bool bit(const std::vector<std::uint64_t>& words, std::size_t i) { return words[i >> 6] >> (i & 63) & 1; }
void set(std::vector<std::uint64_t>& words, std::size_t i) { words[i >> 6] |= std::uint64_t{1} << (i & 63); }

std::uint32_t count(const View<std::int32_t>& ptr, std::int32_t program) {
    return static_cast<std::uint32_t>(ptr[static_cast<std::size_t>(program) + 1] - ptr[static_cast<std::size_t>(program)]);
}

std::string op_name(int op) {
    static const char* const names[] = {"all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all", "reduce_scatter", "reduce_scatter_block", "barrier"};
    return op >= 0 && static_cast<std::size_t>(op) < std::size(names) ? names[op] : "operation " + std::to_string(op);
}

}  // namespace

std::uint32_t Native::open_instance(std::uint32_t group, std::uint32_t collective, std::uint32_t serial) {
    if (instance_free_.empty()) {
        instance_free_.push_back(static_cast<std::uint32_t>(instances_.size()));
        instances_.emplace_back();
    }
    if (quotient_) quotient_->check(plan_.collectives[collective], kind_of(group));
    const std::uint32_t id = instance_free_.back();
    instance_free_.pop_back();
    Instance& i = instances_[id];
    i = Instance{};
    i.collective = collective, i.group = group, i.serial = instances_opened_++;
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
    if (c.custom || c.lasts) return id;
    i.chunks.resize(static_cast<std::size_t>(members) * chunks);
    std::size_t bits = 0;
    for (std::uint32_t p = 0; p < members; ++p) {
        auto kind = c.chunks.begin();
        int alike = 0;  // chunks of this kind so far
        for (std::uint32_t k = 0; k < chunks; ++k) {
            ChunkState& s = i.chunks[static_cast<std::size_t>(p) * chunks + k];
            if (alike++ == kind->repeat) ++kind, alike = 1;
            s.instance = id, s.position = p, s.chunk = k, s.phases = &kind->phases;
            for (const Phase& phase : kind->phases) {
                i.bit_base.push_back(bits);
                bits += count(phase.schedule->recv_ptr, phase.schedule->program[static_cast<std::size_t>(index_in(phase, place_of(group, p)))]);
            }
            for (std::size_t rest = kind->phases.size(); rest < static_cast<std::size_t>(c.max_phases); ++rest) i.bit_base.push_back(bits);
        }
    }
    i.delivered.assign((bits + 63) / 64, 0);
    i.complete.assign((bits + 63) / 64, 0);
    return id;
}

void Native::issue_collective(std::uint32_t rank, std::uint32_t node, std::size_t slot) {
    const auto id = static_cast<std::uint32_t>(plan_.slot_a[slot]);
    const std::uint32_t group = plan_.slot_b[slot] < 0 ? membership_.all() : static_cast<std::uint32_t>(plan_.slot_b[slot]);
    const std::uint32_t position = membership_.position(group, rank);
    if (position == none)
        throw BadTrace("rank " + std::to_string(rank) + ", " + describe(rank, node) +
                          ": the rank is not a member of the collective's group");
    auto& next = next_serial_[group];
    if (next.empty()) next.resize(membership_.size(group));
    const std::uint32_t serial = next[position]++;
    if (folded_ && quotient_->size(kind_of(group)) > 1 && is_measured(group, serial)) return gather(rank, node, group, id, serial);
    std::uint32_t instance = none;
    for (const auto& [number, at] : open_[group])
        if (number == serial) instance = at;
    if (instance == none) instance = open_instance(group, id, serial);
    const Collective &mine = plan_.collectives[id], &theirs = plan_.collectives[instances_[instance].collective];
    if (mine.op != theirs.op || mine.size != theirs.size)
        throw BadTrace("rank " + std::to_string(rank) + ", " + describe(rank, node) + ": collective number " +
                       std::to_string(serial + skipped(kind_of(group)) + 1) + " of its group is " + op_name(mine.op) + " of " +
                       std::to_string(mine.size) + " bytes here, but another member issued " + op_name(theirs.op) + " of " +
                       std::to_string(theirs.size) + " bytes: the ranks issue this group's collectives in different orders; let each wait for the "
                       "one before it on every rank (dependencies of the trace), or try collective.scheduling: fifo");
    join(instance, position, node);
}

// A member takes part from now on.
void Native::join(std::uint32_t instance, std::uint32_t position, std::uint32_t node) {
    const Collective& theirs = plan_.collectives[instances_[instance].collective];
    Member& member = instances_[instance].members[position];
    const std::uint32_t rank = member.rank;
    member.node = node;
    if (theirs.custom) return start_custom(instance, position);
    if (theirs.lasts) return meet_lasting(instance);
    if (member.chunks_left == 0 || theirs.max_phases == 0) {
        member.chunks_left = 0;
        ++instances_[instance].done;
        clock_.at(clock_.now, BatchClock::done, {static_cast<std::uint64_t>(rank) << 32 | node, 0, node_over, rank, node});
        return close_if_done(instance);
    }
    begin(instance, position);
}

// A collective of given time: nobody sends, all end so long after the last has come.
void Native::meet_lasting(std::uint32_t instance) {
    Instance& i = instances_[instance];
    if (++i.done < i.members.size()) return;
    const Tick end = add(clock_.now, plan_.collectives[i.collective].lasts);
    for (const Member& m : i.members) clock_.at(end, BatchClock::done, {static_cast<std::uint64_t>(m.rank) << 32 | m.node, 0, node_over, m.rank, m.node});
    close_if_done(instance);
}

void Native::begin(std::uint32_t instance, std::uint32_t position) {
    const std::size_t lists = plan_.collectives[instances_[instance].collective].lists();
    for (std::uint32_t list = 0; list < lists; ++list) advance(instance, position, list);
}

// Lets the next visits of a list begin at this member, while the window has room.
void Native::advance(std::uint32_t instance, std::uint32_t position, std::uint32_t list) {
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

void Native::enter(std::uint32_t instance, std::uint32_t position, std::uint32_t chunk, std::uint32_t phase_number) {
    Instance& i = instances_[instance];
    const Collective& c = plan_.collectives[i.collective];
    const auto at = static_cast<std::uint32_t>(static_cast<std::size_t>(position) * static_cast<std::size_t>(c.total_chunks) + chunk);
    ChunkState& s = i.chunks[at];
    const Phase& phase = (*s.phases)[phase_number];
    const Schedule& schedule = *phase.schedule;
    s.phase = static_cast<std::int32_t>(phase_number);
    s.inside = true;
    const std::uint32_t place = place_of(i.group, position);
    s.index = index_in(phase, place);
    s.base = static_cast<int>(place) - s.index * phase.stride;
    const std::int32_t program = schedule.program[static_cast<std::size_t>(s.index)];
    s.sends = count(schedule.send_ptr, program), s.receives = count(schedule.recv_ptr, program);
    s.next_send = s.prefix = s.complete = 0, s.over = 0, s.known = nullptr;
    s.undelivered = s.sends;
    s.bits = i.bit_base[at * static_cast<std::size_t>(c.max_phases) + phase_number];
    const std::uint64_t high = static_cast<std::uint64_t>(i.members[position].rank) << 32 | i.members[position].node;
    const std::uint64_t low = static_cast<std::uint64_t>(chunk) << 32;
    bool starts = false;
    for (std::uint32_t k = 0; k < s.sends && !starts; ++k)
        starts = schedule.send_needs[static_cast<std::size_t>(schedule.send_ptr[static_cast<std::size_t>(program)]) + k] == 0;
    if (starts && plan_.policy.endpoint_delay == 0 && !clock_.strict)
        release_sends(instance, at);
    else if (starts)
        clock_.at(add(clock_.now, plan_.policy.endpoint_delay), BatchClock::done, {high, low, phase_started, at, instance});
    const bool told = plan_.network.medium->receives;
    if (told) post_receives(instance, at);
    for (std::uint32_t r = 0; r < s.receives && !told; ++r)
        if (bit(i.delivered, s.bits + r)) receives_over(instance, at, r, r, add(clock_.now, receive_delay(i, s, r)));
    if (s.sends == 0 && s.receives == 0) try_leave(instance, at);
}

Native::Sender Native::sender_of(std::uint32_t instance, std::uint32_t state) const {
    const Instance& i = instances_[instance];
    const ChunkState& s = i.chunks[state];
    const Phase& phase = s.now();
    const auto program = static_cast<std::size_t>(phase.schedule->program[static_cast<std::size_t>(s.index)]);
    const Member& member = i.members[s.position];
    return {instance, state, static_cast<std::uint32_t>(phase.schedule->send_ptr[program]), member.rank, member.node, &phase, phase.schedule, &s, s.known,
            static_cast<std::uint32_t>(plan_.collectives[i.collective].total_chunks)};
}

// The flight of a send where every rank runs.
Flight Native::flight_of(const Sender& from, std::uint32_t send) const {
    const std::uint32_t to = from.receiver(send);
    Flight out(plan_.npu_of[from.rank], plan_.npu_of[membership_.rank(instances_[from.instance].group, to)], from.size(send));
    if (alone_) out.from = geometry_.mirrored(out.source, out.destination), out.to = out.source;
    return out;
}

// The message of a send, or of a train of them.
std::uint32_t Native::make_send(const Sender& from, std::uint32_t number, std::uint32_t together) {
    const std::uint32_t last = number + together - 1, send = from.first + last, id = new_message();
    const ChunkState& s = *from.chunk;
    Message& m = messages_[id];
    m.purpose = Message::chunk;
    m.instance = from.instance, m.source_state = from.state, m.state = (alone_ || quotient_ ? 0 : from.receiver(send) * from.chunks) + s.chunk;
    m.phase = static_cast<std::uint32_t>(s.phase), m.receive = static_cast<std::uint32_t>(from.schedule->send_match[send]);
    m.high = static_cast<std::uint64_t>(from.rank) << 32 | from.node;
    m.low = static_cast<std::uint64_t>(s.chunk) << 32 | number, m.together = together;
    if (plan_.network.medium->receives) m.tag = tag_of(instances_[from.instance], s.chunk, m.phase, m.receive);
    if (from.known) {
        aim(id, from.known->aims[last], from.chunks);
        m.flight.size = from.size(send);
    } else {
        m.source = from.rank, m.flight = flight_of(from, send);
    }
    return id;
}

// Sends whose first `needs` receives are complete depart now, in program order.
void Native::release_sends(std::uint32_t instance, std::uint32_t state) {
    ChunkState& s = instances_[instance].chunks[state];
    if (s.next_send == s.sends) return;
    if (quotient_ && !s.known) s.known = &class_sends(instances_[instance], s, s.now());
    const Sender from = sender_of(instance, state);
    const std::vector<std::uint32_t>* const order = send_order_.of(*from.schedule);
    const auto released = [&](std::uint32_t number) { return static_cast<std::uint32_t>(from.schedule->send_needs[from.first + number]) <= s.prefix; };
    if (plan_.network.medium->queues && !order && !clock_.strict) {
        const std::uint32_t begin = s.next_send;
        while (s.next_send < s.sends && released(s.next_send)) ++s.next_send;
        if (s.next_send > begin) clock_.at(clock_.now, BatchClock::depart, {std::uint64_t{from.rank} << 32 | from.node, std::uint64_t{s.chunk} << 32 | begin, leave_in_turn, state, std::uint64_t{instance} << 32 | s.next_send});
        return;
    }
    const bool one_event = ports_ && !clock_.strict;
    std::uint32_t before = none;
    while (s.next_send < s.sends) {
        const std::uint32_t number = order ? (*order)[from.first + s.next_send] - from.first : s.next_send;
        if (!released(number)) break;
        const std::uint32_t together = from.known ? from.known->together[number] : 1, id = make_send(from, number, together);
        if (one_event && before != none)
            messages_[before].next = id;
        else
            post(id);
        before = id;
        s.next_send += together;
    }
}

// Whether the receiver's chunk is in the phase already: it stays there until it has the message.
bool Native::wanted(const Message& m) const {
    const ChunkState& s = instances_[m.instance].chunks[m.state];
    return s.inside && s.phase == static_cast<std::int32_t>(m.phase);
}

// A message will be delivered. Where the receiver's chunk waits for it, the sender needs no event; nor does the receiver where no send
// of its waits for a receive: then both are over with the last message.
void Native::deliver(std::uint32_t id, Tick when) {
    const Message& m = messages_[id];
    if (m.purpose != Message::chunk || clock_.strict || !wanted(m)) return clock_.at(when, BatchClock::done, {m.high, m.low, send_over, id, 0});
    Instance& i = instances_[m.instance];
    ChunkState &sender = i.chunks[m.source_state], &receiver = i.chunks[m.state];
    const std::uint32_t instance = m.instance, from = m.source_state, to = m.state;
    const Tick complete = add(when, receive_delay(i, receiver, m.receive));
    sender.undelivered -= m.together, sender.over = std::max(sender.over, when);
    if (receiver.next_send == receiver.sends)
        receiver.complete += m.together, receiver.over = std::max(receiver.over, complete);
    else
        receives_over(instance, to, m.receive + 1 - m.together, m.receive, complete);
    message_free_.push_back(id);
    try_leave(instance, from);
    if (to != from) try_leave(instance, to);
}

void Native::delivered(Message& m) {
    if (plan_.network.medium->receives) return one_end_over(m);
    if (m.purpose == Message::chunk) {
        Instance& i = instances_[m.instance];
        const Collective& c = plan_.collectives[i.collective];
        const std::size_t base = i.bit_base[m.state * static_cast<std::size_t>(c.max_phases) + m.phase];
        const std::uint32_t first = m.receive + 1 - m.together;
        for (std::uint32_t r = first; r <= m.receive; ++r) set(i.delivered, base + r);
        if (wanted(m)) receives_over(m.instance, m.state, first, m.receive, add(clock_.now, receive_delay(i, i.chunks[m.state], m.receive)));
        i.chunks[m.source_state].undelivered -= m.together;
        return try_leave(m.instance, m.source_state);
    }
    const MessageKey key{m.tag, m.flight.size, m.rank, m.peer};
    Meeting& meeting = meetings_[key];
    std::uint64_t other = 0;
    const bool wanted = meeting.waited_for();
    if (wanted) {
        other = meeting.posted[meeting.met++];
        if (!meeting.waited_for()) meetings_.erase(key);
    } else {
        ++meeting.delivered;
    }
    const bool custom = m.purpose == Message::custom;
    if (custom)
        custom_complete(m.state, m.node_index);
    else
        complete_node(m.rank, m.node_index);
    if (!wanted) return;
    if (custom)
        custom_complete(static_cast<std::uint32_t>(other >> 32), static_cast<std::uint32_t>(other));
    else
        complete_node(m.peer, static_cast<std::uint32_t>(other));
}

// Receives of a chunk's phase will be complete.
void Native::receives_over(std::uint32_t instance, std::uint32_t state, std::uint32_t first, std::uint32_t last, Tick when) {
    const Instance& i = instances_[instance];
    const ChunkState& s = i.chunks[state];
    const Member& member = i.members[s.position];
    clock_.at(when, BatchClock::done,
              {static_cast<std::uint64_t>(member.rank) << 32 | member.node, static_cast<std::uint64_t>(s.chunk) << 32 | first, receive_over, state,
               static_cast<std::uint64_t>(instance) << 32 | last});
}

void Native::receive_complete(std::uint32_t instance, std::uint32_t state, std::uint32_t first, std::uint32_t last) {
    Instance& i = instances_[instance];
    ChunkState& s = i.chunks[state];
    for (std::uint32_t r = first; r <= last; ++r) set(i.complete, s.bits + r);
    s.complete += last + 1 - first;
    while (s.prefix < s.receives && bit(i.complete, s.bits + s.prefix)) ++s.prefix;
    release_sends(instance, state);
    try_leave(instance, state);
}

void Native::try_leave(std::uint32_t instance, std::uint32_t state) {
    Instance& i = instances_[instance];
    ChunkState& s = i.chunks[state];
    if (!s.inside || s.complete != s.receives || s.next_send != s.sends || s.undelivered != 0) return;
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
    if (--m.chunks_left == 0) {
        ++i.done;
        const std::uint32_t rank = m.rank, node = m.node;
        if (alone_)
            alone_done_ = clock_.now, late_[0] = last_arrival_ == clock_.now;
        else
            complete_node(rank, node);
        return close_if_done(instance);
    }
    advance(instance, position, list);
}

void Native::close_if_done(std::uint32_t instance) {
    Instance& i = instances_[instance];
    if (i.done != i.members.size()) return;
    auto& open = open_[i.group];
    open.erase(std::find_if(open.begin(), open.end(), [instance](const auto& o) { return o.second == instance; }));
    i = Instance{};
    instance_free_.push_back(instance);
}

}  // namespace astrarium
