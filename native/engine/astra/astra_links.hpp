// ASTRA-sim's congestion-aware network: the FIFO links of one dim, each carrying a whole message at a time.
#pragma once
#include <cstdint>
#include <vector>

#include "astra/astra_events.hpp"
#include "astra/astra_ties.hpp"
#include "astra/astra_traffic.hpp"
#include "clock/clock.hpp"
#include "media/distance.hpp"

namespace astrarium {

// Links: of a ring 2 per NPU (forward, backward), of a switch an up and a down link per NPU, fully connected one per pair.
class AstraLinks {
public:
    // `looped`: one NPU stands for all, and its messages arrive at itself.
    AstraLinks(const Network& network, bool looped, Clock& clock, Ties& ties, AstraTraffic* traffic)
        : dim_(network.dims[0]), looped_(looped), clock_(clock), ties_(ties), traffic_(traffic),
          links_(network.medium->on_links ? count(network) : 0) {}

    static std::size_t count(const Network& network) {
        const auto n = static_cast<std::size_t>(network.dims[0].npus);
        return network.dims[0].shape == Shape::fully_connected ? n * n : 2 * n + 2;
    }

    void carry(std::uint32_t from, std::uint32_t to, std::int64_t size, Event then) {
        std::uint32_t id = spare_;
        if (id == none) {
            id = static_cast<std::uint32_t>(messages_.size());
            messages_.emplace_back();
        } else {
            spare_ = messages_[id].next;
        }
        const int n = dim_.npus;
        const int ahead = static_cast<int>(to) - static_cast<int>(from), forward = ahead < 0 ? ahead + n : ahead;
        messages_[id] = {then, size, none, static_cast<std::int32_t>(from), static_cast<std::int32_t>(to), n - forward < forward ? -1 : 1,
                         true};
        hop(id);
    }

    // A message is at the end of a link: it goes on, or has arrived (true) and `then` happens now.
    bool arrived(std::uint32_t id, Event& then) {
        Message& message = messages_[id];
        if (message.at != message.destination) {
            hop(id);
            return false;
        }
        then = message.then;
        message.next = spare_;
        spare_ = id;
        return true;
    }

    void freed(std::uint32_t id) {
        Link& link = links_[id];
        link.busy = false;
        if (link.head == none) return;
        const std::uint32_t message = link.head;
        link.head = messages_[message].next;
        start(id, message);
    }

private:
    static constexpr std::uint32_t none = 0xffffffffu;
    struct Message {
        Event then;
        std::int64_t size;
        std::uint32_t next;
        std::int32_t at, destination, direction;
        bool first;  // on its first link
    };
    struct Link {
        std::uint32_t head = none, tail = none;
        bool busy = false;
        Tick last_first = -1, last_later = -1;  // when a message last asked, on its first link or a later one
    };

    void hop(std::uint32_t id) {
        const std::uint32_t number = next_link(messages_[id]);
        Link& link = links_[number];
        if (ties_.watched) note_tie(link, messages_[id]);
        messages_[id].next = none;
        if (!link.busy) return start(number, id);
        if (link.head == none) link.head = id;
        else messages_[link.tail].next = id;
        link.tail = id;
    }

    // Messages of several ranks (looped: images): who of them is first at an instant would be a choice.
    void note_tie(Link& link, Message& message) {
        ties_.found |= link.last_later == clock_.now || (!message.first && link.last_first == clock_.now);
        (message.first ? link.last_first : link.last_later) = clock_.now;
        message.first = false;
    }

    std::uint32_t next_link(Message& m) const {
        const int n = dim_.npus, at = m.at;
        switch (dim_.shape) {
            case Shape::ring:
                m.at = at + m.direction < 0 ? n - 1 : at + m.direction < n ? at + m.direction : 0;
                return static_cast<std::uint32_t>((looped_ ? 0 : at * 2) + (m.direction < 0));
            case Shape::switch_:
                m.at = at == n ? m.destination : n;
                return static_cast<std::uint32_t>(at == n ? n + (looped_ ? 0 : m.destination) : looped_ ? 0 : at);
            default: m.at = m.destination; return static_cast<std::uint32_t>(at * n + m.destination);
        }
    }

    void start(std::uint32_t number, std::uint32_t id) {
        links_[number].busy = true;
        const std::int64_t size = messages_[id].size;
        if (size != last_size_) {
            const double serial = static_cast<double>(size) / dim_.bandwidth;
            last_size_ = size, last_serial_ = ticks(serial, true), last_transfer_ = ticks(dim_.latency + serial, true);
        }
        if (traffic_) note_use(number, size);
        clock_.after(last_transfer_, {astra_event::next_hop, id, 0});
        clock_.after(last_serial_, {astra_event::link_free, number, 0});
    }

    void note_use(std::uint32_t number, std::int64_t size) {
        traffic_->add(number, size, last_serial_);
        if (dim_.shape != Shape::switch_ || number < static_cast<std::uint32_t>(dim_.npus)) traffic_->use(0, clock_.now, last_serial_);
    }

    const Dim& dim_;
    const bool looped_;
    Clock& clock_;
    Ties& ties_;
    AstraTraffic* const traffic_;  // null: not recorded
    std::vector<Link> links_;
    std::vector<Message> messages_;
    std::uint32_t spare_ = none;
    std::int64_t last_size_ = -1;
    Tick last_serial_ = 0, last_transfer_ = 0;
};

}  // namespace astrarium
