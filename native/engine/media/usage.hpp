// Busy time of the links and ports that leave NPUs, per dim, over time.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "plan/plan.hpp"
#include "plan/run.hpp"

namespace astrarium {

__extension__ typedef __int128 Wide;

// How many links are busy when, of what comes again and again.
struct UsePattern {
    struct Part {  // the steps of a dim
        std::size_t dim, first, end;
        Tick from, until;
        Wide busy;  // ps, of all links together
    };
    explicit UsePattern(std::vector<Step> by_dim_and_time);
    std::vector<Step> steps;
    std::vector<Part> parts;
};

// A fixed number of bins whose width doubles, pairs becoming one, when the run grows past the last. An interval adds to
// each bin exactly the ps that they share, so neither the order of adding nor when a width doubled changes a bin.
class Usage {
public:
    static constexpr std::size_t bins = 256;
    static constexpr int first_shift = 10;  // bins of 1,024 ps at first

    explicit Usage(std::size_t dims) : dims_(dims) {}
    // From now on `times` are parts per ps, of which `whole[dim]` are a busy link.
    void count_parts(std::vector<std::int64_t> whole) { whole_ = std::move(whole); }
    void keep_steps() { by_step_ = true; }  // of a run that others repeat: how many links are busy when, instead of bins

    // `times` links of a dim are busy for `busy` ps from `begin` on.
    void add(std::size_t dim, Tick begin, Tick busy, std::int64_t times = 1) {
        if (busy == 0) return;
        if (by_step_) return add_step(static_cast<std::int32_t>(dim), begin, astrarium::add(begin, busy), times);
        begin = astrarium::add(begin, skipped_);
        add_interval(dim, begin, astrarium::add(begin, busy), times);
        ++additions_;
        if (logs_) log({nullptr, begin, busy, times, dim});
    }
    // Of a run that leaves out periods which recur: from now on the last so many additions are kept; false if they are too many. How many
    // there were so far, and whether the last so many are known.
    bool keep_log(std::uint64_t last) {
        if (last > fewest_kept) return false;
        return logs_ = true;
    }
    std::uint64_t additions() const { return additions_; }
    bool knows(std::uint64_t last) const { return last <= log_.size(); }
    // These are added again `periods` times, each `time` later, and all that is added from now on comes so much later.
    void skip(std::uint64_t last, std::int64_t periods, Tick time);
    using Pattern = std::shared_ptr<const UsePattern>;
    void add(const Pattern& pattern, Tick shift) { add_logged({pattern, astrarium::add(shift, skipped_), 0, 1, 0}); }
    void repeat(const std::vector<Step>& steps, Tick shift, std::int64_t times);
    std::vector<Step> steps();  // by dim and time, one per instant at which a dim's number of busy links changes
    void report(Outcome& out);  // bins up to the last rank's finish at least

private:
    static constexpr std::size_t fewest_kept = 1 << 19;  // additions of the log, once it is full: 24 MB
    struct Bins {
        std::array<Wide, bins> part{};       // ps
        std::array<Wide, bins + 1> cover{};  // intervals that cover whole bins from here on: change of their number
    };
    struct Added {  // a pattern from `begin` on, or links of a dim
        Pattern pattern;
        Tick begin, busy;
        std::int64_t times;
        std::size_t dim;
    };
    void log(Added added);
    void add_logged(Added added);
    void add_pattern(const UsePattern& pattern, Tick shift);
    void add_interval(std::size_t dim, Tick begin, Tick end, std::int64_t times) {
        if (end > reach_) reach(end);
        const auto first = static_cast<std::size_t>(begin >> shift_), last = static_cast<std::size_t>((end - 1) >> shift_);
        if (first == last) bins_[dim].part[first] += static_cast<Wide>(end - begin) * times;
        else add_over_bins(bins_[dim], first, last, begin, end, times);
    }
    void add_over_bins(Bins& bins, std::size_t first, std::size_t last, Tick begin, Tick end, std::int64_t times) const;
    void add_step(std::int32_t dim, Tick begin, Tick end, std::int64_t times);
    void compact();
    void settle();
    void widen();
    void reach(Tick end);

    std::size_t dims_, compacted_ = 0;
    bool by_step_ = false, logs_ = false;
    Tick skipped_ = 0;
    std::vector<Added> log_;
    std::uint64_t additions_ = 0;
    int shift_ = first_shift;
    Tick reach_ = 0;  // the end of the last bin; 0: there are none yet
    std::vector<Bins> bins_;
    std::vector<Step> steps_;
    std::vector<std::int64_t> whole_;
};

}  // namespace astrarium
