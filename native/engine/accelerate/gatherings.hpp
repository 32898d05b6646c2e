// Collectives that will be timed: who has come to each so far, and when.
#pragma once
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "accelerate/alone.hpp"
#include "run/collectives.hpp"

namespace astrarium {

struct Gathering {
    std::uint32_t arrived = 0, collective = 0;
    std::uint64_t batch = 0;          // of the clock, in which the first came
    std::vector<Coming> at;           // by position in the group
    std::vector<std::uint32_t> node;  // of those that have come; others nothing
};

class Gatherings {
public:
    // The one that a member comes to, begun where it is the first.
    Gathering& of(const Accelerator::Member& member, std::uint32_t size, const BatchClock& clock) {
        const auto [it, fresh] = open_.try_emplace({member.group, member.serial});
        if (fresh) it->second = {0, member.collective, clock.handled, std::vector<Coming>(size), std::vector<std::uint32_t>(size, nothing)};
        return it->second;
    }
    // Of a member that has come: the gathering, taken out, once it is the last.
    bool take(const Accelerator::Member& member, Coming coming, Gathering& gathering, Gathering& whole) {
        gathering.at[member.position] = coming, gathering.node[member.position] = member.node;
        if (++gathering.arrived < gathering.at.size()) return false;
        whole = std::move(gathering);
        open_.erase({member.group, member.serial});
        return true;
    }
    void clear() { open_.clear(); }

    // For the period skipper.
    Tick horizon(Tick now) const {
        for (const auto& [key, g] : open_)
            for (std::size_t p = 0; p < g.node.size(); ++p)
                if (g.node[p] != nothing) now = std::min(now, g.at[p].at);
        return now;
    }
    void write(StateWords& to, const Collectives& collectives) const {
        to.count(open_.size());
        for (const auto& [key, g] : open_) {
            to.word(key.first), to.word(std::int64_t{key.second} - collectives.issued(key.first)), to.word(g.collective);
            for (std::uint32_t p = 0; p < g.node.size(); ++p) {
                to.word(g.node[p] != nothing ? 1 + g.at[p].late : 0);
                if (g.node[p] != nothing) to.time(g.at[p].at), to.node(collectives.membership().rank(key.first, p), g.node[p]);
            }
        }
    }

private:
    std::map<std::pair<std::uint32_t, std::uint32_t>, Gathering> open_;  // by group, serial
};

}  // namespace astrarium
