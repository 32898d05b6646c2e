// Runs of every rank over links: collectives that nothing disturbs are timed. One whose links carry nothing else, from its first member's
// coming to its last one's end, takes what it takes by itself. So it runs once by itself, on a small network of its own, and all that
// stand and come like it end as it did, without messages. Groups that meet others are noted: the run counts for nothing then, and another
// one has their collectives as messages.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "clock/batches.hpp"
#include "media/link_holds.hpp"
#include "media/traffic.hpp"
#include "nodes/groups.hpp"
#include "plan/run.hpp"

namespace astrarium {

// A run of one collective by itself: by member, and what its links carried.
struct AloneOnLinks {
    std::vector<Tick> done;          // empty: it did not end
    std::vector<std::uint8_t> late;  // messages had arrived in its last instant before it ended
    std::vector<Step> steps;
    Outcome traffic;
    std::uint64_t events = 0;
};
AloneOnLinks run_alone_on_links(const Plan& plan);

// Runs that share what they found out: collectives by content.
class Undisturbed {
public:
    // Thrown where no collective of the plan can be timed, or hardly any: every message is cheaper then.
    struct Disturbed {};
    explicit Undisturbed(const Plan& plan);

    // A run begins. It tells how collectives end (`clock`), and where its links count.
    void begin(BatchClock& clock, Traffic& traffic);
    LinkHolds& holds() { return holds_; }
    bool times(std::uint32_t group, std::uint32_t collective) const { return able_[collective] && groups_[group].timed; }
    // A member has come.
    void gather(std::uint32_t node, std::uint32_t group, std::uint32_t position, std::uint32_t collective, std::uint32_t serial);

    // After a run. Whether it was exact; else groups that met others are not timed any more, and whether it is worth another run: most
    // events are still left out.
    bool exact() const;
    bool worth_another(std::uint64_t handled);
    std::uint64_t measured() const { return measured_; }  // events of the runs by themselves

private:
    struct Gathering {  // who has come, and when
        std::uint32_t serial = 0, collective = 0, arrived = 0;
        std::vector<Tick> at;
        std::vector<std::uint32_t> node;
    };
    struct LinkUse {
        std::size_t dim = 0;
        std::int32_t npu = 0;  // of the small network
        int port = 0;
        bool inward = false;
        std::int64_t bytes = 0;
        Tick busy = 0;
    };
    struct Timed {
        std::vector<Tick> done;  // by position
        std::vector<std::uint8_t> late;
        Tick until = 0;
        std::vector<LinkUse> links;
        std::vector<Step> steps;
        std::uint64_t events = 0;
    };
    struct Places {  // where the members of a group stand, in a small network of the dims in which they differ
        std::vector<int> sizes;                 // per dim
        std::vector<std::int32_t> npus, order;  // by position: NPU, place among the ranks
        auto operator<=>(const Places&) const = default;
    };
    struct Group {
        bool timed = false;
        std::uint32_t places = 0;
        std::vector<std::int32_t> npus;  // of the machine, by NPU of the small network
        std::vector<Gathering> open;
        std::uint64_t events = 0;        // of this run, left out
    };
    bool able(const Collective& collective) const;
    void place(std::uint32_t group);
    void over(std::uint32_t group, const Gathering& all);
    const Timed& timed(std::uint32_t group, const Gathering& all, Tick first);
    void check_gain() const;
    Timed measure(const Places& places, const Collective& collective, const std::vector<Tick>& offsets) const;

    const Plan& plan_;
    const Geometry geometry_;
    Membership membership_;
    BatchClock* clock_ = nullptr;
    Traffic* traffic_ = nullptr;
    LinkHolds holds_;
    std::vector<std::uint8_t> able_;  // by collective
    std::vector<Group> groups_;       // the last: all ranks
    std::map<Places, std::uint32_t> numbers_;
    std::vector<const Places*> places_;
    std::vector<const Timed*> together_;                        // by places and collective: all members come at once
    std::map<std::vector<std::int64_t>, Timed> timed_;          // by places, collective, when members come
    std::size_t kept_ = 0;                                      // words of it
    std::uint64_t events_ = 0, measured_ = 0;  // left out of this run; run to measure
    int runs_ = 0;
    std::uint64_t disturbed_ = 0, before_ = 0;                  // of events_, those of groups that met others; measured before this run
};

}  // namespace astrarium
