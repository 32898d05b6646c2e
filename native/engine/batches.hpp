// The native clock: an instant is a sequence of batches, each the lowest non-empty class of events in key order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "interrupt.hpp"
#include "plan.hpp"

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

    void at(Tick time, Class c, const Keyed& event) {
        if ((++scheduled_ & 0xffff) == 0) stop_if_interrupted();  // one event may schedule many
        slot(time).lists[c].push_back(event);
    }

    // Class `done` only marks state, in any order unless `strict`; the others are sorted.
    template <class Handle>
    void run(Handle&& handle) {
        while (!pending_.empty()) instant(handle);
    }

    bool empty() const { return pending_.empty(); }
    Tick next() const { return pending_.back().time; }

    // All that is scheduled, in order of time and class: visit(time, class, events).
    template <class Visit>
    void each(Visit&& visit) const {
        const auto slot = [&](Tick time, std::uint32_t id) {
            for (int c = 0; c < classes; ++c)
                if (!slots_[id].lists[c].empty()) visit(time, c, slots_[id].lists[c]);
        };
        for (auto at = pending_.rbegin(); at != pending_.rend(); ++at) slot(at->time, at->slot);
        for (const auto& [time, id] : later_) slot(time, id);
    }

    // The next instant, to its end; not when empty().
    template <class Handle>
    void instant(Handle&& handle) {
        const std::uint32_t id = pending_.back().slot;
        now = pending_.back().time;
        running_ = true;
        int c = 0;
        while (c < classes) {
            if (slots_[id].lists[c].empty()) {
                ++c;
                continue;
            }
            batch_.clear();
            std::swap(batch_, slots_[id].lists[c]);
            if (c != done || strict) sort(c);
            const std::uint64_t before = handled;
            handled += batch_.size();
            if ((before ^ handled) >> 16) stop_if_interrupted();
            std::uint32_t count = 0;
            for (const Keyed& event : batch_) {
                if ((++count & 0xffff) == 0) stop_if_interrupted();
                handle(event);
            }
            c = 0;
        }
        running_ = false;
        free_.push_back(id);
        next_is_over();
    }

private:
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

    static constexpr std::size_t large = 1 << 18, many = 1 << 12;
    struct Pending {
        Tick time;
        std::uint32_t slot;
    };
    struct Slot {
        std::vector<Keyed> lists[classes];
    };
    std::vector<Pending> pending_;        // latest first; all before those of later_
    std::map<Tick, std::uint32_t> later_;  // where many times are pending at once
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> free_;
    std::vector<Keyed> batch_;
    std::uint32_t scheduled_ = 0;
    bool running_ = false;  // the instant `now`, which is the last of pending_

    Slot& slot(Tick time) {
        if (running_ && time == now) return slots_[pending_.back().slot];
        if (!later_.empty() && time >= later_.begin()->first) {
            const auto [at, fresh] = later_.try_emplace(time, 0);
            if (fresh) at->second = new_slot();
            return slots_[at->second];
        }
        const auto it = std::lower_bound(pending_.begin(), pending_.end(), time,
                                         [](const Pending& p, Tick t) { return p.time > t; });
        if (it != pending_.end() && it->time == time) return slots_[it->slot];
        const std::uint32_t id = new_slot();
        pending_.insert(it, Pending{time, id});
        if (pending_.size() > many) {
            for (std::size_t k = 0; k < many / 2; ++k) later_.emplace_hint(later_.begin(), pending_[k].time, pending_[k].slot);
            pending_.erase(pending_.begin(), pending_.begin() + many / 2);
        }
        return slots_[id];
    }

    std::uint32_t new_slot() {
        if (free_.empty()) {
            free_.push_back(static_cast<std::uint32_t>(slots_.size()));
            slots_.emplace_back();
        }
        const std::uint32_t id = free_.back();
        free_.pop_back();
        return id;
    }

    void next_is_over() {
        pending_.pop_back();
        if (!pending_.empty() || later_.empty()) return;
        const auto end = std::next(later_.begin(), static_cast<std::ptrdiff_t>(std::min(later_.size(), many / 2)));
        for (auto at = later_.begin(); at != end; ++at) pending_.push_back({at->first, at->second});
        std::reverse(pending_.begin(), pending_.end());
        later_.erase(later_.begin(), end);
    }
};

}  // namespace astrarium
