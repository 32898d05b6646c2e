// Records which links (or ports) timed collectives hold and when messages use each, so that a timed collective that meets other traffic is
// found (run/accelerator). A run of one collective by itself learns from it when its messages use each link.
#pragma once
#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

class LinkHolds {
public:
    void reset(std::size_t links) { links_.assign(links, {}), touched_.clear(), met_.clear(), found_.clear(), holders_ = 0; }
    // One more collective that holds links: its number. `met`: it is known to meet others.
    std::uint32_t add_holder(bool met = false) {
        met_.resize(holders_);
        met_.push_back(0);
        if (met) meet(holders_);
        return holders_++;
    }
    std::uint32_t holders() const { return holders_; }

    // A message asks for a link now, and has it until `free`: one that is held by then meets its holder.
    void ask(std::size_t link, Tick now, Tick free) {
        Link& l = touch(link);
        if (l.held_until > now) meet(l.holder);
        l.used_from = std::min(l.used_from, now);
        l.used_until = std::max({l.used_until, now + 1, free});
    }
    // Whether nothing uses a link from `first` on. A collective that holds it then meets who asks.
    bool is_free(std::size_t link, Tick first) {
        const Link& l = links_[link];
        if (l.held_until > first) meet(l.holder);
        return std::max(l.used_until, l.held_until) <= first;
    }
    void hold(std::size_t link, Tick until, std::uint32_t holder) {
        Link& l = touch(link);
        if (until > l.held_until) l.held_until = until, l.holder = holder;
    }
    // A holder meets others.
    void meet(std::uint32_t holder) {
        if (!met_[holder]) met_[holder] = 1, found_.push_back(holder);
    }
    bool met(std::uint32_t holder) const { return met_[holder] != 0; }
    const std::vector<std::uint32_t>& found() const { return found_; }  // all that did
    void forget_found() { found_.clear(); }

    // visit(link, held until, used until, the holder that holds it longest) of all that were ever held or used, in one order.
    template <class Visit>
    void each(Visit&& visit) const {
        for (const std::size_t link : touched_) visit(link, links_[link].held_until, links_[link].used_until, links_[link].holder);
    }
    // When messages first asked for a link, and when the last is through.
    Tick used_from(std::size_t link) const { return links_[link].used_from; }
    Tick used_until(std::size_t link) const { return links_[link].used_until; }
    // What a run changes, to keep and to put back: later holders are forgotten.
    auto state() { return std::tie(links_, touched_, holders_); }

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
    std::vector<std::uint8_t> met_;  // by holder
    std::vector<std::uint32_t> found_;
    std::uint32_t holders_ = 0;
};

}  // namespace astrarium
