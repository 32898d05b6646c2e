// Native rule book, media that want to be told of receives (plug-ins): these are messages of their own.
#include "clock/interrupt.hpp"
#include "run/native.hpp"

namespace astrarium {

// The run beside a medium with a clock of its own: the next instant of either; false when there is none, or no use in one.
bool Native::step_beside() {
    if (unfinished_ == 0 && !medium_->busy()) return false;
    const Tick theirs = medium_->next(clock_.now), time = clock_.empty() ? theirs : std::min(clock_.next(), theirs);
    if (time == never || idle_ > medium_->patience()) return false;
    if (theirs == time) {
        clock_.now = time;
        if ((++idle_ & 0xffff) == 0) stop_if_interrupted();
        medium_->run(time);
    }
    if (!clock_.empty() && clock_.next() == time)
        clock_.instant([this](const Keyed& event) {
            idle_ = event.kind == medium_due ? idle_ + 1 : 0;
            handle(event);
        });
    return true;
}

void Native::one_end_over(const Message& m) {
    if (m.purpose == Message::node) return complete_node(m.rank, m.node_index);
    if (m.purpose == Message::custom) return custom_complete(m.state, m.node_index);
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
std::int64_t Native::tag_of(const Instance& i, std::uint32_t chunk, std::uint32_t phase, std::uint32_t number) const {
    const bool custom = plan_.collectives[i.collective].custom.has_value();
    const std::uint64_t step = static_cast<std::uint64_t>(chunk) * static_cast<std::uint64_t>(plan_.collectives[i.collective].max_phases) + phase;
    if (i.serial >= 1u << 22 || step >= 1u << 20 || (!custom && number >= 1u << 20))
        throw Unsupported("a foreign network and more than 4 million collectives, or a million steps or receives in one");
    return static_cast<std::int64_t>((std::uint64_t{1} + i.serial) * first_tag_of_collectives | step << 20 | number);
}

void Native::post_receives(std::uint32_t instance, std::uint32_t state) {
    const ChunkState s = instances_[instance].chunks[state];
    const Phase& phase = s.now();
    const Schedule& schedule = *phase.schedule;
    const auto first = static_cast<std::size_t>(schedule.recv_ptr[static_cast<std::size_t>(schedule.program[static_cast<std::size_t>(s.index)])]);
    const std::uint32_t group = instances_[instance].group;
    const Member& member = instances_[instance].members[s.position];
    for (std::uint32_t r = 0; r < s.receives; ++r) {
        const std::uint32_t id = new_message();
        Message& m = messages_[id];
        const int peer = peer_of(schedule, s.index, schedule.recv_peer[first + r]);
        m.purpose = Message::chunk, m.receives = true;
        m.instance = instance, m.state = state, m.phase = static_cast<std::uint32_t>(s.phase), m.receive = r;
        m.high = static_cast<std::uint64_t>(member.rank) << 32 | member.node;
        m.low = static_cast<std::uint64_t>(s.chunk) << 32 | r;
        m.tag = tag_of(instances_[instance], s.chunk, m.phase, r);
        const std::uint32_t sender = membership_.rank(group, static_cast<std::uint32_t>(s.base + peer * phase.stride));
        m.flight = Flight(plan_.npu_of[sender], plan_.npu_of[member.rank], receive_delays_.blocks(schedule)[first + r] * phase.block_size);
        post(id);
    }
}

void Native::post_receive(std::uint32_t rank, std::uint32_t node, std::uint32_t peer, std::int64_t tag) {
    const std::uint32_t id = new_message();
    Message& m = messages_[id];
    m.receives = true;
    m.rank = rank, m.node_index = node, m.peer = peer, m.tag = tag;
    m.high = static_cast<std::uint64_t>(rank) << 32 | node;
    m.flight = Flight(plan_.npu_of[peer], plan_.npu_of[rank], plan_.program(rank).size[node]);
    post(id);
}

Outcome run_with(const Plan& plan, bool record, const Plugins& plugins) { return Native(plan, record, false, plugins).run(); }

}  // namespace astrarium
