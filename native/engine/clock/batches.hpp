// The native clock: an instant is a sequence of batches, each the lowest non-empty class of events in key order.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "clock/interrupt.hpp"
#include "plan/plan.hpp"

namespace astrarium {

struct Keyed {
    std::uint64_t high, low;  // rank << 32 | node, chunk << 32 | number; of what arrives as in Native::arrives
    std::uint32_t kind, a;
    std::uint64_t b;
};

class BatchClock {
public:
    enum Class : int { done, issue, depart, arrive, classes };

    Tick now = 0;
    std::uint64_t handled = 0;
    bool strict = false;  // class `done` in key order too: somebody is told of what ends

    // Not before `now`.
    void at(Tick time, Class c, const Keyed& event) {
        count();
        std::uint32_t id = spare_;
        if (id == nothing) {
            id = static_cast<std::uint32_t>(listed_.size());
            listed_.emplace_back();
        } else {
            spare_ = listed_[id].next;
        }
        listed_[id] = {event, nothing, static_cast<std::uint32_t>(c)};
        file(time, id);
    }
    // Something arrives, an event of class `arrive` whose key is asked for only where others are to be handled in the same instant.
    void arrival(Tick time, std::uint32_t number) {
        count();
        file(time, number | bare);
    }

    // Class `done` only marks state, in any order unless `strict`; the others are sorted.
    template <class Handle>
    void run(Handle&& handle) {
        while (!empty()) instant(Plain<Handle>{handle});
    }

    bool empty() const { return used_places_ == 0 && idle(); }
    // When the next instant is; not when empty().
    Tick next() const { return idle() ? earliest(apart_[lowest()]) : instant_; }

    // All that is scheduled, in order of time and class: visit(time, class, events).
    template <class Visit>
    void each(Visit&& visit, std::uint32_t arrivals) const {
        std::vector<std::pair<Tick, std::uint32_t>> all;
        for (const auto& ids : current_)
            for (const std::uint32_t id : ids) all.push_back({instant_, id});
        for (std::uint32_t places = used_places_; places != 0; places &= places - 1) {
            const auto place = static_cast<std::size_t>(std::countr_zero(places));
            for (std::uint64_t values = values_[place]; values != 0; values &= values - 1)
                for (std::uint32_t at = apart_[place << digit | static_cast<std::size_t>(std::countr_zero(values))].first; at != nothing;
                     at = pending_[at].next)
                    all.push_back({pending_[at].time, pending_[at].id});
        }
        std::stable_sort(all.begin(), all.end(), [this](const auto& x, const auto& y) {
            return x.first != y.first ? x.first < y.first : class_of(x.second) < class_of(y.second);
        });
        std::vector<Keyed> events;
        for (std::size_t i = 0; i < all.size();) {
            const auto [time, first] = all[i];
            const std::uint32_t c = class_of(first);
            events.clear();
            for (; i < all.size() && all[i].first == time && class_of(all[i].second) == c; ++i) {
                const std::uint32_t id = all[i].second;
                events.push_back(id & bare ? Keyed{0, 0, arrivals, id & ~bare, 0} : listed_[id].event);
            }
            visit(time, static_cast<int>(c), events);
        }
    }

    // The next instant, to its end; not when empty(). It calls to.event(event), and to.arrival(number) for what arrives while nothing else
    // does; else to.event(to.key(number)). to.soon(event) comes a few events before, to prefetch what it needs.
    template <class To>
    void instant(const To& to) {
        if (idle()) {
            if (const std::uint32_t lone = advance(); lone != nothing) {
                if ((++handled & 0xffff) == 0) ask(1);
                if (lone & bare) to.arrival(lone & ~bare);
                else to.event(free(lone));
            }
        }
        while (!idle()) {
            const int c = std::countr_zero(waiting_);
            take(c, to);
            if (batch_.size() > 1 && (c != done || strict)) sort(c);
            const std::uint64_t before = handled;
            handled += batch_.size();
            if (const std::uint64_t more = (handled >> 16) - (before >> 16)) ask(more);
            for (std::size_t i = 0; i < batch_.size(); ++i) {
                if ((i & 0xffff) == 0xffff) stop_if_interrupted();
                if (i + ahead < batch_.size()) to.soon(batch_[i + ahead]);
                to.event(batch_[i]);
            }
        }
    }

private:
    static constexpr std::size_t large = 1 << 18;
    static constexpr std::size_t ahead = 6;  // events between the calls of `soon` and `event`
    static constexpr std::uint32_t nothing = 0xffffffffu, bare = 0x80000000u;
    static constexpr int digit = 6, places = 11;  // bits of a digit; 63 bits of time
    template <class Handle>
    struct Plain {
        Handle& handle;
        void event(const Keyed& event) const { handle(event); }
        void arrival(std::uint32_t) const {}
        Keyed key(std::uint32_t) const { return {}; }
        void soon(const Keyed&) const {}
    };
    struct Listed {
        Keyed event;
        std::uint32_t next, cls;
    };
    struct Pending {
        Tick time;
        std::uint32_t id, next;  // id: in listed_, or that of an arrival
    };
    struct Waiting {  // a list in pending_, in the order in which they were filed
        std::uint32_t first = nothing, last = nothing;
    };

