#include "media/usage.hpp"

#include <algorithm>
#include <limits>

namespace astrarium {

void Usage::add_interval(std::size_t dim, Tick begin, Tick end, std::int64_t times) {
    if (bins_.empty()) bins_.resize(dims_);
    reach(end);
    Bins& b = bins_[dim];
    const auto first = static_cast<std::size_t>(begin >> shift_), last = static_cast<std::size_t>((end - 1) >> shift_);
    if (first == last) {
        b.part[first] += static_cast<Wide>(end - begin) * times;
        return;
    }
    b.part[first] += static_cast<Wide>((static_cast<Tick>(first + 1) << shift_) - begin) * times;
    b.part[last] += static_cast<Wide>(end - (static_cast<Tick>(last) << shift_)) * times;
    b.cover[first + 1] += times;
    b.cover[last] -= times;
}

void Usage::reach(Tick end) {
    while (end > 0 && static_cast<std::uint64_t>(end - 1) >> shift_ >= bins) widen();
}

void Usage::settle() {
    for (Bins& b : bins_) {
        Wide covering = 0;
        for (std::size_t i = 0; i < bins; ++i) {
            covering += b.cover[i];
            b.part[i] += covering << shift_;
            b.cover[i] = 0;
        }
        b.cover[bins] = 0;
    }
}

void Usage::widen() {
    settle();
    for (Bins& b : bins_)
        for (std::size_t i = 0; i < bins; ++i) b.part[i] = i < bins / 2 ? b.part[2 * i] + b.part[2 * i + 1] : 0;
    ++shift_;
}

void Usage::add_step(std::int32_t dim, Tick begin, Tick end, std::int64_t times) {
    steps_.push_back({dim, begin, times});
    steps_.push_back({dim, end, -times});
    if (steps_.size() > 2 * compacted_ + 4096) compact();
}

void Usage::compact() {
    std::sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) { return a.dim != b.dim ? a.dim < b.dim : a.time < b.time; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < steps_.size();) {
        Step sum = steps_[i];
        for (++i; i < steps_.size() && steps_[i].dim == sum.dim && steps_[i].time == sum.time; ++i) sum.change += steps_[i].change;
        if (sum.change != 0) steps_[kept++] = sum;
    }
    steps_.resize(kept);
    compacted_ = kept;
}

std::vector<Step> Usage::steps() {
    compact();
    return std::move(steps_);
}

void Usage::repeat(const std::vector<Step>& steps, Tick shift, std::int64_t times) {
    std::int64_t links = 0;
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
        links += steps[i].change;  // back to 0 at the end of every dim
        if (links == 0) continue;
        add_interval(static_cast<std::size_t>(steps[i].dim), astrarium::add(shift, steps[i].time), astrarium::add(shift, steps[i + 1].time),
                     links * times);
    }
}

void Usage::report(Outcome& out) {
    if (bins_.empty()) bins_.resize(dims_);
    for (const Tick end : out.finish) reach(end);
    settle();
    out.use_width = std::int64_t{1} << shift_;
    for (std::size_t d = 0; d < bins_.size(); ++d)
        for (const Wide parts : bins_[d].part) {
            const Wide busy = whole_.empty() ? parts : parts / whole_[d];
            if (busy > std::numeric_limits<std::int64_t>::max())
                throw Unsupported("the busy times of a dim's links in 1/128 of the run add up to more than 2^63 ps");
            out.use_busy.push_back(static_cast<std::int64_t>(busy));
        }
}

}  // namespace astrarium
