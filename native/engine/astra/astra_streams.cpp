#include "astra/astra_streams.hpp"

#include <algorithm>
#include <iterator>

namespace astrarium {

Picker::Picker(const Plan& plan, std::size_t ranks)
    : queues_(static_cast<std::uint32_t>(plan.policy.queues_per_dim)), dims_(plan.network.dims.size()),
      turns_(ranks * dims_, {0, 0, queues_ / 2}), trees_(ranks * 16 * dims_, 0) {}

Route Picker::take(std::uint32_t rank, int op, const Phase& phase) {
    const auto dim = static_cast<std::uint32_t>(phase.dim < 0 ? 0 : phase.dim);
    Turns& turns = turns_[rank * dims_ + dim];
    std::uint32_t queue = 0, backwards = 0, tree = 0;
    if (phase.pick == Pick::any) {
        backwards = queues_ > 1 && turns.any >= queues_ / 2;
        queue = turns.any++;
        if (turns.any >= queues_) turns.any = 0;
    } else if (phase.pick == Pick::first_half) {
        queue = turns.first++;
        if (turns.first >= queues_ / 2) turns.first = 0;
    } else {
        backwards = 1;
        queue = turns.last++;
        if (turns.last >= queues_) turns.last = queues_ / 2;
    }
    if (phase.algorithm == Algorithm::double_binary_tree) tree = trees_[(rank * 16 + static_cast<std::size_t>(op)) * dims_ + dim]++ & 1u;
    return {static_cast<std::uint16_t>((dim * queues_ + queue) | backwards << 14 | tree << 15)};
}

void QueueTies::entered(std::size_t queue, std::uint32_t stream) {
    settle();
    if (last_.size() <= queue) last_.resize(queue + 1);
    if (last_[queue].instant == clock_.now) {
        auto it = std::find_if(tied_.begin(), tied_.end(), [&](const Tied& t) { return t.queue == queue && t.instant == clock_.now; });
        if (it == tied_.end()) it = tied_.insert(it, Tied{queue, clock_.now, {last_[queue].stream}});
        it->streams.push_back(stream);
    }
    last_[queue] = {clock_.now, stream};
}

// At the end of an instant: of streams that entered together either all have started, or none.
void QueueTies::settle() {
    if (settled_ == clock_.now) return;
    settled_ = clock_.now;
    std::erase_if(tied_, [&](const Tied& t) {
        const auto waits = [&](std::uint32_t id) {
            const Stream& s = streams_[id];
            return !s.started && static_cast<std::size_t>(s.rank) * queues_ + s.queue == t.queue;
        };
        const auto waiting = static_cast<std::size_t>(std::count_if(t.streams.begin(), t.streams.end(), waits));
        ties_.found |= waiting > 0 && waiting < t.streams.size();
        return waiting == 0;
    });
}

Queues::Queues(const Plan& plan, std::size_t ranks, Streams& streams, const Clock& clock, Ties& ties)
    : streams_(streams), ties_(ties),
      queues_(static_cast<std::uint32_t>(plan.network.dims.size()) * static_cast<std::uint32_t>(plan.policy.queues_per_dim)),
      limit_(static_cast<std::uint32_t>((plan.policy.active_chunks + plan.policy.queues_per_dim - 1) / plan.policy.queues_per_dim)),
      queue_ties_(streams, queues_, clock, ties), waiting_(ranks * queues_), running_(ranks * queues_, 0) {}

void Queues::enter(Stream& stream, bool together) {
    const std::size_t number = at(stream.rank, stream.queue);
    if (ties_.watched && !together) queue_ties_.entered(number, stream.id);
    auto& waiting = waiting_[number];
    stream.next = none;
    auto found = waiting.end();
    while (found != waiting.begin() && std::prev(found)->priority > stream.priority) --found;
    if (found == waiting.begin() || std::prev(found)->priority < stream.priority) {
        waiting.insert(found, {stream.priority, stream.id, stream.id});
        return;
    }
    streams_[std::prev(found)->last].next = stream.id;
    std::prev(found)->last = stream.id;
}

}  // namespace astrarium
