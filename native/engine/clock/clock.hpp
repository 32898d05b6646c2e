// Time -> FIFO of events. Few distinct times are pending at once, so they stand in a short sorted vector.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "clock/interrupt.hpp"
#include "plan/plan.hpp"

namespace astrarium {

struct Event {
    std::uint32_t kind, a;
    std::uint64_t b;
};

class Clock {
public:
    Tick now = 0;
    std::uint64_t handled = 0;

    void after(Tick delta, Event event) { at(add(now, delta), event); }

    void at(Tick time, Event event) {
        if ((++scheduled_ & 0xffff) == 0) stop_if_interrupted();  // one event may schedule many
        bucket(time).push_back(event);
    }

    // Runs until nothing is pending; events scheduled for the running instant join its end.
    template <class Handle>
    void run(Handle&& handle) {
        while (!pending_.empty()) {
            const Slot slot = pending_.back();
            now = slot.time;
            for (std::size_t i = 0; i < buckets_[slot.bucket].size(); ++i) {
                const Event event = buckets_[slot.bucket][i];
                if ((i & 0xffff) == 0xffff) stop_if_interrupted();
                handle(event);
            }
            const std::uint64_t before = handled;
            handled += buckets_[slot.bucket].size();
            if (const std::uint64_t more = (handled >> 16) - (before >> 16)) {
                count_progress(now, more << 16);
                stop_if_interrupted();
            }
            buckets_[slot.bucket].clear();
            free_.push_back(slot.bucket);
            pending_.pop_back();
        }
    }

private:
    struct Slot {
        Tick time;
        std::uint32_t bucket;
    };
    std::vector<Slot> pending_;  // latest first
    std::vector<std::vector<Event>> buckets_;
    std::vector<std::uint32_t> free_;
    std::uint32_t scheduled_ = 0;

    std::vector<Event>& bucket(Tick time) {
        std::size_t low = 0, high = pending_.size();
        if (high > 24) {
            const auto it =
                std::lower_bound(pending_.begin(), pending_.end(), time, [](const Slot& slot, Tick t) { return slot.time > t; });
            low = static_cast<std::size_t>(it - pending_.begin());
        } else {
            low = high;
            while (low > 0 && pending_[low - 1].time < time) --low;
            if (low > 0 && pending_[low - 1].time == time) return buckets_[pending_[low - 1].bucket];
        }
        if (low < pending_.size() && pending_[low].time == time) return buckets_[pending_[low].bucket];
        if (free_.empty()) {
            free_.push_back(static_cast<std::uint32_t>(buckets_.size()));
            buckets_.emplace_back();
        }
        const std::uint32_t id = free_.back();
        free_.pop_back();
        pending_.insert(pending_.begin() + static_cast<std::ptrdiff_t>(low), Slot{time, id});
        return buckets_[id];
    }
};

}  // namespace astrarium
