// Pending events of one GPU by windows. A window is no longer than the shortest time in which a packet comes from one station to the next,
// so all packets of a window are known when it begins, and what they do at stations of one stage does not depend on the other stages:
// each stage's packets are sorted and handled as one batch, each written once. What units do (`done`, `timer`, `start`) may follow at once.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "gpu/event.hpp"

namespace astrarium::gpu {

class Queue {
public:
    static constexpr std::int64_t nothing = std::int64_t{1} << 62;  // no window

    // `width`: the time that packets take between stations, at least, in ps; windows are no longer.
    explicit Queue(Tick width)
        : shift_(std::bit_width(static_cast<std::uint64_t>(width)) - 1), heads_(slots * stages, none), full_(slots / 64) {}

    std::int64_t window_of(Tick time) const { return time >> shift_; }
    Tick begin_of(std::int64_t window) const { return window << shift_; }

    // Packets are for later windows than the one that was opened last.
    void push(const Event& event) {
        const std::int64_t window = window_of(event.time);
        if (window == open_) return insert(event);
        if (window - open_ >= slots) return defer(event);
        const auto slot = static_cast<std::size_t>(window & (slots - 1));
        full_[slot / 64] |= std::uint64_t{1} << (slot % 64);
        append(heads_[slot * stages + place(event.stage())], event);
    }

    // The first window that has events.
    std::int64_t next() const { return std::min(following(), far_.empty() ? nothing : window_of(far_.front().time)); }

    // Begins a window: those before it are over.
    void open(std::int64_t window) {
        open_ = window;
        while (!far_.empty() && window_of(far_.front().time) - open_ < slots) {
            std::pop_heap(far_.begin(), far_.end(), later);
            const Event event = far_.back();
            far_.pop_back();
            const auto slot = static_cast<std::size_t>(window_of(event.time) & (slots - 1));
            full_[slot / 64] |= std::uint64_t{1} << (slot % 64);
            append(heads_[slot * stages + place(event.stage())], event);
        }
        const auto slot = static_cast<std::size_t>(window & (slots - 1));
        full_[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
        position_ = 0;
        end_ = take(heads_[slot * stages], work_);
    }

    // The packets of the open window at a stage, in order.
    std::span<const Event> packets(Stage stage) {
        const std::size_t count = take(heads_[static_cast<std::size_t>(open_ & (slots - 1)) * stages + place(stage)], packets_);
        return {packets_.data(), count};
    }

    // The next event of the units in the open window.
    bool pop(Event& into) {
        if (position_ == end_) return false;
        into = work_[position_++];
        return true;
    }

private:
    static constexpr std::int64_t slots = 1 << 9;
    static constexpr std::size_t stages = 6;  // lists of a slot: the units' events, and one list for each stage of packets
    static constexpr std::uint32_t none = 0xffffffffu;
    static constexpr std::uint32_t few = 24;  // are sorted faster by insertion
    struct alignas(64) Chunk {                // events of one list stand together: a list of single events would miss the cache at each
        static constexpr std::uint32_t most = 7;
        Event events[most];
        std::uint32_t count, next;
    };

    int shift_;
    std::int64_t open_ = -1;
    std::vector<std::uint32_t> heads_;         // lists of chunks, of which the first has room
    std::vector<std::uint64_t> full_;          // which slots have events
    std::vector<Event> work_, packets_, far_;  // the open window's, with room for more; a heap of those beyond the slots
    std::size_t position_ = 0, end_ = 0;       // of `work_`: the next one, and how many there are
    std::vector<Chunk> chunks_;
    std::uint32_t spare_ = none;
    std::array<std::uint32_t, 1 << 9> ends_{};  // of the parts of a window

    static bool earlier(const Event& x, const Event& y) { return x.before(y); }
    static bool later(const Event& x, const Event& y) { return y.before(x); }
    static std::size_t place(Stage stage) { return stage < Stage::channel ? 0 : static_cast<std::size_t>(stage) - 2; }

    void insert(const Event& event) {
        if (end_ == work_.size()) work_.resize(2 * end_ + few);
        std::size_t at = end_++;
        for (; at > position_ && event.before(work_[at - 1]); --at) work_[at] = work_[at - 1];
        work_[at] = event;
    }

    void defer(const Event& event) {
        far_.push_back(event);
        std::push_heap(far_.begin(), far_.end(), later);
    }

    void append(std::uint32_t& head, const Event& event) {
        if (head == none || chunks_[head].count == Chunk::most) {
            std::uint32_t id = spare_;
            if (id == none) {
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

    // Empties a list into `into`, in order; how many. They are dealt to parts of the window, which leaves little to sort.
    std::size_t take(std::uint32_t& head, std::vector<Event>& into) {
        const std::uint32_t first = std::exchange(head, none);
        if (first == none) return 0;
        std::uint32_t count = 0, last = none;
        for (std::uint32_t id = first; id != none; last = id, id = chunks_[id].next) count += chunks_[id].count;
        if (into.size() < count) into.resize(2 * count);
        const int bits = std::min({shift_, static_cast<int>(std::bit_width(count)), 9}), drop = shift_ - bits;
        const std::uint32_t parts = 1u << bits;
        const auto part = [&](const Event& event) { return static_cast<std::uint32_t>(event.time >> drop) & (parts - 1); };
        std::fill_n(ends_.begin(), parts, 0u);
        each(first, [&](const Event& event) { ++ends_[part(event)]; });
        std::uint32_t most = 0;
        for (std::uint32_t i = 0, sum = 0; i < parts; ++i) {
            most = std::max(most, ends_[i]);
            ends_[i] = std::exchange(sum, sum + ends_[i]);
        }
        each(first, [&](const Event& event) { into[ends_[part(event)]++] = event; });
        for (std::uint32_t i = 0, begin = 0; most > few && i < parts; begin = ends_[i++])
            if (ends_[i] - begin > few) std::sort(&into[begin], &into[begin] + (ends_[i] - begin), earlier);
        sort(into.data(), into.data() + count);
        chunks_[last].next = spare_;
        spare_ = first;
        return count;
    }

    template <class Visit>
    void each(std::uint32_t first, Visit&& visit) const {
        for (std::uint32_t id = first; id != none; id = chunks_[id].next)
            for (std::uint32_t i = 0; i < chunks_[id].count; ++i) visit(chunks_[id].events[i]);
    }

    // By insertion: events are close to their places.
    static void sort(Event* begin, Event* end) {
        for (Event* at = begin + 1; at < end; ++at) {
            if (!at->before(*(at - 1))) continue;
            const Event event = *at;
            Event* to = at;
            do *to = *(to - 1);
            while (--to > begin && event.before(*(to - 1)));
            *to = event;
        }
    }

    // The first window after the open one that has a full slot.
    std::int64_t following() const {
        const auto from = static_cast<std::size_t>((open_ + 1) & (slots - 1));
        std::size_t word = from / 64;
        std::uint64_t bits = full_[word] & (~std::uint64_t{0} << (from % 64));
        for (std::size_t step = 0; step <= full_.size(); ++step) {
            if (bits) {
                const auto at = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
                return open_ + 1 + static_cast<std::int64_t>((at - from) & static_cast<std::size_t>(slots - 1));
            }
            word = (word + 1) % full_.size();
            bits = full_[word];
        }
        return nothing;
    }
};

}  // namespace astrarium::gpu
