#include "media/shares.hpp"

#include <algorithm>

namespace astrarium {
namespace {

std::int64_t share_of(std::int64_t spare, std::uint32_t users) {  // rounded down, also below zero
    const auto n = static_cast<std::int64_t>(users);
    return spare / n - (spare % n < 0);
}

}  // namespace

std::uint32_t Shares::add_link(std::int64_t capacity) {
    links_.emplace_back().capacity = capacity;
    return static_cast<std::uint32_t>(links_.size() - 1);
}

void Shares::set_capacity(std::uint32_t link, std::int64_t capacity) {
    links_[link].capacity = capacity, links_[link].due = now_;
    if (used(link)) touch(link);
}

// --- begins and ends

std::uint32_t Shares::leave(std::int64_t size, std::span<const std::uint32_t> way) {
    if (spare_.empty()) spare_.push_back(static_cast<std::uint32_t>(flows_.size())), flows_.emplace_back();
    const std::uint32_t flow = spare_.back();
    spare_.pop_back();
    Flow& f = flows_[flow];
    f.size = size, f.to_leave = f.to_cross = static_cast<Wide>(size) * unit;
    f.since = now_, f.ends = f.queued = never, f.serial = ++serial_, f.leaving = true, f.crosses = 0;
    f.way.clear();
    for (const std::uint32_t link : way) f.way.push_back({link, 0});
    f.leaves = left_over(links_[f.way[0].link]);
    links_[f.way[0].link].drawn += f.leaves;
    join(flow, f.way[0]);
    retime(flow);
    return flow;
}

void Shares::cross(std::uint32_t flow) {
    Flow& f = flows_[flow];
    progress(f);
    f.crossing = true, f.crosses = f.leaving ? f.leaves : std::numeric_limits<std::int64_t>::max();
    for (const Step& step : behind(f)) f.crosses = std::min(f.crosses, left_over(links_[step.link]));
    for (Step& step : behind(f)) links_[step.link].drawn += f.crosses, join(flow, step);
    retime(flow);
}

void Shares::end(std::uint32_t flow) {
    flows_[flow].serial = 0;
    spare_.push_back(flow);
}

void Shares::join(std::uint32_t flow, Step& step) {
    Link& link = links_[step.link];
    step.place = static_cast<std::uint32_t>(link.users.size());
    link.users.push_back(flow);
    if (step.place > 0) touch(step.link);
}

void Shares::part(const Step& step, std::int64_t rate) {
    Link& link = links_[step.link];
    link.drawn -= rate;
    const std::uint32_t last = link.users.back();
    link.users[step.place] = last;
    link.users.pop_back();
    for (Step& moved : flows_[last].way)
        if (moved.link == step.link) moved.place = step.place;
    if (link.users.empty()) link.touched = false;
    else touch(step.link);
}

void Shares::touch(std::uint32_t number) {
    Link& link = links_[number];
    if (std::exchange(link.touched, true) && link.due > now_) return;
    touched_.push_back({link.due, number});
    std::push_heap(touched_.begin(), touched_.end());
}

// Whether nobody else is at the links that it crosses.
bool Shares::alone(Flow& f) const {
    const auto steps = behind(f);
    return std::all_of(steps.begin(), steps.end(), [this](const Step& step) { return links_[step.link].users.size() == 1; });
}

// A message that crossed as fast as it left may cross faster from now on.
void Shares::stop_leaving(Flow& f, bool crossed) {
    const std::int64_t rate = std::exchange(f.leaves, 0);
    f.leaving = false;
    part(f.way[0], rate);
    if (!f.crossing || crossed || f.crosses != rate) return;
    if (!alone(f)) return touch(f.way[1].link);
    f.crosses = std::numeric_limits<std::int64_t>::max();
    for (const Step& step : behind(f)) f.crosses = std::min(f.crosses, links_[step.link].capacity);
    for (const Step& step : behind(f)) links_[step.link].drawn = f.crosses;
}

void Shares::stop_crossing(Flow& f) {
    f.crossing = false;
    for (const Step& step : behind(f)) part(step, f.crosses);
    f.crosses = 0;
    for (const Step& step : behind(f)) hand_on(step);
}

// Until links are shared again, others that cross there have what one leaves over: few are asked.
void Shares::hand_on(const Step& step) {
    const Link& link = links_[step.link];
    if (link.due <= now_) return;
    const std::size_t users = link.users.size();
    for (std::size_t k = 0; k < std::min(users, most_asked) && left_over(link) > 0; ++k)
        if (const std::uint32_t flow = link.users[(step.place + k) % users]; flows_[flow].way[0].link != step.link) speed_up(flow);
}

void Shares::speed_up(std::uint32_t flow) {
    Flow& f = flows_[flow];
    std::int64_t more = f.leaving ? f.leaves - f.crosses : std::numeric_limits<std::int64_t>::max();
    for (const Step& step : behind(f)) more = std::min(more, left_over(links_[step.link]));
    if (more == 0) return;
    progress(f);
    f.crosses += more;
    for (const Step& step : behind(f)) links_[step.link].drawn += more;
    retime(flow);
}

void Shares::progress(Flow& f) {
    const Tick time = now_ - f.since;
    if (time == 0) return;
    if (spent_) {
        if (f.leaves > 0) spent_(f.way[0].link, f.since, now_, f.leaves);
        if (f.crosses > 0)
            for (const Step& step : behind(f)) spent_(step.link, f.since, now_, f.crosses);
    }
    f.to_leave -= static_cast<Wide>(f.leaves) * time;
    f.to_cross -= static_cast<Wide>(f.crosses) * time;
    f.since = now_;
}

// When it has left or crossed, as things stand.
void Shares::retime(std::uint32_t flow) {
    Flow& f = flows_[flow];
    const auto takes = [](Wide left, std::int64_t rate) -> Wide {
        if (left <= 0) return 0;
        if (rate == 0) return never;
        if (left <= std::numeric_limits<std::int64_t>::max()) return (static_cast<std::int64_t>(left) - 1) / rate + 1;
        return (left - 1) / rate + 1;
    };
    Wide time = never;
    if (f.leaving) time = takes(f.to_leave, f.leaves);
    if (f.crossing && !(f.leaving && f.leaves == f.crosses && f.to_leave == f.to_cross))
        time = std::min(time, takes(f.to_cross, f.crosses));
    if (time < never && f.since + time >= never) throw Unsupported("time exceeds 2^63 ps (106 days)");
    const auto ends = static_cast<Tick>(std::min<Wide>(never, f.since + time));
    f.ends = ends;
    if (ends < f.queued) queue(flow);
}

void Shares::queue(std::uint32_t flow) {
    Flow& f = flows_[flow];
    f.queued = f.ends;
    ends_.push_back({f.ends, f.serial, flow});
    std::push_heap(ends_.begin(), ends_.end());
}

// The next one that ends as its entry says. One that ends later than it was to has its entry moved.
const Shares::End* Shares::first_end() {
    while (!ends_.empty()) {
        const End next = ends_.front();
        Flow& f = flows_[next.flow];
        const bool known = f.serial == next.serial && f.queued == next.time;
        if (known && f.ends == next.time) return &ends_.front();
        std::pop_heap(ends_.begin(), ends_.end());
        ends_.pop_back();
        if (!known) continue;
        f.queued = never;
        if (f.ends < never) queue(next.flow);
    }
    return nullptr;
}

// --- shares

Tick Shares::next_time() {
    settle();
    const End* const first = first_end();
    const Tick next = first ? first->time : never;
    return touched_.empty() ? next : std::min(next, touched_.front().due);
}

void Shares::settle() {
    while (!touched_.empty()) {
        const auto [due, number] = touched_.front();
        const bool known = links_[number].touched && links_[number].due == due;
        if (known && due > now_) return;
        std::pop_heap(touched_.begin(), touched_.end());
        touched_.pop_back();
        if (known) gather(number), share();
    }
}

// A link and all that messages connect with it.
void Shares::gather(std::uint32_t first) {
    ++round_;
    sharers_.clear(), sharing_.clear();
    reach(first);
    for (std::size_t k = 0; k < sharing_.size(); ++k) {
        const Link& link = links_[sharing_[k]];
        count(link.users.size());
        for (const std::uint32_t user : link.users) {
            Flow& f = flows_[user];
            if (f.round == round_) continue;
            f.round = round_, f.leave_fixed = f.cross_fixed = false, f.next_leaves = f.next_crosses = 0;
            sharers_.push_back(user);
            if (f.leaving) reach(f.way[0].link);
            if (f.crossing)
                for (const Step& step : behind(f)) reach(step.link);
        }
    }
}

void Shares::reach(std::uint32_t number) {
    Link& link = links_[number];
    if (link.round == round_) return;
    link.round = round_, link.touched = false, link.spare = link.capacity, link.left = static_cast<std::uint32_t>(link.users.size());
    sharing_.push_back(number);
}

// A link's share only grows while others are served, so an entry of the heap may lag, but never ahead.
void Shares::share() {
    for (const std::uint32_t link : sharing_)
        if (links_[link].capacity == 0) serve(link, 0);
    open_.clear();
    for (const std::uint32_t link : sharing_)
        if (links_[link].left > 0) open_.push_back({share_of(links_[link].spare, links_[link].left), link});
    std::make_heap(open_.begin(), open_.end());
    while (!open_.empty()) {
        const Open next = open_.front();
        std::pop_heap(open_.begin(), open_.end());
        open_.pop_back();
        const Link& link = links_[next.link];
        if (link.left == 0) continue;
        const std::int64_t now = share_of(link.spare, link.left);
        if (now == next.share) {
            serve(next.link, std::max<std::int64_t>(now, 1));
            continue;
        }
        open_.push_back({now, next.link});
        std::push_heap(open_.begin(), open_.end());
    }
    give();
}

// All of a link whose rate is open has this one.
void Shares::serve(std::uint32_t number, std::int64_t rate) {
    count(links_[number].users.size());
    for (const std::uint32_t id : links_[number].users) {
        Flow& f = flows_[id];
        if (!f.leaving || f.way[0].link != number) {
            fix_crossing(f, rate);
        } else if (!f.leave_fixed) {
            f.leave_fixed = true, f.next_leaves = rate;
            take(f.way[0], rate);
            fix_crossing(f, rate);
        }
    }
}

void Shares::fix_crossing(Flow& f, std::int64_t rate) {
    if (!f.crossing || f.cross_fixed) return;
    f.cross_fixed = true, f.next_crosses = rate;
    for (const Step& step : behind(f)) take(step, rate);
}

void Shares::take(const Step& step, std::int64_t rate) {
    Link& link = links_[step.link];
    link.spare -= rate, --link.left;
}

// What is shared out is drawn from now on. Few messages are shared again as soon as one begins or ends.
void Shares::give() {
    Wide rates = 0, sizes = 0;
    for (const std::uint32_t id : sharers_) {
        Flow& f = flows_[id];
        rates += f.crossing ? f.next_crosses : f.next_leaves, sizes += f.size;
        if (f.leaves == f.next_leaves && f.crosses == f.next_crosses) continue;
        progress(f);
        f.leaves = f.next_leaves, f.crosses = f.next_crosses;
        retime(id);
    }
    const Wide pause = rates == 0 || sharers_.size() <= few ? 0 : sizes * unit / (parts_of_a_message * rates);
    const auto due = static_cast<Tick>(std::min<Wide>(never, now_ + pause));
    for (const std::uint32_t link : sharing_) links_[link].due = due, links_[link].drawn = links_[link].capacity - links_[link].spare;
}

}  // namespace astrarium
