#include "run/turns.hpp"

#include <algorithm>

#include "run/collectives.hpp"

namespace astrarium {

std::uint32_t Turns::keep(const Queue& queue) {
    if (free_.empty()) free_.push_back(static_cast<std::uint32_t>(queues_.size())), queues_.emplace_back();
    const std::uint32_t id = free_.back();
    free_.pop_back();
    queues_[id] = queue;
    return id;
}

void Turns::step(Queue& q, const Sender& from) const {
    do ++q.next;
    while (messages_.medium()->first_link(collectives_.flight_of(from, from.first + q.next)) != q.turn.link);
}

// Of a medium that pulls: a queue per link, whose first message asks now.
void Turns::line_up(std::uint32_t instance, std::uint32_t state, std::uint32_t number, std::uint32_t end) {
    const Sender from = collectives_.sender_of(instance, state);
    std::vector<std::uint32_t> all;
    for (; number < end; ++number) {
        const std::size_t link = messages_.medium()->first_link(collectives_.flight_of(from, from.first + number));
        const auto at = std::find_if(all.begin(), all.end(), [&](std::uint32_t q) { return queues_[q].turn.link == link; });
        if (at != all.end()) ++queues_[*at].left;
        else all.push_back(keep({instance, state, number, 1, {link, 0, 0}}));
    }
    for (const std::uint32_t id : all)
        if (const MessageId message = pull_next(id); message != Carried::no_message) messages_.medium()->ask(message, clock_.now);
}

MessageId Turns::pull_next(std::uint32_t queue) {
    Queue& q = queues_[queue];
    const Sender from = collectives_.sender_of(q.instance, q.state);
    const MessageId id = collectives_.make_send(from, q.next);
    if (--q.left == 0) free_.push_back(queue);
    else step(q, from), messages_[id].queue = queue;
    return id;
}

void Turns::queue(std::uint32_t instance, std::uint32_t state, std::uint32_t number, std::uint32_t end) {
    if (pulls_) return line_up(instance, state, number, end);
    const Sender from = collectives_.sender_of(instance, state);
    if (end == number + 1) return messages_.step(collectives_.make_send(from, number));
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
        const std::uint32_t id = keep({instance, state, number, 1, turn});
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
        const MessageId id = collectives_.make_send(from, q.next);
        messages_.leave_in_turn(id, q.turn);
        q.turn.start = add(q.turn.start, q.turn.serial);
        if (--q.left == 0) return free_.push_back(queue);
        step(q, from);
        if (Message& m = messages_[id]; !cut_through_ || m.flight.at != m.flight.destination) return void(m.queue = queue);
    }
}

void Turns::write(StateWords& to, std::uint32_t queue) const {
    const Queue& q = queues_[queue];
    to.word(std::int64_t{q.next} << 32 | q.left), to.count(q.turn.link), to.time(q.turn.start), to.word(q.turn.serial);
}

}  // namespace astrarium
