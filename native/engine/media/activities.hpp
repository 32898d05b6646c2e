// Activities: progress at a rate, re-timed whenever a share changes. The same integers as astrarium.engine.activities.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include "clock/interrupt.hpp"
#include "plan/plan.hpp"

namespace astrarium {

// Work in parts of its unit, `unit` of them; times in ps; rates max-min fair, found by progressive filling: the tightest
// resource first, of equal ones the first that the oldest activity draws on. Shares are rounded down.
class Activities {
public:
    static constexpr std::int64_t unit = std::int64_t{2520} << 30;
    using Resources = std::vector<std::uint32_t>;
    // What an activity did at one rate: its resources, from, to, parts per ps.
    using Spent = std::function<void(const Resources&, Tick, Tick, std::int64_t)>;

    explicit Activities(Spent spent = nullptr) : spent_(std::move(spent)) {}
    Tick now() const { return now_; }
    std::uint32_t add_resource(std::int64_t capacity);                 // parts per ps
    void set_capacity(std::uint32_t resource, std::int64_t capacity);  // 0: what draws on it stands still
    bool drawn(std::uint32_t resource) const { return !resources_[resource].users.empty(); }
    bool idle() const { return free_.size() == activities_.size(); }
    // Begins now; `what` comes back from `advance` when the work is done. The resources are distinct, at least one.
    void start(std::int64_t work, Resources resources, std::uint32_t what);
    Tick next_time();  // of the next end, or `never`
    // Goes on to `to`, at most `next_time()`; calls ended(what, resources) for all that end there, in order of start.
    template <class Ended>
    void advance(Tick to, Ended&& ended) {
        settle();
        now_ = to;
        for (; !ends_.empty() && (stale(ends_.top()) || ends_.top().time <= to); ends_.pop())
            if (!stale(ends_.top())) {
                finish(ends_.top().activity);
                ended(activities_[ends_.top().activity].what, activities_[ends_.top().activity].resources);
            }
    }

private:
    __extension__ typedef __int128 Wide;
    struct Activity {
        Wide left = 0;  // at `since`
        Tick since = 0, ends = never;
        std::int64_t rate = 0;
        std::uint64_t serial = 0;  // 0: not running
        std::uint32_t what = 0, round = 0;
        Resources resources;
    };
    struct Resource {
        std::int64_t capacity = 0;
        std::vector<std::uint32_t> users;
        // of one sharing
        std::int64_t spare = 0;
        std::uint32_t left = 0, order = 0, round = 0;
    };
    struct End {
        Tick time;
        std::uint64_t serial;
        std::uint32_t activity;
        bool operator<(const End& b) const { return time != b.time ? time > b.time : serial > b.serial; }
    };

    bool stale(const End& end) const {
        const Activity& a = activities_[end.activity];
        return a.serial != end.serial || a.ends != end.time;
    }
    void finish(std::uint32_t activity);
    // One sharing may be of millions of activities.
    void count(std::size_t steps) {
        if ((steps_ += steps) < steps_before_asking) return;
        steps_ = 0;
        stop_if_interrupted();
    }
    void settle();
    void gather();
    void stop(std::uint32_t served);
    void share();
    void give(std::uint32_t activity, std::int64_t rate);

    static constexpr std::size_t steps_before_asking = std::size_t{1} << 20;
    Spent spent_;
    Tick now_ = 0;
    std::size_t steps_ = 0;
    std::uint64_t serial_ = 0;
    std::uint32_t round_ = 0;
    std::vector<Activity> activities_;
    std::vector<std::uint32_t> free_;
    std::vector<Resource> resources_;
    std::vector<std::uint32_t> touched_;            // resources whose users changed since the last sharing
    std::vector<std::uint32_t> sharing_, sharers_;  // of one sharing: resources in order of first use, activities of all
    std::priority_queue<End> ends_;
};

}  // namespace astrarium
