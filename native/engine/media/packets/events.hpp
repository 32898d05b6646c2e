// What happens at a node of the RoCE transport: events, their order, and those that a node is still to see in a window.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "media/packets/wires.hpp"

namespace astrarium::packets {

// In the order in which they happen in one instant.
enum class Kind : std::uint8_t { left, pause, arrive, notice, put_off, asked, opened, timer };
enum class Class : std::uint8_t { data, cnp };

// A packet, or what else an event needs.
struct Parcel {
    Tick tail = 0;               // when its last byte is there
    std::uint32_t number = 0;    // left, timer: of the port; pause: of the link; of a packet: of the link it came by; else of the flow
    std::uint32_t cargo = none;  // of data; of control packets: the flow
    std::uint32_t bytes = 0;
    std::uint32_t serial = 0;  // of the packets of its flow; of left: by which link the packet came
    std::uint32_t hop = none;  // of a packet: the link that it takes or waits for; or where that stands in the routes of flows
    Class cls = Class::data;
    bool marked = false;   // of pause: on
    bool counted = false;  // its bytes are in the node's buffer
};

struct Event : Parcel {
    Kind kind = Kind::left;
    Tick time = 0;
    Event() = default;
    // What the NIC at the end of a flow sees.
    Event(Class which, std::uint32_t flow, Tick when) : kind(Kind::notice), time(when) { number = cargo = flow, cls = which; }
    // A packet on its way: field by field, as most were just written.
    Event(const Parcel& p, Tick last, std::uint32_t link, std::uint32_t next, Tick when) : kind(Kind::arrive), time(when) {
        tail = last, number = link, cargo = p.cargo, bytes = p.bytes, serial = p.serial, hop = next, cls = p.cls, marked = p.marked;
    }
};

// Where an event stands in the order of its node.
struct Moment {
    Tick time;
    std::uint64_t what;  // kind, number
    Moment(Tick when, std::uint64_t which) : time(when), what(which) {}
    Moment(Tick when, Kind kind, std::uint32_t number) : time(when), what(std::uint64_t{static_cast<std::uint8_t>(kind)} << 32 | number) {}
    bool operator<(const Moment& o) const { return time != o.time ? time < o.time : what < o.what; }
};

// What a node makes happen to itself.
struct Soon : Moment {
    std::uint32_t came, bytes;  // left: the packet's
    Soon(Tick when, Kind kind, std::uint32_t number, std::uint32_t link = none, std::uint32_t size = 0)
        : Moment(when, kind, number), came(link), bytes(size) {}
    Kind kind() const { return static_cast<Kind>(what >> 32); }
    std::uint32_t number() const { return static_cast<std::uint32_t>(what); }
    Event event() const {
        Event event;
        event.time = time, event.kind = kind(), event.number = number(), event.serial = came, event.bytes = bytes;
        event.cargo = event.number;  // put off: the flow
        return event;
    }
};

// What a node makes happen to itself in the window that it runs, in order. Most is later than all that is there.
class Agenda {
public:
    const Soon& front() const { return next_ == all_.size() ? end_ : all_[next_]; }
    Soon take() {
        const Soon soon = all_[next_++];
        if (next_ == all_.size()) all_.clear(), next_ = 0;
        return soon;
    }
    void put(Tick when, Kind kind, std::uint32_t number, std::uint32_t came, std::uint32_t bytes) {
        std::size_t at = all_.size();
        all_.emplace_back(when, kind, number, came, bytes);
        for (; at > next_ && all_[at] < all_[at - 1]; --at) std::swap(all_[at], all_[at - 1]);
    }

private:
    std::vector<Soon> all_;
    std::size_t next_ = 0;
    Soon end_{never, Kind::timer, none};
};

// The events of an inbox before `until`, in order. Links deliver in order, so that what came is made of sorted runs.
class Due {
public:
    void collect(const std::vector<Event>& inbox, Tick begin, Tick until) {
        all_.resize(inbox.size() + 1, end), next_ = 0;
        std::uint32_t place = 0;
        auto at = all_.begin();
        for (const Event& event : inbox) {
            if (event.time < until) *at++ = Place(event, place);
            ++place;
        }
        all_.erase(at, all_.end());
        if (all_.size() <= few) std::sort(all_.begin(), all_.end());
        else if (!std::is_sorted(all_.begin(), all_.end())) spread(begin, until);
        all_.push_back(end);
    }
    Moment front() const { return all_[next_].moment(); }
    Tick first() const { return all_[next_].time; }
    std::size_t take() { return all_[next_++].at(); }
    // What comes so much later, and is fetched.
    std::size_t later(std::size_t ahead) const { return all_[std::min(next_ + ahead, all_.size() - 1)].at(); }

private:
    static constexpr std::size_t few = 24;
    struct Place {
        static constexpr int bits = 28;  // of `at`: an inbox has fewer events
        Tick time;
        std::uint64_t key;  // kind, number, and where it is in the inbox
        Place() : time(never), key(0) {}
        Place(const Event& e, std::uint32_t at)
            : time(e.time), key((std::uint64_t{static_cast<std::uint8_t>(e.kind)} << 32 | e.number) << bits | at) {}
        std::size_t at() const { return key & ((std::uint64_t{1} << bits) - 1); }
        Moment moment() const { return {time, key >> bits}; }
        bool operator<(const Place& o) const { return time != o.time ? time < o.time : key < o.key; }
    };
    inline static const Place end{};

    // By spans of the window, about an event in each; then in each span.
    void spread(Tick begin, Tick until) {
        int shift = 0;
        while (((until - begin) >> shift) >= static_cast<Tick>(2 * all_.size())) ++shift;
        const auto span = [&](const Place& m) { return static_cast<std::size_t>(std::max<Tick>(m.time - begin, 0) >> shift); };
        ends_.assign(static_cast<std::size_t>((until - begin) >> shift) + 2, 0);
        for (const Place& m : all_) ++ends_[span(m) + 1];
        for (std::size_t k = 1; k < ends_.size(); ++k) ends_[k] += ends_[k - 1];
        sorted_.resize(all_.size());
        for (const Place& m : all_) sorted_[ends_[span(m)]++] = m;
        for (std::size_t k = 0, from = 0; k + 1 < ends_.size(); from = ends_[k++])
            if (ends_[k] - from > 1) std::sort(sorted_.begin() + from, sorted_.begin() + ends_[k]);
        all_.swap(sorted_);
    }

    std::vector<Place> all_, sorted_;
    std::vector<std::uint32_t> ends_;  // of spans
    std::size_t next_ = 0;
};

}  // namespace astrarium::packets
