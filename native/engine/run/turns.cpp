#include "run/turns.hpp"

#include <algorithm>

#include "run/collectives.hpp"

namespace astrarium {

void Turns::queue(std::uint32_t instance, std::uint32_t state, std::uint32_t number, std::uint32_t end) {
    const Sender from = collectives_.sender_of(instance, state);
    std::vector<std::uint32_t> all, last;  // queues; the last of each link
    for (; number < end; ++number) {
        const Medium::Turn turn = messages_.medium()->reserve(collectives_.flight_of(from, from.first + number), clock_.now);
        const auto at = std::find_if(last.begin(), last.end(), [&](std::uint32_t q) { return queues_[q].turn.link == turn.link; });
        if (at != last.end()) {
            Queue& q = queues_[*at];
            if (turn.serial == q.turn.serial && turn.serial > 0 && turn.start == add(q.turn.start, times(q.left, turn.serial))) {
                ++q.left;
                continue;
            }
        }
        if (free_.empty()) free_.push_back(static_cast<std::uint32_t>(queues_.size())), queues_.emplace_back();
        const std::uint32_t id = free_.back();
        free_.pop_back();
        queues_[id] = {instance, state, number, 1, turn};
        all.push_back(id);
        (at == last.end() ? *last.insert(at, id) : *at) = id;
    }
    for (const std::uint32_t id : all) send_next(id);
}

// The one after it comes to be when this one is at the next device: before it could be there itself. Cut through, the head of the next
// one is there as the tail of one that ends there is: both come to be at once.
void Turns::send_next(std::uint32_t queue) {
    Queue& q = queues_[queue];
    const Sender from = collectives_.sender_of(q.instance, q.state);
    for (;;) {
        const MessageId id = collectives_.make_send(from, q.next, 1);
        messages_.leave_in_turn(id, q.turn);
        q.turn.start = add(q.turn.start, q.turn.serial);
        if (--q.left == 0) return free_.push_back(queue);
        do ++q.next;
        while (messages_.medium()->first_link(collectives_.flight_of(from, from.first + q.next)) != q.turn.link);
        if (Message& m = messages_[id]; !cut_through_ || m.flight.at != m.flight.destination) return void(m.queue = queue);
    }
}

void Turns::write(Recurrence& to, std::uint32_t queue) const {
    const Queue& q = queues_[queue];
    to.word(std::int64_t{q.next} << 32 | q.left), to.count(q.turn.link), to.time(q.turn.start), to.word(q.turn.serial);
}

}  // namespace astrarium
