// Which ports have something to do in which window: a map of bits per window of a ring, and a table of windows beyond it.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium::packets {

class Windows {
public:
    static constexpr std::int64_t nothing = -1;

    // `horizon`: how far ahead most marks lie, ps.
    Windows(std::size_t ports, Tick width, Tick horizon) : width_(width), words_((ports + 63) / 64) {
        const std::size_t most = std::max<std::size_t>(4, (std::size_t{1} << 26) / (8 * std::max<std::size_t>(1, words_)));
        const auto wanted = static_cast<std::size_t>(std::min<Tick>(horizon / width + 2, 4096));
        slots_ = std::bit_ceil(std::clamp<std::size_t>(wanted, 4, std::bit_floor(most)));
        bits_.assign(slots_ * words_, 0), any_.assign(slots_, 0);
    }

    std::int64_t of(Tick time) const {
        Tick from = begin_;  // most times lie in one of the next windows: no division
        for (int k = 0; k < 4; ++k, from += width_)
            if (time - from < width_ && time >= from) return base_ + k;
        return time / width_;
    }
    Tick end(std::int64_t window) const { return add(times(window, width_), width_); }

    // Several threads may mark ports at once, those of one `word` (64 ports) only one of them.
    void mark(Tick time, std::uint32_t port) {
        const std::int64_t window = of(time);
        if (window - base_ >= static_cast<std::int64_t>(slots_)) {
            const std::lock_guard<std::mutex> lock(marking_);
            return far_[window].push_back(port);
        }
        const std::size_t slot = static_cast<std::size_t>(window) & (slots_ - 1);
        std::atomic_ref<std::uint8_t>(any_[slot]).store(1, std::memory_order_relaxed);
        bits_[slot * words_ + port / 64] |= std::uint64_t{1} << (port & 63);
    }

    // The first window that has a mark, or `nothing`.
    std::int64_t first() const {
        for (std::size_t k = 0; k < slots_; ++k)
            if (any_[(static_cast<std::size_t>(base_) + k) & (slots_ - 1)]) return base_ + static_cast<std::int64_t>(k);
        return far_.empty() ? nothing : far_.begin()->first;
    }

    // The marked ports of a window, the first of those that are left, by number. Later marks only lie in later windows, or in this one where
    // a `part` of it is run.
    const std::vector<std::uint32_t>& take(std::int64_t window, bool part = false) {
        go_to(window);
        for (; !far_.empty() && far_.begin()->first - base_ < static_cast<std::int64_t>(slots_); far_.erase(far_.begin()))
            for (const std::uint32_t port : far_.begin()->second) mark(times(far_.begin()->first, width_), port);
        const std::size_t slot = static_cast<std::size_t>(window) & (slots_ - 1);
        taken_.clear();
        for (std::size_t w = 0; w < words_; ++w)
            for (std::uint64_t left = std::exchange(bits_[slot * words_ + w], 0); left; left &= left - 1)
                taken_.push_back(static_cast<std::uint32_t>(w * 64) + static_cast<std::uint32_t>(std::countr_zero(left)));
        any_[slot] = 0;
        if (!part) go_to(window + 1);
        return taken_;
    }

private:
    void go_to(std::int64_t window) { base_ = window, begin_ = times(window, width_); }

    const Tick width_;
    std::size_t words_, slots_ = 4;
    std::int64_t base_ = 0;  // the first window that may have marks
    Tick begin_ = 0;         // of that window
    std::vector<std::uint64_t> bits_;
    std::vector<std::uint8_t> any_;
    std::vector<std::uint32_t> taken_;
    std::map<std::int64_t, std::vector<std::uint32_t>> far_;
    std::mutex marking_;
};

}  // namespace astrarium::packets
