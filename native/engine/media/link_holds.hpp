// Which links are held for collectives that are timed by themselves (run/undisturbed), and until when messages use each link.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

class LinkHolds {
public:
    void reset(std::size_t links, std::size_t groups) { links_.assign(links, {}), met_.assign(groups, 0); }

    // A message asks for a link now, and has it until `free`: one that is held by then meets its holder.
    void asks(std::size_t link, Tick now, Tick free) {
        Link& l = links_[link];
        if (l.held_until > now) met_[l.holder] = 1;
        l.used_until = std::max({l.used_until, now + 1, free});
    }
    // A group's collective holds a link from `first` on. Whatever else uses the link then or later is met.
    void hold(std::size_t link, Tick first, Tick until, std::uint32_t group) {
        Link& l = links_[link];
        if (l.used_until > first) met_[group] = 1;
        if (l.held_until > first) met_[group] = met_[l.holder] = 1;
        if (until > l.held_until) l.held_until = until, l.holder = group;
    }
    void meets(std::uint32_t group) { met_[group] = 1; }
    const std::vector<std::uint8_t>& met() const { return met_; }  // by group

private:
    struct Link {
        Tick held_until = 0, used_until = 0;
        std::uint32_t holder = 0;  // the one that holds it longest
    };
    std::vector<Link> links_;
    std::vector<std::uint8_t> met_;
};

}  // namespace astrarium
