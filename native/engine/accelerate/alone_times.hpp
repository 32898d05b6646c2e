// Times of collectives by themselves: a run of one collective on a small network of the dims in which its members differ. Times are kept by content: what stands and comes alike, moved along dims, ends alike.
#pragma once
#include <map>
#include <vector>

#include "accelerate/alone.hpp"
#include "media/traffic.hpp"
#include "nodes/groups.hpp"

namespace astrarium {

class AloneTimes {
public:
    struct Place {                                  // of a collective's members
        std::uint32_t number = 0;                   // equal for those that are moved along dims
        std::vector<std::vector<int>> coordinates;  // per dim of the small network: of the machine
    };
    struct LinkUse {
        std::size_t dim = 0;
        std::int32_t npu = 0;  // of the small network
        int port = 0;
        bool inward = false;
        std::int64_t bytes = 0;
        Tick busy = 0, from = 0, until = 0;
    };
    struct Timed {
        std::vector<Tick> done;  // by member, from the first coming on
        std::vector<std::uint8_t> late;
        std::vector<LinkUse> links;
        Usage::Pattern use;
        std::uint64_t events = 0;
    };
    explicit AloneTimes(const Plan& plan) : plan_(plan), geometry_(plan.network) {}

    // Of ranks in the order of a group.
    Place place(const std::vector<std::uint32_t>& ranks);
    // Of a collective (number in the plan) at a place; comings of all members, the earliest at 0. Null: a run by itself does not end.
    const Timed* timed(const Place& place, std::uint32_t collective, const std::vector<Coming>& comings);
    // The number that a link of the small network has on the machine.
    std::size_t link(const Place& place, const LinkUse& use, const Traffic& traffic) const;
    std::uint64_t measured() const { return measured_; }  // events of the runs by themselves

private:
    struct Layout {
        std::vector<int> sizes;                 // per dim
        std::vector<std::int32_t> npus, order;  // by member: NPU, place among all by rank
        auto operator<=>(const Layout&) const = default;
    };
    std::vector<int> coordinates(const Dim& dim, const std::vector<int>& members) const;
    Timed measure(const Layout& layout, std::uint32_t collective, const std::vector<Coming>& comings) const;

    const Plan& plan_;
    const Geometry geometry_;
    std::map<Layout, std::uint32_t> numbers_;
    std::vector<const Layout*> layouts_;
    std::map<std::vector<std::int64_t>, Timed> timed_;  // by place, collective, when members come
    std::vector<const Timed*> together_;                // by place and collective: of one whose members come at once
    std::size_t kept_ = 0;                              // words of it
    std::uint64_t measured_ = 0;
};

}  // namespace astrarium
