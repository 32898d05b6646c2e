// The native clock: an instant is a sequence of batches, each the lowest non-empty class of events in key order.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
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
        listed_[id] = {event, nothing};
        file({time, id, static_cast<std::uint32_t>(c)});
    }
    // Something arrives, an event of class `arrive` whose key is asked for only where others are to be handled in the same instant.
    void arrival(Tick time, std::uint32_t number) {
        count();
        file({time, number | bare, arrive});
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
        std::map<std::pair<Tick, int>, std::vector<Keyed>> all;
        const auto add = [&](Tick time, int c, std::uint32_t id) {
            all[{time, c}].push_back(id & bare ? Keyed{0, 0, arrivals, id & ~bare, 0} : listed_[id].event);
        };
        for (int c = 0; c < classes; ++c)
            for (const std::uint32_t id : current_[c]) add(instant_, c, id);
        for (const auto& waiting : apart_)
            for (const Pending& it : waiting) add(it.time, static_cast<int>(it.cls), it.id);
        for (const auto& [when, events] : all) visit(when.first, when.second, events);
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
        std::uint32_t next;
    };
    struct Pending {
        Tick time;
        std::uint32_t id, cls;  // id: in listed_, or that of an arrival
    };
    using Waiting = std::vector<Pending>;

    // A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, J. ACM 37(2), 1990): times never go back, so an event waits with those whose time has
    // the same digit where it first differs from the instant's. Once the instants before them are over, they are filed anew from
    // their earliest time on.
    Tick instant_ = 0;
    std::vector<std::uint32_t> current_[classes];  // of the instant
    std::uint32_t waiting_ = 0;                    // which of these have events
    Waiting apart_[places << digit], refiled_;     // by place and value of the digit
    std::uint32_t used_places_ = 0;                // places with events
    std::uint64_t values_[places] = {};            // of each place: values with events
    std::vector<Listed> listed_;
    std::uint32_t spare_ = nothing;  // of listed_: a list of those that are over
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

    static Tick earliest(const Waiting& some) {
        return std::min_element(some.begin(), some.end(), [](const Pending& x, const Pending& y) { return x.time < y.time; })->time;
    }

    void file(const Pending& it) {
        if (it.time != instant_) {
            const int place = (std::bit_width(static_cast<std::uint64_t>(it.time ^ instant_)) - 1) / digit;
            const auto value = static_cast<std::uint64_t>(it.time) >> place * digit & ((1u << digit) - 1);
            used_places_ |= 1u << place;
            values_[place] |= std::uint64_t{1} << value;
            return apart_[static_cast<std::size_t>(place) << digit | value].push_back(it);
        }
        current_[it.cls].push_back(it.id);
        waiting_ |= 1u << it.cls;
    }

    // To the next instant: its one event, or nothing if it may have several, which are filed.
    std::uint32_t advance() {
        const int place = std::countr_zero(used_places_);
        const int value = std::countr_zero(values_[place]);
        values_[place] &= values_[place] - 1;
        if (values_[place] == 0) used_places_ &= used_places_ - 1;
        Waiting& some = apart_[static_cast<std::size_t>(place << digit | value)];
        if (some.size() == 1) {
            const Pending it = some.front();
            some.clear();
            now = instant_ = it.time;
            return it.id;
        }
        now = instant_ = earliest(some);
        refiled_.clear();
        std::swap(refiled_, some);
        for (const Pending& it : refiled_) file(it);
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
