// Pending events of one GPU in order of time and key: a timing wheel of two levels. An event waits in a wide bucket; once the time is
// there, the events of one wide bucket are dealt to narrow ones, of which one at a time is sorted. What is written is then close together
// at any time, although tens of thousands of events are pending.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "gpu/event.hpp"

namespace astrarium::gpu {

class Queue {
public:
    // `grain`: width of a narrow bucket in ps, at least. Few events should come later than 2^15 of them from now: those cost a heap.
    explicit Queue(Tick grain) : narrow_(narrow, nothing), wide_(wide, nothing), full_(wide / 64) {
        while ((Tick{1} << shift_) < grain) ++shift_;
    }

    // Not before what was popped last.
    void push(const Event& event) {
        const Tick bucket = event.time >> shift_, block = bucket >> narrow_bits;
        if (block != block_) return defer(event, block);
        if (bucket == open_) return insert(event);
        append(narrow_[static_cast<std::size_t>(bucket & (narrow - 1))], event);
        has_ |= std::uint64_t{1} << (bucket & (narrow - 1));
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
        if (has_) return least(narrow_[static_cast<std::size_t>(std::countr_zero(has_))]);
        const Tick block = following();
        return std::min(block == never ? never : least(wide_[static_cast<std::size_t>(block & (wide - 1))]),
                        far_.empty() ? never : far_.front().time);
    }

private:
    static constexpr int narrow_bits = 6;
    static constexpr Tick narrow = 1 << narrow_bits, wide = 1 << 9;
    static constexpr std::uint32_t nothing = 0xffffffffu;
    struct alignas(64) Chunk {  // events of one bucket stand together: a list of single events would miss the cache at each
        static constexpr std::uint32_t most = 7;
        Event events[most];
        std::uint32_t count, next;
    };

    int shift_ = 4;
    Tick block_ = -1, open_ = -1;      // numbers of the wide bucket that was dealt, and of the narrow one that is sorted
    std::vector<Event> sorted_, far_;  // of the open bucket; a heap of those beyond the wheel
    std::size_t position_ = 0;
    std::vector<std::uint32_t> narrow_, wide_;  // lists of chunks, of which the first has room
    std::uint64_t has_ = 0;                     // which narrow buckets have events
    std::vector<std::uint64_t> full_;           // which wide ones
    std::vector<Chunk> chunks_;
    std::uint32_t spare_ = nothing;

    static bool later(const Event& x, const Event& y) { return y.before(x); }

    void insert(const Event& event) {
        auto at = sorted_.end();
        while (at != sorted_.begin() + static_cast<std::ptrdiff_t>(position_) && event.before(*(at - 1))) --at;
        sorted_.insert(at, event);
    }

    void defer(const Event& event, Tick block) {
        if (block - block_ >= wide) {
            far_.push_back(event);
            return std::push_heap(far_.begin(), far_.end(), later);
        }
        const auto at = static_cast<std::size_t>(block & (wide - 1));
        append(wide_[at], event);
        full_[at / 64] |= std::uint64_t{1} << (at % 64);
    }

    void append(std::uint32_t& head, const Event& event) {
        if (head == nothing || chunks_[head].count == Chunk::most) {
            std::uint32_t id = spare_;
            if (id == nothing) {
                id = static_cast<std::uint32_t>(chunks_.size());
                chunks_.emplace_back();
            } else {
                spare_ = chunks_[id].next;
            }
            chunks_[id].count = 0, chunks_[id].next = head;
            head = id;
        }
        Chunk& chunk = chunks_[head];
        chunk.events[chunk.count++] = event;
    }

    // A few events are sorted faster by insertion.
    void sort() {
        constexpr std::size_t few = 24;
        if (sorted_.size() > few)
            return std::sort(sorted_.begin(), sorted_.end(), [](const Event& x, const Event& y) { return x.before(y); });
        for (std::size_t i = 1; i < sorted_.size(); ++i) {
            const Event event = sorted_[i];
            std::size_t at = i;
            for (; at > 0 && event.before(sorted_[at - 1]); --at) sorted_[at] = sorted_[at - 1];
            sorted_[at] = event;
        }
    }

    // Hands copies of a list's chunks to `take`, which may append, and frees them.
    template <class Take>
    void drain(std::uint32_t& head, Take&& take) {
        for (std::uint32_t id = std::exchange(head, nothing), next; id != nothing; id = next) {
            next = chunks_[id].next;
            prefetch(next);
            const Chunk chunk = chunks_[id];
            chunks_[id].next = spare_;
            spare_ = id;
            take(chunk);
        }
    }

    void prefetch([[maybe_unused]] std::uint32_t chunk) const {
#if defined(__GNUC__)
        if (chunk == nothing) return;
        const char* const at = reinterpret_cast<const char*>(&chunks_[chunk]);
        for (std::size_t line = 0; line < sizeof(Chunk); line += 64) __builtin_prefetch(at + line);
#endif
    }

    Tick least(std::uint32_t head) const {
        Tick first = never;
        for (std::uint32_t id = head; id != nothing; id = chunks_[id].next)
            for (std::uint32_t i = 0; i < chunks_[id].count; ++i) first = std::min(first, chunks_[id].events[i].time);
        return first;
    }

    // The first wide bucket of the wheel after the one that was dealt that has events; `never` where none has.
    Tick following() const {
        const auto from = static_cast<std::size_t>((block_ + 1) & (wide - 1));
        std::size_t word = from / 64;
        std::uint64_t bits = full_[word] & (~std::uint64_t{0} << (from % 64));
        for (std::size_t step = 0; step <= full_.size(); ++step) {
            if (bits) {
                const auto at = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
                return block_ + 1 + static_cast<Tick>((at - from) & static_cast<std::size_t>(wide - 1));
            }
            word = (word + 1) % full_.size();
            bits = full_[word];
        }
        return never;
    }

    // Deals the next wide bucket that has events, if it begins before `until`.
    bool deal(Tick until) {
        Tick block = following();
        if (!far_.empty()) block = std::min(block, far_.front().time >> (shift_ + narrow_bits));
        if (block == never || (block << (shift_ + narrow_bits)) >= until) return false;
        block_ = block;
        while (!far_.empty() && (far_.front().time >> (shift_ + narrow_bits)) - block_ < wide) {
            std::pop_heap(far_.begin(), far_.end(), later);
            const Event event = far_.back();
            far_.pop_back();
            push(event);
        }
        const auto at = static_cast<std::size_t>(block & (wide - 1));
        full_[at / 64] &= ~(std::uint64_t{1} << (at % 64));
        drain(wide_[at], [this](const Chunk& chunk) {
            for (std::uint32_t i = 0; i < chunk.count; ++i) push(chunk.events[i]);
        });
        return true;
    }

    // Sorts the next narrow bucket that has events, if it begins before `until`.
    bool open(Tick until) {
        if (!has_ && !deal(until)) return false;
        const int at = std::countr_zero(has_);
        const Tick bucket = (block_ << narrow_bits) + at;
        if ((bucket << shift_) >= until) return false;
        open_ = bucket;
        has_ &= has_ - 1;
        sorted_.clear();
        position_ = 0;
        drain(narrow_[static_cast<std::size_t>(at)],
              [this](const Chunk& chunk) { sorted_.insert(sorted_.end(), chunk.events, chunk.events + chunk.count); });
        sort();
        return true;
    }
};

}  // namespace astrarium::gpu
