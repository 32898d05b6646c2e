#include "media/activities.hpp"

#include <algorithm>

namespace astrarium {
namespace {

std::int64_t share_of(std::int64_t spare, std::uint32_t users) {  // rounded down, also below zero
    const auto n = static_cast<std::int64_t>(users);
    return spare / n - (spare % n < 0);
}

}  // namespace

std::uint32_t Activities::add_resource(std::int64_t capacity) {
    resources_.emplace_back().capacity = capacity;
    return static_cast<std::uint32_t>(resources_.size() - 1);
}

void Activities::set_capacity(std::uint32_t resource, std::int64_t capacity) {
    resources_[resource].capacity = capacity;
    touched_.push_back(resource);
}

void Activities::start(std::int64_t work, Resources resources, std::uint32_t what) {
    if (free_.empty()) {
        free_.push_back(static_cast<std::uint32_t>(activities_.size()));
        activities_.emplace_back();
    }
    const std::uint32_t id = free_.back();
    free_.pop_back();
    for (const std::uint32_t r : resources) resources_[r].users.push_back(id), touched_.push_back(r);
    Activity& a = activities_[id];
    a.left = static_cast<Wide>(work) * unit, a.since = now_, a.ends = never, a.rate = 0, a.serial = ++serial_, a.what = what;
    a.resources = std::move(resources);
}

void Activities::finish(std::uint32_t activity) {
    Activity& a = activities_[activity];
    for (const std::uint32_t r : a.resources) {
        auto& users = resources_[r].users;
        count(users.size());
        *std::find(users.begin(), users.end(), activity) = users.back();
        users.pop_back();
        touched_.push_back(r);
    }
    if (spent_) spent_(a.resources, a.since, now_, a.rate);
    a.serial = 0;
    free_.push_back(activity);
}

Tick Activities::next_time() {
    settle();
    while (!ends_.empty() && stale(ends_.top())) ends_.pop();
    return ends_.empty() ? never : ends_.top().time;
}

// Only what is connected, by resources in common, with what was touched can have another share now.
void Activities::settle() {
    if (touched_.empty()) return;
    gather();
    share();
    touched_.clear();
}

void Activities::gather() {
    ++round_;
    sharers_.clear(), sharing_.clear();
    std::vector<std::uint32_t>& reached = touched_;
    for (std::size_t k = 0; k < reached.size(); ++k) {
        Resource& r = resources_[reached[k]];
        if (r.round == round_) continue;
        r.round = round_, r.spare = r.capacity, r.left = 0;
        count(r.users.size());
        for (const std::uint32_t user : r.users) {
            Activity& a = activities_[user];
            if (a.round == round_) continue;
            a.round = round_;
            sharers_.push_back(user);
            reached.insert(reached.end(), a.resources.begin(), a.resources.end());
        }
    }
    std::sort(sharers_.begin(), sharers_.end(),
              [this](std::uint32_t x, std::uint32_t y) { return activities_[x].serial < activities_[y].serial; });
    for (const std::uint32_t id : sharers_) {
        count(activities_[id].resources.size());
        for (const std::uint32_t r : activities_[id].resources)
            if (resources_[r].left++ == 0) {
                resources_[r].order = static_cast<std::uint32_t>(sharing_.size());
                sharing_.push_back(r);
            }
    }
}

// What draws on a resource without capacity has no rate, whatever its others could give.
void Activities::stop(std::uint32_t served) {
    for (const std::uint32_t r : sharing_) {
        if (resources_[r].capacity > 0) continue;
        for (const std::uint32_t id : resources_[r].users) {
            Activity& a = activities_[id];
            if (a.round == served) continue;
            a.round = served;
            give(id, 0);
            for (const std::uint32_t drawn : a.resources) --resources_[drawn].left;
        }
    }
}

// A resource's share only grows while others are served, so an entry of the heap may lag, but never ahead.
void Activities::share() {
    using Entry = std::pair<std::int64_t, std::uint32_t>;  // share, order of first use
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> tightest;
    const std::uint32_t served = ++round_;  // activities whose rate is settled
    stop(served);
    for (const std::uint32_t r : sharing_)
        if (resources_[r].left > 0) tightest.emplace(share_of(resources_[r].spare, resources_[r].left), resources_[r].order);
    while (!tightest.empty()) {
        const auto [lagging, order] = tightest.top();
        tightest.pop();
        Resource& r = resources_[sharing_[order]];
        if (r.left == 0) continue;
        const std::int64_t now = share_of(r.spare, r.left);
        if (now != lagging) {
            tightest.emplace(now, order);
            continue;
        }
        const std::int64_t rate = std::max<std::int64_t>(now, 1);
        count(r.users.size());
        for (const std::uint32_t id : r.users) {
            Activity& a = activities_[id];
            if (a.round == served) continue;
            a.round = served;
            give(id, rate);
            for (const std::uint32_t drawn : a.resources) resources_[drawn].spare -= rate, --resources_[drawn].left;
        }
    }
}

void Activities::give(std::uint32_t activity, std::int64_t rate) {
    Activity& a = activities_[activity];
    if (a.rate == rate) return;
    if (spent_ && a.rate > 0) spent_(a.resources, a.since, now_, a.rate);
    a.left -= static_cast<Wide>(a.rate) * (now_ - a.since);
    a.since = now_;
    a.rate = rate, a.ends = never;
    if (rate == 0) return;
    const Wide end = static_cast<Wide>(now_) + (a.left > 0 ? (a.left + rate - 1) / rate : 0);
    if (end >= never) throw Unsupported("time exceeds 2^63 ps (106 days)");
    a.ends = static_cast<Tick>(end);
    ends_.push({a.ends, a.serial, activity});
}

}  // namespace astrarium
