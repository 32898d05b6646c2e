// Pending events of one GPU in order of time and key: a ring of buckets, of which one at a time is sorted.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "gpu/event.hpp"

namespace astrarium::gpu {

class Queue {
public:
    // Most events come within `reach` ps of the present; those beyond cost a heap.
    explicit Queue(Tick reach) : heads_(buckets, nothing), full_(buckets / 64) {
        while ((Tick{buckets} << shift_) < reach) ++shift_;
    }

    // Not before what was popped last.
    void push(const Event& event) {
        const Tick bucket = event.time >> shift_;
        if (bucket == open_) return insert(event);
        if (bucket - open_ >= buckets) {
            far_.push_back(event);
            return std::push_heap(far_.begin(), far_.end(), later);
        }
        file(event, bucket);
    }

    // Takes the first event if it comes before `until`.
    bool pop(Tick until, Event& into) {
        if (position_ == sorted_.size() && !open(until)) return false;
        if (sorted_[position_].time >= until) return false;
        into = sorted_[position_++];
        return true;
    }

    // When the first event comes; `never` where there is none.
    Tick next() const {
        if (position_ < sorted_.size()) return sorted_[position_].time;
        Tick first = far_.empty() ? never : far_.front().time;
        if (const Tick bucket = following(); bucket != never)
            for (std::uint32_t id = heads_[bucket & mask]; id != nothing; id = nodes_[id].next) first = std::min(first, nodes_[id].event.time);
        return first;
    }

private:
    static constexpr Tick buckets = 1 << 12, mask = buckets - 1;
    static constexpr std::uint32_t nothing = 0xffffffffu;
    struct Node {
        Event event;
        std::uint32_t next;
    };

    int shift_ = 7;
    Tick open_ = -1;                    // number of the bucket that is sorted
    std::vector<Event> sorted_, far_;   // of the open bucket; a heap of those beyond the ring
    std::size_t position_ = 0;
    std::vector<std::uint32_t> heads_;  // lists of nodes
    std::vector<std::uint64_t> full_;   // which buckets have any
    std::vector<Node> nodes_;
    std::uint32_t spare_ = nothing;

    static bool later(const Event& x, const Event& y) { return y.before(x); }

    void insert(const Event& event) {
        auto at = sorted_.end();
        while (at != sorted_.begin() + static_cast<std::ptrdiff_t>(position_) && event.before(*(at - 1))) --at;
        sorted_.insert(at, event);
    }

    void file(const Event& event, Tick bucket) {
        std::uint32_t id = spare_;
        if (id == nothing) {
            id = static_cast<std::uint32_t>(nodes_.size());
            nodes_.emplace_back();
        } else {
            spare_ = nodes_[id].next;
        }
        const auto at = static_cast<std::size_t>(bucket & mask);
        nodes_[id] = {event, heads_[at]};
        heads_[at] = id;
        full_[at / 64] |= std::uint64_t{1} << (at % 64);
    }

    // The first bucket of the ring after the open one that has events; `never` where none has.
    Tick following() const {
        const auto from = static_cast<std::size_t>((open_ + 1) & mask);
        std::size_t word = from / 64;
        std::uint64_t bits = full_[word] & (~std::uint64_t{0} << (from % 64));
        for (std::size_t step = 0; step <= full_.size(); ++step) {
            if (bits) {
                const auto at = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
                return open_ + 1 + static_cast<Tick>((at - from) & static_cast<std::size_t>(mask));
            }
            word = (word + 1) % full_.size();
            bits = full_[word];
        }
        return never;
    }

    // Sorts the next bucket that has events, if it begins before `until`.
    bool open(Tick until) {
        Tick bucket = following();
        if (!far_.empty()) bucket = std::min(bucket, far_.front().time >> shift_);
        if (bucket == never || (bucket << shift_) >= until) return false;
        open_ = bucket;
        sorted_.clear();
        position_ = 0;
        while (!far_.empty() && (far_.front().time >> shift_) - open_ < buckets) {
            std::pop_heap(far_.begin(), far_.end(), later);
            const Event event = far_.back();
            far_.pop_back();
            if (event.time >> shift_ == open_) sorted_.push_back(event);
            else file(event, event.time >> shift_);
        }
        const auto at = static_cast<std::size_t>(bucket & mask);
        for (std::uint32_t id = heads_[at], next; id != nothing; id = next) {
            sorted_.push_back(nodes_[id].event);
            next = nodes_[id].next;
            nodes_[id].next = spare_;
            spare_ = id;
        }
        heads_[at] = nothing;
        full_[at / 64] &= ~(std::uint64_t{1} << (at % 64));
        std::sort(sorted_.begin(), sorted_.end(), [](const Event& x, const Event& y) { return x.before(y); });
        return true;
    }
};

}  // namespace astrarium::gpu
