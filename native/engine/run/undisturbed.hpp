// Runs of every rank: collectives that nothing disturbs are timed. One whose links (or ports) carry nothing else while it
// uses them takes what it takes by itself. It runs once by itself (run/alone_times), and all that stand and come like it end as it did,
// without messages. Those that meet others are noted: the run counts for nothing then, and another one has them as messages.
#pragma once
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
        return able_[collective] && groups_[group].placed && !groups_[group].meets(serial);
    }
    // A member has come.
    void gather(const Member& member, std::uint32_t collective, std::uint32_t serial);

    // Periods that recur: what a collective that gathers may still ask about, and the state. A period took so many collectives per group
    // (`serials`) and `timings` that were added last: how often it recurs at most, and what leaving it out changes.
    Tick horizon(Tick now) const;
    void write(Recurrence& to, const Collectives& collectives) const;
    std::size_t timings() const { return held_.size(); }
    std::uint64_t periods_alike(const std::vector<std::uint32_t>& serials, const Collectives& collectives, std::uint64_t most) const;
    void skip(const std::vector<std::uint32_t>& serials, std::size_t timings, std::uint64_t periods);

    // After a run. Whether it was exact; else collectives that met others are not timed any more, and whether there is another run.
    bool exact() const;
    std::string found() const;  // how many met others, in words
    bool goes_again();
    std::uint64_t measured() const { return times_.measured(); }  // events of the runs by themselves

private:
    struct Gathering {  // who has come, and when
        std::uint32_t serial, collective, arrived;
        std::vector<Coming> at;
        std::vector<std::uint32_t> node;
    };
    struct Group {
        bool placed = false;
        AloneTimes::Place place;
        std::vector<Gathering> open;
        std::vector<std::uint8_t> meet;  // by number of the collective: it is known to meet others
        bool meets(std::uint32_t serial) const { return serial < meet.size() && meet[serial]; }
    };
    struct Held {  // a timed collective of this run
        std::uint32_t group, serial;
    };
    std::vector<std::uint32_t> in_period_before(std::uint32_t first, const std::vector<std::uint32_t>& serials) const;
    bool able(const Collective& collective) const;
    std::vector<std::uint8_t> groups_in_use() const;
    void over(std::uint32_t group, const Gathering& all);
    void end(std::uint32_t group, const Gathering& all, const AloneTimes::Timed& t, Tick first, std::uint32_t holder);

    const Plan& plan_;
    Membership membership_;
    AloneTimes times_;
    BatchClock* clock_ = nullptr;
    Traffic* traffic_ = nullptr;
    LinkHolds holds_;
    std::vector<std::uint8_t> able_;  // by collective
    std::vector<Group> groups_;       // the last: all ranks
    std::vector<Held> held_;          // by holder of links
    std::uint64_t events_ = 0;        // left out of this run
    int runs_ = 0;
};

}  // namespace astrarium
