#include "astra/astra_collectives.hpp"

namespace astrarium {

AstraCollectives::AstraCollectives(const CollectiveBase& b, DoneListener& listener)
    : plan_(b.plan), clock_(b.clock), events_(b.events), listener_(listener), meetings_(b.plan, b.alone, streams_),
      picker_(b.plan, b.ranks), queues_(b.plan, b.ranks, streams_, b.clock, b.ties),
      door_(b.plan, b.ranks, b.clock, b.events, [this](std::uint32_t stream, bool reduces) { crossed(stream, reduces); }),
      chunks_(b.plan, b.clock, b.network, b.mail, meetings_, b.ties),
      ring_(b.clock, door_, chunks_, queues_, b.ties, b.alone && !b.record && !b.plan.network.medium->meets), halving_(door_, chunks_),
      tree_(door_, chunks_), custom_(b.events, b.mail, meetings_), priority_(b.ranks, 0) {}

void AstraCollectives::issue(std::uint32_t rank, std::uint32_t node) {
    const auto at = static_cast<std::size_t>(plan_.slot_ptr[rank]) + static_cast<std::size_t>(plan_.program(rank).slot[node]);
    const Collective& c = plan_.collectives[static_cast<std::size_t>(plan_.slot_a[at])];
    const auto [group, position] = meetings_.place(plan_.slot_b[at], rank, node);
    const int priority = next_priority(rank, plan_.slot_c[at]);
    const std::uint32_t meeting = meetings_.join(group, position, c, rank, node);
    if (!c.custom && (c.total_chunks == 0 || c.max_phases == 0)) {  // nothing to move
        meetings_[meeting].left[position] = 0;
        meetings_.member_ended(meeting);
        return events_.after(rank, 0, {npu_event::node_done, rank, node});
    }
    start_chunks(meeting, position, rank, priority);
}

void AstraCollectives::issue_alone() { start_chunks(meetings_.join(meetings_.everybody(), 0, plan_.collectives[0], 0, 0), 0, 0, 0); }

int AstraCollectives::next_priority(std::uint32_t rank, int given) {
    const int lifo = plan_.policy.lifo;
    if (lifo == 0) return given;
    const int own = priority_[rank];
    priority_[rank] += lifo > 0 ? 1 : -1;
    return own;
}

// Queue, direction and tree of every phase are chosen now: turns are the rank's own.
void AstraCollectives::start_chunks(std::uint32_t meeting, std::uint32_t position, std::uint32_t rank, int priority) {
    const Collective& c = *meetings_[meeting].collective;
    issuing_ = true;
    for (std::uint32_t chunk = 0; chunk < static_cast<std::uint32_t>(c.total_chunks); ++chunk) {
        const Meeting& m = meetings_[meeting];
        Stream& s = streams_[m.streams + static_cast<std::uint32_t>(m.chunk_of(position, chunk))];
        s.phase_number = -1, s.priority = priority, s.queue = none, s.begun = clock_.now;
        if (!c.custom) {
            const auto& phases = meetings_.phases_of(s);
            for (std::size_t p = 0; p < phases.size(); ++p)
                meetings_.route(meeting, position, chunk, p) = picker_.take(rank, c.op, phases[p]);
        }
        proceed(s.id);
    }
    issuing_ = false;
}

// A chunk enters its next phase, or ends. The order of the steps is ASTRA-sim's: the node of a finished collective
// completes, and may issue more, before the chunk leaves its queue.
void AstraCollectives::proceed(std::uint32_t id) {
    const std::uint32_t rank = streams_[id].rank, previous = streams_[id].queue, meeting = streams_[id].meeting;
    const std::uint32_t position = streams_[id].position;
    const auto phases = meetings_[meeting].collective->custom ? 1 : static_cast<std::int32_t>(meetings_.phases_of(streams_[id]).size());
    const bool last = streams_[id].phase_number + 1 >= phases;
    if (last) chunk_ended(id);
    else enter_next_phase(streams_[id]);
    if (previous != none) {
        queues_.leave(rank, previous);
        fill(rank, previous);
    }
    if (!last) return fill(rank, streams_[id].queue);
    if (meetings_[meeting].left[position] == 0) meetings_.member_ended(meeting);
}

void AstraCollectives::chunk_ended(std::uint32_t id) {
    const Stream& s = streams_[id];
    Meeting& m = meetings_[s.meeting];
    if (--m.left[s.position] == 0) listener_.ended({Done::node, s.rank, m.node[s.position]});
}

void AstraCollectives::enter_next_phase(Stream& s) {
    ++s.phase_number;
    s.started = false;
    if (meetings_.of(s).collective->custom) {
        s.queue = 0;
    } else {
        const Route route = meetings_.route(s.meeting, s.position, s.chunk, static_cast<std::size_t>(s.phase_number));
        s.queue = route.queue(), s.direction = route.direction(), s.root_first = route.root_first();
        enter_machine(s);
    }
    queues_.enter(s, issuing_);
}

void AstraCollectives::enter_machine(Stream& s) {
    const Phase& phase = meetings_.phases_of(s)[static_cast<std::size_t>(s.phase_number)];
    s.phase = &phase;
    s.local = phase.local;
    s.n = phase.n;
    const auto position = static_cast<std::int32_t>(s.position);
    s.index = position / phase.stride % phase.n;
    s.base = position - s.index * phase.stride;
    s.tokens = Tokens{};
    s.delay = s.last_wait = s.last_received = -1;
    switch (phase.algorithm) {
        case Algorithm::ring:
        case Algorithm::direct: return ring_.enter(s);
        case Algorithm::halving_doubling: return halving_.enter(s);
        case Algorithm::double_binary_tree: return tree_.enter(s);
        default: throw Unsupported("a schedule phase under ASTRA-sim's rule book");
    }
}

void AstraCollectives::start_machine(Stream& s) {
    if (meetings_.of(s).collective->custom) return custom_.start(s);
    switch (s.phase->algorithm) {
        case Algorithm::halving_doubling: return halving_.start(s);
        case Algorithm::double_binary_tree: return tree_.start(s);
        default: return ring_.start(s);
    }
}

}  // namespace astrarium