    // A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, J. ACM 37(2), 1990): times never go back, so an event waits with those whose time has
    // the same digit where it first differs from the instant's. Once the instants before them are over, they are filed anew from
    // their earliest time on.
    Tick instant_ = 0;
    std::vector<std::uint32_t> current_[classes];  // of the instant
    std::uint32_t waiting_ = 0;                    // which of these have events
    Waiting apart_[places << digit];               // by place and value of the digit
    std::uint32_t used_places_ = 0;                // places with events
    std::uint64_t values_[places] = {};            // of each place: values with events
    std::vector<Pending> pending_;
    std::vector<Listed> listed_;
    std::uint32_t spare_ = nothing, spare_pending_ = nothing;  // of listed_ and pending_: lists of those that are over
    std::vector<Keyed> batch_;
    std::uint32_t scheduled_ = 0;

    bool idle() const { return waiting_ == 0; }
    void ask(std::uint64_t more) const {  // 2^16 events each
        count_progress(instant_, more << 16);
        stop_if_interrupted();
    }
    void count() {
        if ((++scheduled_ & 0xffff) == 0) stop_if_interrupted();  // one event may schedule many
    }

    std::size_t lowest() const {
        const int place = std::countr_zero(used_places_);
        return static_cast<std::size_t>(place << digit | std::countr_zero(values_[place]));
    }

    std::uint32_t class_of(std::uint32_t id) const { return id & bare ? std::uint32_t{arrive} : listed_[id].cls; }

    Tick earliest(const Waiting& some) const {
        Tick time = pending_[some.first].time;
        for (std::uint32_t at = pending_[some.first].next; at != nothing; at = pending_[at].next) time = std::min(time, pending_[at].time);
        return time;
    }

    void file(Tick time, std::uint32_t id) {
        if (time == instant_) return add_now(id);
        std::uint32_t at = spare_pending_;
        if (at == nothing) {
            at = static_cast<std::uint32_t>(pending_.size());
            pending_.emplace_back();
        } else {
            spare_pending_ = pending_[at].next;
        }
        pending_[at].time = time, pending_[at].id = id;
        put_apart(at);
    }
    void add_now(std::uint32_t id) {
        const std::uint32_t c = class_of(id);
        current_[c].push_back(id);
        waiting_ |= 1u << c;
    }
    void put_apart(std::uint32_t at) {
        const Tick time = pending_[at].time;
        const int place = (std::bit_width(static_cast<std::uint64_t>(time ^ instant_)) - 1) / digit;
        const auto value = static_cast<std::uint64_t>(time) >> place * digit & ((1u << digit) - 1);
        used_places_ |= 1u << place;
        values_[place] |= std::uint64_t{1} << value;
        Waiting& some = apart_[static_cast<std::size_t>(place) << digit | value];
        (some.first == nothing ? some.first : pending_[some.last].next) = at;
        some.last = at, pending_[at].next = nothing;
    }
    std::uint32_t take_pending(std::uint32_t at) {
        pending_[at].next = spare_pending_;
        spare_pending_ = at;
        return pending_[at].id;
    }

    // To the next instant: its one event, or nothing if it may have several, which are filed.
    std::uint32_t advance() {
        const int place = std::countr_zero(used_places_);
        const int value = std::countr_zero(values_[place]);
        values_[place] &= values_[place] - 1;
        if (values_[place] == 0) used_places_ &= used_places_ - 1;
        const Waiting some = std::exchange(apart_[static_cast<std::size_t>(place << digit | value)], {});
        now = instant_ = earliest(some);
        if (some.first == some.last) return take_pending(some.first);
        for (std::uint32_t at = some.first, next; at != nothing; at = next) {
            next = pending_[at].next;
            if (pending_[at].time == instant_) add_now(take_pending(at));
            else put_apart(at);
        }
        return nothing;
    }

    Keyed free(std::uint32_t id) {
        listed_[id].next = spare_;
        spare_ = id;
        return listed_[id].event;
    }

    // The events of a class into batch_.
    template <class To>
    void take(int c, const To& to) {
        batch_.clear();
        for (const std::uint32_t id : current_[c]) batch_.push_back(id & bare ? to.key(id & ~bare) : free(id));
        current_[c].clear();
        waiting_ &= ~(1u << c);
    }

    void sort(int c) {
        const auto before = [c](const Keyed& x, const Keyed& y) {
            if (x.high != y.high || x.low != y.low) return x.high != y.high ? x.high < y.high : x.low < y.low;
            return c == arrive && x.b < y.b;
        };
        if (batch_.size() < large) return std::sort(batch_.begin(), batch_.end(), before);
        std::uint32_t compared = 0;
        std::sort(batch_.begin(), batch_.end(), [&](const Keyed& x, const Keyed& y) {
            if ((++compared & 0xfffff) == 0) stop_if_interrupted();
            return before(x, y);
        });
    }
};

}  // namespace astrarium
