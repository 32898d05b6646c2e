// Which links (or ports) are held for collectives that are timed by themselves (run/undisturbed), and from when until when messages use each.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

class LinkHolds {
public:
    void reset(std::size_t links) { links_.assign(links, {}), touched_.clear(), met_.clear(); }
    // One more collective that holds links: its number. `met`: it is known to meet others.
    std::uint32_t add_holder(bool met = false) {
        met_.push_back(met);
        return static_cast<std::uint32_t>(met_.size() - 1);
    }

    // A message asks for a link now, and has it until `free`: one that is held by then meets its holder.
    void asks(std::size_t link, Tick now, Tick free) {
        Link& l = touch(link);
        if (l.held_until > now) met_[l.holder] = 1;
        l.used_from = std::min(l.used_from, now);
        l.used_until = std::max({l.used_until, now + 1, free});
    }
    // A collective holds a link from `first` on. Whatever else uses the link then or later is met: messages, or another holder, which meets
    // it in turn.
    void hold(std::size_t link, Tick first, Tick until, std::uint32_t holder) {
        Link& l = touch(link);
        if (l.used_until > first) met_[holder] = 1;
        if (l.held_until > first) met_[holder] = met_[l.holder] = 1;
        if (until > l.held_until) l.held_until = until, l.holder = holder;
    }
    void meets(std::uint32_t holder) { met_[holder] = 1; }
    const std::vector<std::uint8_t>& met() const { return met_; }  // by holder: it meets others

    // visit(link, held until, used until) of all that were ever held or used, in one order.
    template <class Visit>
    void each(Visit&& visit) const {
        for (const std::size_t link : touched_) visit(link, links_[link].held_until, links_[link].used_until);
    }
    // When messages first asked for a link, and when the last is through.
    Tick used_from(std::size_t link) const { return links_[link].used_from; }
    Tick used_until(std::size_t link) const { return links_[link].used_until; }

private:
    struct Link {
        Tick held_until = 0, used_from = never, used_until = 0;
        std::uint32_t holder = 0;  // the one that holds it longest
    };
    Link& touch(std::size_t link) {
        Link& l = links_[link];
        if (l.held_until == 0 && l.used_until == 0) touched_.push_back(link);
        return l;
    }

    std::vector<Link> links_;
    std::vector<std::size_t> touched_;
    std::vector<std::uint8_t> met_;
};

}  // namespace astrarium
