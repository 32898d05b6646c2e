// Runs of every rank with a record: collectives that nothing disturbs are timed. One whose links (or ports) carry nothing else while it
// uses them takes what it takes by itself. So it runs once by itself, on a small network of its own, and all that stand and come like it
// end as it did, without messages. Those that meet others are noted: the run counts for nothing then, and another one has them as messages.
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

// When a member comes; late: once the messages of that instant have arrived.
struct Coming {
    Tick at = 0;
    bool late = false;
};

// A run of one collective by itself: by member, and what its links carried.
struct AloneOnLinks {
    std::vector<Tick> done;          // empty: it did not end
    std::vector<std::uint8_t> late;  // messages had arrived in its last instant before it ended
    std::vector<Step> steps;
    Outcome traffic;
    std::vector<Span> windows;  // by link of the traffic: when the first message asks for it, and the last is through
    std::uint64_t events = 0;
};
// Each rank's node 0 ends as its member comes.
AloneOnLinks run_alone_on_links(const Plan& plan, const std::vector<Coming>& comings);

// Runs that share what they found out: collectives by content, and which met others.
class Undisturbed {
public:
    // Thrown where no collective of the plan can be timed, or hardly any: every message is cheaper then.
    struct Disturbed {};
    struct Member {
        std::uint32_t group, position, node;
        bool late;  // it comes after messages that arrive in this instant
    };
    explicit Undisturbed(const Plan& plan);

    // A run begins. It tells how collectives end (`clock`), and where its links count.
    void begin(BatchClock& clock, Traffic& traffic);
    LinkHolds& holds() { return holds_; }
    bool times(std::uint32_t group, std::uint32_t collective, std::uint32_t serial) const {
        const auto& met = groups_[group].met;
        return able_[collective] && groups_[group].placed && (serial >= met.size() || !met[serial]);
    }
    // A member has come.
    void gather(const Member& member, std::uint32_t collective, std::uint32_t serial);

    // After a run. Whether it was exact; else collectives that met others are not timed any more, and whether it is worth another run: most
    // events are still left out.
    bool exact() const;
    bool worth_another(std::uint64_t handled);
    std::uint64_t measured() const { return measured_; }  // events of the runs by themselves

private:
    struct Gathering {  // who has come, and when
        std::uint32_t serial = 0, collective = 0, arrived = 0;
        std::vector<Coming> at;
        std::vector<std::uint32_t> node;
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
        std::vector<Tick> done;  // by position
        std::vector<std::uint8_t> late;
        std::vector<LinkUse> links;
        std::vector<Step> steps;
        std::uint64_t events = 0;
    };
    struct Places {                             // where the members of a group stand, in a small network of the dims in which they differ
        std::vector<int> sizes;                 // per dim
        std::vector<std::int32_t> npus, order;  // by position: NPU, place among the ranks
        auto operator<=>(const Places&) const = default;
    };
    struct Group {
        bool placed = false;
        std::uint32_t places = 0;
        std::vector<std::vector<int>> coordinates;  // per dim of the small network: of the machine
        std::vector<Gathering> open;
        std::vector<bool> met;  // by number of the collective: it met others
    };
    struct Held {  // a timed collective of this run
        std::uint32_t group, serial;
        std::uint64_t events;
    };
    bool able(const Collective& collective) const;
    void place(std::uint32_t group);
    std::vector<int> coordinates(const Dim& dim, const std::vector<int>& members) const;
    std::size_t link(const Group& group, const LinkUse& use) const;
    void over(std::uint32_t group, const Gathering& all);
    const Timed& timed(std::uint32_t group, const Gathering& all, Tick first);
    void check_gain();
    std::uint64_t left_out() const;
    Timed measure(const Places& places, const Collective& collective, const std::vector<Coming>& comings) const;

    const Plan& plan_;
    const Geometry geometry_;
    Membership membership_;
    BatchClock* clock_ = nullptr;
    Traffic* traffic_ = nullptr;
    LinkHolds holds_;
    std::vector<std::uint8_t> able_;  // by collective
    std::vector<Group> groups_;       // the last: all ranks
    std::vector<Held> held_;          // by holder of links
    std::map<Places, std::uint32_t> numbers_;
    std::vector<const Places*> places_;
    std::vector<const Timed*> together_;                // by places and collective: all members come at once
    std::map<std::vector<std::int64_t>, Timed> timed_;  // by places, collective, when members come
    std::size_t kept_ = 0;                              // words of it
    std::uint64_t events_ = 0, measured_ = 0;           // left out of this run; run to measure
    std::uint64_t before_ = 0, all_ = 0;                // measured before this run; of a run of messages, about
    std::size_t next_look_ = 0;                         // collectives timed in this run as check_gain counts
    int runs_ = 0;
};

}  // namespace astrarium
