#include "media/usage.hpp"

#include <algorithm>
#include <limits>

namespace astrarium {
namespace {

void sort_steps(std::vector<Step>& steps) {  // those of one dim and time become one
    std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.dim != b.dim ? a.dim < b.dim : a.time < b.time; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < steps.size();) {
        Step sum = steps[i];
        for (++i; i < steps.size() && steps[i].dim == sum.dim && steps[i].time == sum.time; ++i) sum.change += steps[i].change;
        if (sum.change != 0) steps[kept++] = sum;
    }
    steps.resize(kept);
}

}  // namespace

UsePattern::UsePattern(std::vector<Step> by_dim_and_time) : steps(std::move(by_dim_and_time)) {
    for (std::size_t i = 0; i < steps.size();) {
        Part part{static_cast<std::size_t>(steps[i].dim), i, i, steps[i].time, 0, 0};
        std::int64_t links = 0;
        for (; i < steps.size() && steps[i].dim == steps[part.first].dim; ++i) {
            if (i > part.first) part.busy += static_cast<Wide>(steps[i].time - steps[i - 1].time) * links;
            links += steps[i].change, part.until = steps[i].time;
        }
        part.end = i;
        parts.push_back(part);
    }
}

void Usage::log(Added added) {
    if (log_.size() == 2 * fewest_kept) log_.erase(log_.begin(), log_.begin() + fewest_kept);
    log_.push_back(std::move(added));
}

void Usage::add_logged(Added added) {
    if (added.pattern) add_pattern(*added.pattern, added.begin);
    else add_interval(added.dim, added.begin, astrarium::add(added.begin, added.busy), added.times);
    ++additions_;
    if (logs_) log(std::move(added));
}

// Most lie within one bin.
void Usage::add_pattern(const UsePattern& pattern, Tick shift) {
    for (const UsePattern::Part& part : pattern.parts) {
        const Tick begin = astrarium::add(shift, part.from), end = astrarium::add(shift, part.until);
        reach(end);
        if (begin >> shift_ == (end - 1) >> shift_) {
            bins_[part.dim].part[static_cast<std::size_t>(begin >> shift_)] += part.busy;
            continue;
        }
        std::int64_t links = 0;
        for (std::size_t i = part.first; i + 1 < part.end; ++i) {
            links += pattern.steps[i].change;
            if (links != 0)
                add_interval(part.dim, astrarium::add(shift, pattern.steps[i].time), astrarium::add(shift, pattern.steps[i + 1].time),
                             links);
        }
    }
}

// Single links become one pattern.
void Usage::skip(std::uint64_t last, std::int64_t periods, Tick time) {
    std::vector<Step> steps;
    std::vector<Added> period;
    for (std::size_t i = log_.size() - last; i < log_.size(); ++i) {
        const Added& it = log_[i];
        if (it.pattern) period.push_back(it);
        else
            for (const auto& [at, change] : {std::pair{it.begin, it.times}, {astrarium::add(it.begin, it.busy), -it.times}})
                steps.push_back({static_cast<std::int32_t>(it.dim), at, change});
    }
    sort_steps(steps);
    if (!steps.empty()) period.push_back({std::make_shared<const UsePattern>(std::move(steps)), 0, 0, 1, 0});
    for (std::int64_t k = 1; k <= periods; ++k)
        for (Added each : period) {
            each.begin = astrarium::add(each.begin, times(k, time));
            add_logged(std::move(each));
        }
    skipped_ = astrarium::add(skipped_, times(periods, time));
}

void Usage::add_over_bins(Bins& b, std::size_t first, std::size_t last, Tick begin, Tick end, std::int64_t times) const {
    b.part[first] += static_cast<Wide>((static_cast<Tick>(first + 1) << shift_) - begin) * times;
    b.part[last] += static_cast<Wide>(end - (static_cast<Tick>(last) << shift_)) * times;
    b.cover[first + 1] += times;
    b.cover[last] -= times;
}

void Usage::reach(Tick end) {
    while (end > 0 && static_cast<std::uint64_t>(end - 1) >> shift_ >= bins) widen();
    bins_.resize(dims_);
    reach_ = shift_ < 55 ? static_cast<Tick>(bins) << shift_ : std::numeric_limits<Tick>::max();
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
    sort_steps(steps_);
    compacted_ = steps_.size();
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
    reach(out.finish.empty() ? 0 : *std::max_element(out.finish.begin(), out.finish.end()));
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
