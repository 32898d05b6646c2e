// Collectives as messages: what a member sends and receives in a phase.
#include <algorithm>

#include "run/collectives.hpp"

namespace astrarium {

Sender Collectives::sender_of(std::uint32_t instance, std::uint32_t state) const {
    const Instance& i = instances_[instance];
    const ChunkState& s = i.chunks[state];
    const Phase& phase = s.now();
    const std::uint64_t key = key_of(i, s);
    const auto chunks = static_cast<std::uint32_t>(plan_.collectives[i.collective].total_chunks);
    const auto program = static_cast<std::uint32_t>(phase.schedule->send_ptr[s.program()]);
    const auto rank = static_cast<std::uint32_t>(key >> 32), node = static_cast<std::uint32_t>(key);
    return {instance, state, program, rank, node, &phase, phase.schedule, &s, s.known, chunks};
}

// A switch counts as a rank behind all others; its node is the number of the collective among all of the run.
std::uint64_t Collectives::key_of(const Instance& i, const ChunkState& s) const {
    if (s.node < 0) return i.members[s.position].key();
    return (plan_.ranks() + static_cast<std::uint64_t>(s.node)) << 32 | i.serial;
}

std::int32_t Collectives::end_of(const Sender& from, std::uint32_t send) const {
    const Instance& i = instances_[from.instance];
    if (from.to_switch(send))
        return i.chunks[i.switch_state(plan_.collectives[i.collective], *from.chunk, from.schedule->send_peer[send])].node;
    return plan_.npu_of[membership_.rank(i.group, from.receiver(send))];
}

// The flight of a send where every rank runs.
Flight Collectives::flight_of(const Sender& from, std::uint32_t send) const {
    Flight out(from.chunk->node < 0 ? plan_.npu_of[from.rank] : from.chunk->node, end_of(from, send), from.size(send));
    if (alone_) out.from = geometry_.mirrored(out.source, out.destination), out.to = out.source;
    return out;
}

MessageId Collectives::make_send(const Sender& from, std::uint32_t number, std::uint32_t together) {
    const std::uint32_t last = number + together - 1, send = from.first + last;
    const MessageId id = messages_.make();
    const ChunkState& s = *from.chunk;
    Message& m = messages_[id];
    m.purpose = Message::chunk;
    const Instance& i = instances_[from.instance];
    m.instance = from.instance, m.source_state = from.state, m.to_switch = from.to_switch(send);
    m.state = m.to_switch ? i.switch_state(plan_.collectives[i.collective], s, from.schedule->send_peer[send])
                          : (alone_ || equals_ ? 0 : from.receiver(send) * from.chunks) + s.chunk;
    m.collective = i.collective;
    m.phase = static_cast<std::uint32_t>(s.phase), m.receive = static_cast<std::uint32_t>(from.schedule->send_match[send]);
    m.high = static_cast<std::uint64_t>(from.rank) << 32 | from.node;
    m.low = static_cast<std::uint64_t>(s.chunk) << 32 | number, m.together = together;
    if (plan_.network.medium->receives) m.tag = tag_of(instances_[from.instance], s.chunk, m.phase, m.receive);
    if (from.known) {
        const Aim& aim = from.known->aims[last];
        m.state += aim.position * from.chunks, m.receive = aim.receive;
        m.source = aim.source, m.flight = aim.flight;
        m.flight.size = from.size(send);
    } else {
        m.source = from.rank, m.flight = flight_of(from, send);
    }
    return id;
}

// Sends whose first `needs` receives are complete depart now, in program order.
void Collectives::release_sends(std::uint32_t instance, std::uint32_t state) {
    ChunkState& s = instances_[instance].chunks[state];
    if (s.next_send == s.sends) return;
    if (equals_ && !s.known) s.known = &equals_->sends(instances_[instance].group, s);
    const Sender from = sender_of(instance, state);
    const std::vector<std::uint32_t>* const order = send_order_.of(*from.schedule);
    if (in_turn() && !order && !clock_.strict) return release_in_turn(from, s);
    const bool one_event = messages_.ports() && !clock_.strict;
    MessageId before = nothing;
    while (s.next_send < s.sends) {
        const std::uint32_t number = order ? (*order)[from.first + s.next_send] - from.first : s.next_send;
        if (static_cast<std::uint32_t>(from.schedule->send_needs[from.first + number]) > s.prefix) break;
        const std::uint32_t together = from.known ? from.known->together[number] : 1;
        const MessageId id = make_send(from, number, together);
        if (one_event && before != nothing) messages_[before].next = id;
        else messages_.post(id);
        before = id;
        s.next_send += together;
    }
}

void Collectives::release_in_turn(const Sender& from, ChunkState& s) {
    const std::uint32_t begin = s.next_send;
    while (s.next_send < s.sends && static_cast<std::uint32_t>(from.schedule->send_needs[from.first + s.next_send]) <= s.prefix)
        ++s.next_send;
    if (s.next_send == begin) return;
    clock_.at(clock_.now, BatchClock::depart,
              {std::uint64_t{from.rank} << 32 | from.node, std::uint64_t{s.chunk} << 32 | begin, leave_in_turn, from.state,
               std::uint64_t{from.instance} << 32 | s.next_send});
}

// The receiver's chunk waits for the message: the sender needs no event; nor does the receiver where no send of its waits for a receive:
// then both are over with the last message. What is complete in this instant needs none either.
void Collectives::deliver(MessageId id, Tick when) {
    const Message& m = messages_[id];
    Instance& i = instances_[m.instance];
    ChunkState &sender = i.chunks[m.source_state], &receiver = i.chunks[m.state];
    const std::uint32_t instance = m.instance, from = m.source_state, to = m.state, last = m.receive, first = last + 1 - m.together;
    const Tick complete = add(when, receive_delay(i, receiver, last));
    const bool waits = receiver.next_send < receiver.sends, now = complete == clock_.now;
    sender.undelivered -= m.together, sender.over = std::max(sender.over, when);
    if (!waits) receiver.complete += m.together, receiver.over = std::max(receiver.over, complete);
    else if (!now) receive_at(instance, to, first, last, complete);
    messages_.free(id);
    try_leave(instance, from);
    if (waits && now) complete_receives(instance, to, first, last);
    else if (to != from) try_leave(instance, to);
}

void Collectives::take(const Message& m) {
    if (m.to_switch) return add_up(m);
    Instance& i = instances_[m.instance];
    const Collective& c = plan_.collectives[i.collective];
    const std::size_t base = i.bit_base[m.state * static_cast<std::size_t>(c.max_phases) + m.phase];
    const std::uint32_t first = m.receive + 1 - m.together;
    for (std::uint32_t r = first; r <= m.receive; ++r) set(i.delivered, base + r);
    if (wanted(m)) receive_at(m.instance, m.state, first, m.receive, add(clock_.now, receive_delay(i, i.chunks[m.state], m.receive)));
    i.chunks[m.source_state].undelivered -= m.together;
    try_leave(m.instance, m.source_state);
}

// What is added takes the switch's adder in its turn.
void Collectives::add_up(const Message& m) {
    Instance& i = instances_[m.instance];
    const ChunkState& s = i.chunks[m.state];
    const Schedule& schedule = *s.now().schedule;
    const InSwitch& able = s.now().in_switch;
    Tick when = clock_.now;
    if (schedule.recv_reduce[static_cast<std::size_t>(schedule.recv_ptr[s.program()]) + m.receive]) {
        Tick& free = adder_free_[s.node];
        free = add(std::max(when, free), ticks(static_cast<double>(m.flight.size) / able.rate, false));
        when = add(free, able.latency);
        // What comes later must not find the adder at work: it counts as use of the port by which this came.
        if (Ports* ports = messages_.ports()) ports->keep_out(m.flight.source, static_cast<std::size_t>(s.now().dim), clock_.now, free);
    }
    receive_at(m.instance, m.state, m.receive, m.receive, when);
    --i.chunks[m.source_state].undelivered;
    try_leave(m.instance, m.source_state);
}

// Receives of a chunk's phase will be complete.
void Collectives::receive_at(std::uint32_t instance, std::uint32_t state, std::uint32_t first, std::uint32_t last, Tick when) {
    const Instance& i = instances_[instance];
    const ChunkState& s = i.chunks[state];
    clock_.at(when, BatchClock::done,
              {key_of(i, s), static_cast<std::uint64_t>(s.chunk) << 32 | first, receive_over, state,
               static_cast<std::uint64_t>(instance) << 32 | last});
}

void Collectives::complete_receives(std::uint32_t instance, std::uint32_t state, std::uint32_t first, std::uint32_t last) {
    Instance& i = instances_[instance];
    ChunkState& s = i.chunks[state];
    for (std::uint32_t r = first; r <= last; ++r) set(i.complete, s.bits + r);
    s.complete += last + 1 - first;
    while (s.prefix < s.receives && bit(i.complete, s.bits + s.prefix)) ++s.prefix;
    release_sends(instance, state);
    try_leave(instance, state);
}

// --- media that are told of receives

void Collectives::end_one(const Message& m) {
    if (!m.receives) {
        --instances_[m.instance].chunks[m.source_state].undelivered;
        return try_leave(m.instance, m.source_state);
    }
    const Instance& i = instances_[m.instance];
    const Tick when = add(clock_.now, receive_delay(i, i.chunks[m.state], m.receive));
    clock_.at(when, BatchClock::done,
              {m.high, m.low >> 32 << 32 | m.receive, receive_over, m.state, static_cast<std::uint64_t>(m.instance) << 32 | m.receive});
}

// Natively tags have 32 bits; those of collectives lie above: (1 + meeting) << 40 | step << 20 | number of the receive.
std::int64_t Collectives::tag_of(const Instance& i, std::uint32_t chunk, std::uint32_t phase, std::uint32_t number) const {
    const bool custom = plan_.collectives[i.collective].custom.has_value();
    const std::uint64_t step =
        static_cast<std::uint64_t>(chunk) * static_cast<std::uint64_t>(plan_.collectives[i.collective].max_phases) + phase;
    if (i.serial >= 1u << 22 || step >= 1u << 20 || (!custom && number >= 1u << 20))
        throw Unsupported("a foreign network and more than 4 million collectives, or a million steps or receives in one");
    return static_cast<std::int64_t>((std::uint64_t{1} + i.serial) * Carried::first_tag_of_collectives | step << 20 | number);
}

void Collectives::post_receives(std::uint32_t instance, std::uint32_t state) {
    const ChunkState s = instances_[instance].chunks[state];
    const Phase& phase = s.now();
    const Schedule& schedule = *phase.schedule;
    const auto first = static_cast<std::size_t>(schedule.recv_ptr[s.program()]);
    const std::uint32_t group = instances_[instance].group;
    const Member& member = instances_[instance].members[s.position];
    for (std::uint32_t r = 0; r < s.receives; ++r) {
        const MessageId id = messages_.make();
        Message& m = messages_[id];
        const int peer = peer_of(schedule, s.index, schedule.recv_peer[first + r]);
        m.purpose = Message::chunk, m.receives = true;
        m.instance = instance, m.state = state, m.phase = static_cast<std::uint32_t>(s.phase), m.receive = r;
        m.high = member.key();
        m.low = static_cast<std::uint64_t>(s.chunk) << 32 | r;
        m.tag = tag_of(instances_[instance], s.chunk, m.phase, r);
        const std::uint32_t sender = membership_.rank(group, static_cast<std::uint32_t>(s.base + peer * phase.stride));
        m.flight = Flight(plan_.npu_of[sender], plan_.npu_of[member.rank], receive_delays_.blocks(schedule)[first + r] * phase.block_size);
        messages_.post(id);
    }
}

}  // namespace astrarium
