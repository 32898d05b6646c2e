#include "astra/astra_messages.hpp"

#include <string>

namespace astrarium {

namespace {

// A free place of a vector, which grows where there is none.
template <class T>
std::uint32_t take(std::vector<T>& all, std::vector<std::uint32_t>& free) {
    if (free.empty()) {
        free.push_back(static_cast<std::uint32_t>(all.size()));
        all.emplace_back();
    }
    const std::uint32_t id = free.back();
    free.pop_back();
    return id;
}

MessageKey request_for(const MessageKey& key) { return {key.tag ^ (std::int64_t{1} << 61), 8192, key.destination, key.source}; }

}  // namespace

AstraMail::AstraMail(const Plan& plan, Clock& clock, AstraNetwork& network, DoneListener& listener)
    : plan_(plan), clock_(clock), network_(network), listener_(listener) {}

void AstraMail::send(const MessageKey& key, Done sent) {
    if (!plan_.policy.rendezvous) return send_now(key, sent);
    check(key);
    pending_.push_back({key, sent});
    receive_now(request_for(key), {Done::request_in, static_cast<std::uint32_t>(pending_.size() - 1), 0});
}

void AstraMail::receive(const MessageKey& key, Done received) {
    if (!plan_.policy.rendezvous) return receive_now(key, received);
    pending_.push_back({key, received});  // posted when the request has left
    send_now(request_for(key), {Done::request_out, static_cast<std::uint32_t>(pending_.size() - 1), 0});
}

void AstraMail::check(const MessageKey& key) const {
    if (key.source == key.destination) throw BadTrace("sends to itself (tag " + std::to_string(key.tag) + ")", {key.source, {}, {}});
    if (key.destination >= plan_.ranks())
        throw BadTrace("sends to rank " + std::to_string(key.destination) + ", which does not exist", {key.source, {}, {}});
}

void AstraMail::send_now(const MessageKey& key, Done sent) {
    check(key);
    Lane& lane = lanes_[key];
    const std::uint32_t id = entry(lane, lane.sends++);
    entries_[id].sent = sent;
    network_.carry(static_cast<std::uint32_t>(plan_.npu_of[key.source]), static_cast<std::uint32_t>(plan_.npu_of[key.destination]),
                   key.size, {astra_event::message_arrives, id, 0});
}

void AstraMail::receive_now(const MessageKey& key, Done received) {
    Lane& lane = lanes_[key];
    const std::uint32_t id = entry(lane, lane.receives++);
    if (entries_[id].arrived) {
        free_entries_.push_back(id);
        const std::uint32_t number = take(due_, free_due_);
        due_[number] = received;
        return clock_.after(0, {astra_event::done_due, number, 0});
    }
    entries_[id].received = received;
    entries_[id].wanted = true;
}

// The entry of a lane's message number `number`, made by whichever side comes first and dropped when both have come.
std::uint32_t AstraMail::entry(Lane& lane, std::uint32_t number) {
    while (lane.first + lane.entries.size() <= number) {
        const std::uint32_t id = take(entries_, free_entries_);
        entries_[id] = Entry{};
        lane.entries.push_back(id);
    }
    const std::uint32_t id = lane.entries[number - lane.first];
    while (!lane.entries.empty() && lane.first < lane.sends && lane.first < lane.receives) {
        lane.entries.pop_front();
        ++lane.first;
    }
    return id;
}

void AstraMail::arrived(std::uint32_t id) {
    const Entry e = entries_[id];
    if (e.wanted) {
        free_entries_.push_back(id);
    } else {
        entries_[id].arrived = true;
    }
    tell(e.sent);
    if (e.wanted) tell(e.received);
}

void AstraMail::due(std::uint32_t number) {
    const Done done = due_[number];
    free_due_.push_back(number);
    tell(done);
}

void AstraMail::tell(Done done) {
    switch (done.what) {
        case Done::nothing: break;
        case Done::request_in: {
            const Pending p = pending_[done.a];
            send_now(p.key, p.done);
            break;
        }
        case Done::request_out: {
            const Pending p = pending_[done.a];
            receive_now(p.key, p.done);
            break;
        }
        default: listener_.ended(done);
    }
}

std::vector<std::uint32_t> AstraMail::unsent(std::uint32_t rank) const {
    std::vector<std::uint32_t> nodes;
    for (const auto& [key, lane] : lanes_)
        for (const std::uint32_t id : lane.entries) {
            const Entry& e = entries_[id];
            if (e.wanted && e.received.what == Done::node && e.received.a == rank) nodes.push_back(e.received.b);
        }
    return nodes;
}

}  // namespace astrarium
