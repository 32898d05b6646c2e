// What happens at a node of the RoCE transport: events, their order, and those that a node is still to see in a window.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "media/packets/wires.hpp"

namespace astrarium::packets {

// In the order in which they happen in one instant.
enum class Kind : std::uint8_t { left, pause, arrive, notice, put_off, asked, timer };
enum class Class : std::uint8_t { data, ack, cnp };

struct Event {
    Tick time = 0, tail = 0;  // tail: when the last byte of a packet is there
    Kind kind = Kind::left;
    Class cls = Class::data;
    bool marked = false;         // of pause: on
    std::uint32_t number = 0;    // left, timer: of the port; pause: of the link; arrive: of the link that it came by; else of the flow
    std::uint32_t cargo = none;  // of data; of control packets: the flow
    std::int32_t destination = 0;
    std::uint32_t bytes = 0;
    std::uint32_t serial = 0;  // of the packets of its flow; of left: by which link the packet came
    std::uint32_t out = none;  // arrive: the link that it goes on by
};

// Where an event stands in the order of its node.
struct Moment {
    Tick time;
    std::uint64_t what;  // kind, number
    std::uint32_t at;    // in the inbox
    explicit Moment(const Event& event, std::size_t place = 0)
        : time(event.time), what(std::uint64_t{static_cast<std::uint8_t>(event.kind)} << 32 | event.number),
          at(static_cast<std::uint32_t>(place)) {}
    bool before(const Moment& o) const { return time != o.time ? time < o.time : what < o.what; }
    bool operator<(const Moment& o) const { return before(o) || (!o.before(*this) && at < o.at); }
};

// What a node does in a window makes more to happen in it: kept in order. Most is later than all that is there.
class Agenda {
public:
    bool empty() const { return next_ == all_.size(); }
    const Event& front() const { return all_[next_]; }
    Event take() {
        const Event event = all_[next_++];
        if (empty()) all_.clear(), next_ = 0;
        return event;
    }
    void put(const Event& event) {
        const Moment moment(event);
        std::size_t at = all_.size();
        all_.push_back(event);
        for (; at > next_ && moment.before(Moment(all_[at - 1])); --at) all_[at] = all_[at - 1];
        all_[at] = event;
    }

private:
    std::vector<Event> all_;
    std::size_t next_ = 0;
};

// The events of an inbox before `until`, in order. Links deliver in order, so that what came is made of sorted runs.
class Due {
public:
    void collect(const std::vector<Event>& inbox, Tick begin, Tick until) {
        all_.clear(), next_ = 0;
        for (std::size_t k = 0; k < inbox.size(); ++k)
            if (inbox[k].time < until) all_.emplace_back(inbox[k], k);
        if (all_.size() <= few) std::sort(all_.begin(), all_.end());
        else if (!std::is_sorted(all_.begin(), all_.end())) spread(begin, until);
    }
    bool empty() const { return next_ == all_.size(); }
    const Moment& front() const { return all_[next_]; }
    std::size_t take() { return all_[next_++].at; }

private:
    static constexpr std::size_t few = 24;

    // By spans of the window, about an event in each; then in each span.
    void spread(Tick begin, Tick until) {
        int shift = 0;
        while (((until - begin) >> shift) >= static_cast<Tick>(2 * all_.size())) ++shift;
        const auto span = [&](const Moment& m) { return static_cast<std::size_t>(std::max<Tick>(m.time - begin, 0) >> shift); };
        ends_.assign(static_cast<std::size_t>((until - begin) >> shift) + 2, 0);
        for (const Moment& m : all_) ++ends_[span(m) + 1];
        for (std::size_t k = 1; k < ends_.size(); ++k) ends_[k] += ends_[k - 1];
        sorted_.assign(all_.size(), all_.front());
        for (const Moment& m : all_) sorted_[ends_[span(m)]++] = m;
        for (std::size_t k = 0, from = 0; k + 1 < ends_.size(); from = ends_[k++])
            if (ends_[k] - from > 1) std::sort(sorted_.begin() + from, sorted_.begin() + ends_[k]);
        all_.swap(sorted_);
    }

    std::vector<Moment> all_, sorted_;
    std::vector<std::uint32_t> ends_;  // of spans
    std::size_t next_ = 0;
};

}  // namespace astrarium::packets
