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
        if ((++scheduled_ & 0xffff) == 0) stop_if_interrupted();  // one event may schedule many
        std::uint32_t id = spare_;
        if (id == nothing) {
            id = static_cast<std::uint32_t>(listed_.size());
            listed_.emplace_back();
        } else {
            spare_ = listed_[id].next;
        }
        listed_[id] = {event, nothing};
        file({time, id, c});
    }

    // Class `done` only marks state, in any order unless `strict`; the others are sorted.
    template <class Handle>
    void run(Handle&& handle) {
        while (!empty()) instant(handle, [](const Keyed&) {});
    }

    bool empty() const { return later_ == 0 && idle(); }
    // When the next instant is; not when empty().
    Tick next() const { return idle() ? earliest(lowest()) : instant_; }

    // All that is scheduled, in order of time and class: visit(time, class, events).
    template <class Visit>
    void each(Visit&& visit) const {
        std::map<std::pair<Tick, int>, std::vector<Keyed>> all;
        for (int c = 0; c < classes; ++c) {
            if (!(waiting_ >> c & 1)) continue;
            for (std::uint32_t id = current_[c].first; id != nothing; id = listed_[id].next)
                all[{instant_, c}].push_back(listed_[id].event);
        }
        for (const auto& waiting : apart_)
            for (const Pending& it : waiting) all[{it.time, it.cls}].push_back(listed_[it.id].event);
        for (const auto& [when, events] : all) visit(when.first, when.second, events);
    }

    // The next instant, to its end; not when empty(). `soon` is called with an event a few events before `handle` is, to prefetch
    // what it needs.
    template <class Handle, class Soon>
    void instant(Handle&& handle, Soon&& soon) {
        if (idle()) advance();
        while (!idle()) {
            const int c = std::countr_zero(waiting_);
            take(c);
            if (batch_.size() > 1 && (c != done || strict)) sort(c);
            const std::uint64_t before = handled;
            handled += batch_.size();
            if ((before ^ handled) >> 16) stop_if_interrupted();
            for (std::size_t i = 0; i < batch_.size(); ++i) {
                if ((i & 0xffff) == 0xffff) stop_if_interrupted();
                if (i + ahead < batch_.size()) soon(batch_[i + ahead]);
                handle(batch_[i]);
            }
        }
    }

private:
    static constexpr std::size_t large = 1 << 18;
    static constexpr std::size_t ahead = 6;  // events between the call of `soon` and that of `handle`
    static constexpr std::uint32_t nothing = 0xffffffffu;
    struct List {
        std::uint32_t first = nothing, last = nothing;
    };
    struct Listed {
        Keyed event;
        std::uint32_t next;
    };
    struct Pending {
        Tick time;
        std::uint32_t id;
        int cls;
    };

    // A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, J. ACM 37(2), 1990): times never go back, so an event waits in the list of the
    // highest bit in which its time differs from that of the instant. Once that is over, the lowest list is filed anew from its
    // earliest time on.
    Tick instant_ = 0;
    List current_[classes];                     // of the instant
    std::uint32_t waiting_ = 0;                 // which of these have events
    std::vector<Pending> apart_[64], refiled_;  // by bit
    std::uint64_t later_ = 0;                   // which of these have events
    std::vector<Listed> listed_;
    std::uint32_t spare_ = nothing;  // of listed_: a list of those that are over
    std::vector<Keyed> batch_;
    std::uint32_t scheduled_ = 0;

    bool idle() const { return waiting_ == 0; }

    std::size_t lowest() const { return static_cast<std::size_t>(std::countr_zero(later_)); }

    Tick earliest(std::size_t bit) const {
        return std::min_element(apart_[bit].begin(), apart_[bit].end(), [](const Pending& x, const Pending& y) { return x.time < y.time; })
            ->time;
    }

    void file(const Pending& it) {
        if (it.time != instant_) {
            const auto bit = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(it.time ^ instant_))) - 1;
            later_ |= std::uint64_t{1} << bit;
            return apart_[bit].push_back(it);
        }
        const std::uint32_t mine = 1u << it.cls;
        List& list = current_[it.cls];
        (waiting_ & mine ? listed_[list.last].next : list.first) = it.id;
        list.last = it.id;
        waiting_ |= mine;
    }

    void advance() {
        const std::size_t bit = lowest();
        later_ &= later_ - 1;
        if (apart_[bit].size() == 1) {
            const Pending it = apart_[bit].front();
            apart_[bit].clear();
            now = instant_ = it.time;
            return file(it);
        }
        now = instant_ = earliest(bit);
        refiled_.clear();
        std::swap(refiled_, apart_[bit]);
        for (const Pending& it : refiled_) file(it);
    }

    // The events of a class into batch_.
    void take(int c) {
        const List list = current_[c];
        batch_.clear();
        for (std::uint32_t id = list.first; id != nothing; id = listed_[id].next) batch_.push_back(listed_[id].event);
        listed_[list.last].next = spare_;
        spare_ = list.first;
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
