// Runs of every rank: collectives that nothing disturbs are timed. One whose links (or ports) carry nothing else while it
// uses them takes what it takes by itself, and so do several that share links with each other only: a bundle. It runs once by itself
// (run/alone_times), and all that stand and come like it end as it did, without messages. Those that meet others are noted: the run counts
// for nothing then, and another one has them as bundles or as messages.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "clock/batches.hpp"
#include "media/link_holds.hpp"
#include "nodes/groups.hpp"
#include "run/alone_times.hpp"

namespace astrarium {

class Collectives;
class Recurrence;

// Runs that share what they found out: collectives by content, and which met others.
class Undisturbed {
public:
    // Thrown where no collective of the plan can be timed, or hardly any: every message is cheaper then.
    struct Disturbed {
        const char* why;
    };
    struct Member {
        std::uint32_t group, position, node;
        bool late;  // it comes after messages that arrive in this instant
    };
    explicit Undisturbed(const Plan& plan);

    // A run begins. It tells how collectives end (`clock`), and where its links count.
    void begin(BatchClock& clock, Traffic& traffic);
    LinkHolds& holds() { return holds_; }
    bool times(std::uint32_t group, std::uint32_t collective, std::uint32_t serial) const {
        return able_[collective] && groups_[group].placed && groups_[group].mode(serial) != as_messages;
    }
    // A member has come.
    void gather(const Member& member, std::uint32_t collective, std::uint32_t serial);
    // The run cannot go on: bundles of which only some have come, as the others wait for these, fall apart. Whether there are any.
    bool part_bundles();

    // Periods that recur: what a collective that gathers may still ask about, and the state. A period took so many collectives per group
    // (`serials`) and `timings` that were added last: how often it recurs at most, and what leaving it out changes.
    Tick horizon(Tick now) const;
    void write(Recurrence& to, const Collectives& collectives) const;
    std::size_t timings() const { return held_.size(); }
    std::uint64_t periods_alike(const std::vector<std::uint32_t>& serials, const Collectives& collectives, std::uint64_t most) const;
    void skip(const std::vector<std::uint32_t>& serials, std::size_t timings, std::uint64_t periods);

    // After a run. Whether it was exact; else collectives that met others are bundles, or are not timed any more, and whether it is worth
    // another run: most events are still left out.
    bool exact() const;
    std::string found() const;  // how many met others, in words
    bool worth_another(std::uint64_t handled);
    std::uint64_t measured() const { return times_.measured(); }  // events of the runs by themselves

private:
    static constexpr std::uint32_t by_itself = 0, as_messages = 1, first_bundle = 2;  // how a collective is timed
    struct Number {                                                                   // of a collective
        std::uint32_t group, serial;
        auto operator<=>(const Number&) const = default;
    };
    struct Gathering {  // who has come, and when
        Number number{};
        std::uint32_t collective = 0, arrived = 0;
        std::vector<Coming> at;
        std::vector<std::uint32_t> node;
    };
    struct Group {
        bool placed = false;
        std::uint32_t party = 0;  // of ranks that share groups and messages
        AloneTimes::Place place;
        std::vector<Gathering> open;
        std::vector<std::uint32_t> modes;  // by number of the collective; by_itself beyond
        std::uint32_t mode(std::uint32_t serial) const { return serial < modes.size() ? modes[serial] : by_itself; }
    };
    struct Bundle {
        std::vector<Number> collectives;
        std::vector<Gathering> complete;  // in the same order; of this run
        std::size_t arrived = 0;
        bool parted = false;  // in this run
        bool gathers() const { return arrived > 0 && arrived < collectives.size() && !parted; }
    };
    struct Held {  // a timed collective or bundle of this run
        std::vector<Number> collectives;
        std::uint64_t events;
        Tick first_end;
    };
    template <class Visit>
    void each_gathering(Visit&& visit) const;  // visit(those who have come)
    void skip_holders(std::uint32_t first, const std::vector<std::uint32_t>& serials, std::uint32_t periods);
    std::vector<std::uint32_t> in_period_before(std::uint32_t first, const std::vector<std::uint32_t>& serials) const;
    void skip_pairs(std::uint32_t first, const std::vector<std::uint32_t>& before, std::uint32_t periods);
    bool modes_alike(std::uint32_t group, std::uint32_t serial, const std::vector<std::uint32_t>& shift) const;
    bool able(const Collective& collective) const;
    std::vector<std::uint32_t> parties(std::vector<std::uint8_t>& used) const;
    AloneTimes::Place place_of(const std::vector<Gathering>& all);
    void over(const std::vector<Gathering>& all, const AloneTimes::Place& place);
    void over_alone(Gathering all);
    void end(const std::vector<Gathering>& all, const AloneTimes::Timed& t, Tick first, std::uint32_t holder);
    void meet_holders();
    void check_gain();
    void bundle(const std::vector<std::uint32_t>& holders);
    std::uint64_t left_out() const;
    void set_mode(const std::vector<Number>& collectives, std::uint32_t mode);

    const Plan& plan_;
    Membership membership_;
    AloneTimes times_;
    BatchClock* clock_ = nullptr;
    Traffic* traffic_ = nullptr;
    LinkHolds holds_;
    std::vector<std::uint8_t> able_;  // by collective
    std::vector<Group> groups_;       // the last: all ranks
    std::vector<Bundle> bundles_;
    std::map<std::vector<std::uint32_t>, AloneTimes::Place> places_;  // of bundles, by their groups, where these have no rank in common
    std::vector<Held> held_;                                          // by holder of links
    std::vector<LinkHolds::Pair> pairs_;                              // of holders that met, and can be in one bundle
    std::uint64_t events_ = 0, before_ = 0, all_ = 0;  // left out of this run; measured before it; of a run of messages, about
    std::uint64_t expected_ = 0;                       // to be handled by this run: all but what met no messages in the one before
    std::size_t next_look_ = 0;                        // collectives timed in this run as check_gain counts
    int runs_ = 0;
};

}  // namespace astrarium
