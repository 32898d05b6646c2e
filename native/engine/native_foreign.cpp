// Native rule book over a foreign network: a co-simulation in which the engine owns the loop. Sends and receives are
// handed over in the classes `depart` and `issue`, in key order; the network's callbacks become events of class `done`.
#include "interrupt.hpp"
#include "native.hpp"

namespace astrarium {
namespace {

// Detaches the network however the run ends: a callback that comes later finds no run.
struct Attached {
    ForeignNetwork& network;
    Attached(ForeignNetwork& n, ForeignHost& host) : network(n) { network.attach(&host); }
    ~Attached() { network.attach(nullptr); }
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;
};

std::string ps(Tick t) { return std::to_string(t) + " ps"; }

}  // namespace

void Native::run_foreign() {
    const Attached attached(*plugins_.network, *this);
    const Tick start = plugins_.network->time();
    if (start != 0) throw PluginFault("its clock stands at " + ps(start) + " before the run; every run needs a new one");
    while (step_foreign()) {}
}

// The next instant of either clock; false when there is none, or no use in one.
bool Native::step_foreign() {
    ForeignNetwork& network = *plugins_.network;
    if (unfinished_ == 0 && open_messages_ == 0) return false;
    if (foreign_touched_) {
        foreign_next_ = network.next_event_time();
        foreign_touched_ = false;
        if (foreign_next_ < clock_.now)
            throw PluginFault("next_event_time() says " + ps(foreign_next_) + ", before now (" + ps(clock_.now) + "): time cannot go back");
    }
    const Tick time = clock_.empty() ? foreign_next_ : std::min(clock_.next(), foreign_next_);
    if (time == never || idle_ > network.patience()) return false;
    if (foreign_next_ == time) {
        clock_.now = time;
        if ((++idle_ & 0xffff) == 0) stop_if_interrupted();
        foreign_time_ = never;
        bring_to(time);
        foreign_next_ = network.next_event_time();
        foreign_touched_ = false;
        if (foreign_next_ <= time)
            throw PluginFault("next_event_time() says " + ps(foreign_next_) + " after advance(" + std::to_string(time) +
                              "), which should have run everything up to then");
    }
    if (!clock_.empty() && clock_.next() == time)
        clock_.instant([this](const Keyed& event) {
            idle_ = event.kind == timer_over ? idle_ + 1 : 0;
            handle(event);
        });
    return true;
}

void Native::bring_to(Tick time) {
    if (foreign_time_ == time) return;
    foreign_time_ = time;
    foreign_touched_ = true;
    plugins_.network->advance(time);
    if (const Tick theirs = plugins_.network->time(); theirs != time)
        throw PluginFault("sim_get_time() says " + ps(theirs) + " after advance(" + std::to_string(time) + ")");
}

void Native::hand_over(std::uint32_t id) {
    if (lives_.size() < messages_.size()) lives_.resize(messages_.size());
    bring_to(clock_.now);
    const Message& m = messages_[id];
    std::int64_t tag = m.tag;
    if (m.purpose == Message::chunk) tag = foreign_tag(instances_[m.instance], static_cast<std::uint32_t>(m.low >> 32), m.phase, m.receive);
    lives_[id].open = true;
    ++open_messages_;
    foreign_touched_ = true;
    const ForeignMessage out{static_cast<std::uint64_t>(lives_[id].generation) << 32 | id, m.flight.size, m.flight.source,
                             m.flight.destination, tag};
    if (m.receives)
        plugins_.network->receive(out);
    else
        plugins_.network->send(out);
}

void Native::over(std::uint64_t token) {
    const auto id = static_cast<std::uint32_t>(token);
    if (id >= lives_.size() || !lives_[id].open || lives_[id].generation != static_cast<std::uint32_t>(token >> 32))
        throw PluginFault("called a callback that it does not have, or called it twice");
    lives_[id] = {lives_[id].generation + 1, false};
    --open_messages_;
    idle_ = 0;
    const Message& m = messages_[id];
    clock_.at(clock_.now, BatchClock::done, {m.high, m.low, send_over, id, 0});
}

void Native::schedule(Tick delta, std::uint32_t timer) {
    if (delta < 0) throw PluginFault("schedules a callback " + ps(delta) + " from now: time cannot go back");
    clock_.at(add(clock_.now, delta), BatchClock::done, {~std::uint64_t{0}, timer, timer_over, timer, 0});
}

void Native::foreign_over(const Message& m) {
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
std::int64_t Native::foreign_tag(const Instance& i, std::uint32_t chunk, std::uint32_t phase, std::uint32_t number) const {
    const bool custom = plan_.collectives[i.collective].custom.has_value();
    const std::uint64_t step = static_cast<std::uint64_t>(chunk) * static_cast<std::uint64_t>(plan_.collectives[i.collective].max_phases) + phase;
    if (i.serial >= 1u << 22 || step >= 1u << 20 || (!custom && number >= 1u << 20))
        throw Unsupported("a foreign network and more than 4 million collectives, or a million steps or receives in one");
    return static_cast<std::int64_t>((std::uint64_t{1} + i.serial) << 40 | step << 20 | number);
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
        const std::uint32_t sender = membership_.rank(group, static_cast<std::uint32_t>(s.base + peer * phase.stride));
        m.flight = Flight(plan_.npu_of[sender], plan_.npu_of[member.rank], received_blocks(schedule)[first + r] * phase.block_size);
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

std::vector<std::string> Native::explain_foreign() const {
    std::vector<std::string> waits;
    if (!plugins_.network || unfinished_ == 0) return waits;
    const std::string who = "network plug-in " + plugins_.network->name();
    if (idle_ > plugins_.network->patience())
        waits.push_back(who + ": its clock moved " + std::to_string(idle_) + " times, to " + ps(clock_.now) + ", and it called nothing back");
    for (std::uint32_t id = 0; id < lives_.size(); ++id) {
        if (!lives_[id].open) continue;
        const Message& m = messages_[id];
        waits.push_back(who + ": the callback of sim_" + (m.receives ? "recv" : "send") + " never came (" +
                        std::to_string(m.flight.size) + " bytes from NPU " + std::to_string(m.flight.source) + " to " +
                        std::to_string(m.flight.destination) + (m.purpose == Message::chunk ? ", of a collective)" : ", tag " + std::to_string(m.tag) + ")"));
    }
    return waits;
}

std::uint32_t Native::pick(std::uint32_t rank, int lane, std::vector<std::uint32_t>& nodes) {
    std::sort(nodes.begin(), nodes.end());
    std::vector<std::uint64_t> ids;
    for (const std::uint32_t node : nodes) ids.push_back(plan_.program(rank).node_id[node]);
    const std::size_t chosen = plugins_.scheduler->pick(rank, lane, ids, clock_.now);
    if (chosen >= nodes.size()) throw PluginFault("picks number " + std::to_string(chosen) + " of " + std::to_string(nodes.size()) + " nodes");
    return nodes[chosen];
}

Outcome run_with(const Plan& plan, bool record, const Plugins& plugins) { return Native(plan, record, false, plugins).run(); }

}  // namespace astrarium
