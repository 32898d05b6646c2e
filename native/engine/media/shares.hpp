// Messages that share links (fluid): each leaves over its first link and crosses the links behind it, at max-min fair rates. The same
// integers as astrarium.oracle.shares.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "clock/interrupt.hpp"
#include "plan/plan.hpp"

namespace astrarium {

// Bytes in parts, `unit` of them; times in ps. A message has two rates, both rounded down: at most one message leaves over a link, and it
// crosses no faster than it leaves. Shares are found by progressive filling: the tightest link first, of equal ones the oldest. Links that
// messages connect are shared anew when a message begins or ends there: at once where few messages do, else after a part of the time of the
// mean message. Until then what begins has what is left over (design/0001).
class Shares {
public:
    static constexpr std::int64_t unit = std::int64_t{2520} << 30;
    // What a message did on a link at one rate: from, to, parts per ps.
    using Spent = std::function<void(std::uint32_t link, Tick, Tick, std::int64_t)>;
    struct Step {  // of a message's way
        std::uint32_t link;
        std::uint32_t place;  // among the link's users
    };
    using Way = std::vector<Step>;

    explicit Shares(Spent spent) : spent_(std::move(spent)) {}
    Tick now() const { return now_; }
    bool idle() const { return spare_.size() == flows_.size(); }
    std::uint32_t add_link(std::int64_t capacity);                 // parts per ps
    void set_capacity(std::uint32_t link, std::int64_t capacity);  // 0: its messages stand still
    bool used(std::uint32_t link) const { return !links_[link].users.empty(); }

    // A message begins to leave now. Its number comes back from `advance`.
    std::uint32_t leave(std::int64_t size, std::span<const std::uint32_t> way);
    void cross(std::uint32_t flow);  // it begins to cross the links behind the first
    const Way& way(std::uint32_t flow) const { return flows_[flow].way; }
    void end(std::uint32_t flow);  // it has left and crossed: its number is free

    Tick next_time();  // when `advance` is due
    // Goes on to `to`, at most `next_time()`: calls left(flow) and crossed(flow) for all that does then, in the order in which they began.
    template <class Left, class Crossed>
    void advance(Tick to, Left&& left, Crossed&& crossed) {
        settle();
        now_ = to;
        for (const End* first; (first = first_end()) != nullptr && first->time <= to;) {
            const End next = *first;
            Flow& f = flows_[next.flow];
            progress(f);
            const bool leaves = f.leaving && f.to_leave <= 0, crosses = f.crossing && f.to_cross <= 0;
            if (leaves) stop_leaving(f, crosses);
            if (crosses) stop_crossing(f);
            retime(next.flow);
            if (leaves) left(next.flow);
            if (crosses) crossed(next.flow);
        }
    }

private:
    __extension__ typedef __int128 Wide;
    struct Flow {
        Wide to_leave = 0, to_cross = 0;               // at `since`
        Tick since = 0, ends = never, queued = never;  // ends: when it has left or crossed; queued: its entry, not after that
        std::int64_t size = 0;
        std::int64_t leaves = 0, crosses = 0;  // rates
        std::uint64_t serial = 0;              // 0: not under way
        bool leaving = false, crossing = false;
        bool leave_fixed = false, cross_fixed = false;  // of one sharing, with:
        std::int64_t next_leaves = 0, next_crosses = 0;
        std::uint32_t round = 0;
        Way way;
    };
    struct Link {
        std::int64_t capacity = 0, drawn = 0;
        Tick due = 0;  // not shared again before
        std::vector<std::uint32_t> users;
        bool touched = false;
        std::uint32_t round = 0, left = 0;  // of one sharing: users whose rate is open
        std::int64_t spare = 0;
    };
    struct End {
        Tick time;
        std::uint64_t serial;
        std::uint32_t flow;
        bool operator<(const End& b) const { return time != b.time ? time > b.time : serial > b.serial; }
    };
    struct Due {
        Tick due;
        std::uint32_t link;
        bool operator<(const Due& b) const { return due > b.due; }
    };
    struct Open {  // a link of one sharing, by its share
        std::int64_t share;
        std::uint32_t link;
        bool operator<(const Open& b) const { return share != b.share ? share > b.share : link > b.link; }
    };

    std::span<Step> behind(Flow& f) const { return std::span(f.way).subspan(1); }
    void join(std::uint32_t flow, Step& step);
    void part(const Step& step, std::int64_t rate);
    void touch(std::uint32_t link);
    // Less than a thousandth is nothing.
    std::int64_t left_over(const Link& link) const {
        const std::int64_t rate = link.capacity - link.drawn;
        return rate < link.capacity >> 10 ? 0 : rate;
    }
    bool alone(Flow& f) const;
    void stop_leaving(Flow& f, bool crossed);
    void stop_crossing(Flow& f);
    void hand_on(const Step& step);
    void speed_up(std::uint32_t flow);
    void progress(Flow& f);
    void retime(std::uint32_t flow);
    void queue(std::uint32_t flow);
    const End* first_end();
    // One sharing may be of millions of messages.
    void count(std::size_t steps) {
        if ((steps_ += steps) < steps_before_asking) return;
        steps_ = 0;
        stop_if_interrupted();
    }
    void settle();
    void gather(std::uint32_t link);
    void reach(std::uint32_t link);
    void share();
    void serve(std::uint32_t link, std::int64_t rate);
    void fix_crossing(Flow& f, std::int64_t rate);
    void take(const Step& step, std::int64_t rate);
    void give();

    static constexpr std::size_t steps_before_asking = std::size_t{1} << 20;
    static constexpr std::size_t few = 32, most_asked = 4;
    static constexpr std::int64_t parts_of_a_message = 16;
    const Spent spent_;
    Tick now_ = 0;
    std::size_t steps_ = 0;
    std::uint64_t serial_ = 0;
    std::uint32_t round_ = 0;
    std::vector<Flow> flows_;
    std::vector<std::uint32_t> spare_;
    std::vector<Link> links_;
    std::vector<Due> touched_;                      // a heap of links whose users changed since they were shared
    std::vector<std::uint32_t> sharing_, sharers_;  // of one sharing: links, messages
    std::vector<Open> open_;
    std::vector<End> ends_;  // a heap
};

}  // namespace astrarium
