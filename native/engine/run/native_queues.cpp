// Native rule book, sends that wait for their turn at a link: what they wait for is known as they are released, so a message exists only
// from its turn on. 8,192 NPUs that send to each other have 67 million messages to send, and 8,192 on their way.
#include <algorithm>

#include "run/native.hpp"

namespace astrarium {

// Sends `number` to `end` of a participant ask for their links.
void Native::queue_sends(std::uint32_t instance, std::uint32_t state, std::uint32_t number, std::uint32_t end) {
    const Sender from = sender_of(instance, state);
    std::vector<std::uint32_t> all, last;  // queues; the last of each link
    for (; number < end; ++number) {
        const Medium::Turn turn = medium_->reserve(flight_of(from, from.first + number), clock_.now);
        const auto at = std::find_if(last.begin(), last.end(), [&](std::uint32_t q) { return queues_[q].turn.link == turn.link; });
        if (at != last.end())
            if (Queue& q = queues_[*at]; turn.serial == q.turn.serial && turn.serial > 0 && turn.start == add(q.turn.start, times(q.left, turn.serial))) {
                ++q.left;
                continue;
            }
        if (queue_free_.empty()) queue_free_.push_back(static_cast<std::uint32_t>(queues_.size())), queues_.emplace_back();
        const std::uint32_t id = queue_free_.back();
        queue_free_.pop_back();
        queues_[id] = {instance, state, number, 1, turn};
        all.push_back(id);
        (at == last.end() ? *last.insert(at, id) : *at) = id;
    }
    for (const std::uint32_t id : all) send_next(id);
}

// The next message of a queue, which leaves in its turn. The one after it comes to be when this one is at the next device: before it
// could be there itself. Cut through, the head of the next one is there as the tail of one that ends there is: both come to be at once.
void Native::send_next(std::uint32_t queue) {
    Queue& q = queues_[queue];
    const Sender from = sender_of(q.instance, q.state);
    for (;;) {
        const std::uint32_t id = make_send(from, q.next, 1);
        if (const Tick there = medium_->leave(messages_[id].flight, q.turn); there != never) clock_.at(there, BatchClock::arrive, arrives(id));
        q.turn.start = add(q.turn.start, q.turn.serial);
        if (--q.left == 0) return queue_free_.push_back(queue);
        do ++q.next;
        while (medium_->first_link(flight_of(from, from.first + q.next)) != q.turn.link);
        if (Message& m = messages_[id]; !plan_.network.cut_through || m.flight.at != m.flight.destination) return void(m.queue = queue);
    }
}

}  // namespace astrarium
