// When ports are in use: a few spans of time, disjoint and ascending.
#pragma once
#include <algorithm>
#include <vector>

#include "plan.hpp"

namespace astrarium {

struct Span {
    Tick from, until;
};

// Spans of one collective at one NPU's ports in or out of a dim; of more than a few, those closest to each other count as one.
class Spans {
public:
    void add(Tick from, Tick until) {
        auto at = spans_.end();
        while (at != spans_.begin() && (at - 1)->from > from) --at;
        at = spans_.insert(at, {from, until});
        if (at != spans_.begin() && (at - 1)->until >= at->from) --at;
        while (at + 1 != spans_.end() && (at + 1)->from <= at->until) {
            at->until = std::max(at->until, (at + 1)->until);
            spans_.erase(at + 1);
        }
        if (spans_.size() > most) merge_closest();
    }
    void join(const Spans& other, Tick base) {
        for (const Span& span : other.spans_) add(astrarium::add(base, span.from), astrarium::add(base, span.until));
    }
    auto begin() const { return spans_.begin(); }
    auto end() const { return spans_.end(); }

private:
    static constexpr std::size_t most = 4;
    void merge_closest() {
        auto best = spans_.begin();
        for (auto it = spans_.begin(); it + 1 != spans_.end(); ++it)
            if ((it + 1)->from - it->until < (best + 1)->from - best->until) best = it;
        best->until = (best + 1)->until;
        spans_.erase(best + 1);
    }
    std::vector<Span> spans_;
};

struct PortUse {  // in one dim
    Spans out, in;
};

inline void join(PortUse& sum, const PortUse& use, Tick base) { sum.out.join(use.out, base), sum.in.join(use.in, base); }

// What an NPU's ports in or out of a dim have been used for; touching spans count as one.
class PortLog {
public:
    // False where a span meets one that was there.
    bool occupy(Tick from, Tick until) {
        if (spans_.empty() || spans_.back().until < from) return spans_.push_back({from, until}), true;
        if (spans_.back().until == from) return spans_.back().until = until, true;
        const auto next = std::upper_bound(spans_.begin(), spans_.end(), from, [](Tick t, const Span& span) { return t < span.until; });
        if (next != spans_.end() && next->from < until) return false;
        spans_.insert(next, {from, until});
        return true;
    }
    std::size_t size() const { return spans_.size(); }
    // Nothing will be asked about before `time`.
    void forget(Tick time) {
        const auto kept = std::find_if(spans_.begin(), spans_.end(), [time](const Span& span) { return span.until > time; });
        spans_.erase(spans_.begin(), kept == spans_.end() && !spans_.empty() ? kept - 1 : kept);
    }

private:
    std::vector<Span> spans_;
};

}  // namespace astrarium
