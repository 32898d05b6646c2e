// Runs of every rank: collectives that nothing disturbs are timed. One whose links (or ports) carry nothing else while it
// uses them takes what it takes by itself. It runs once by itself (accelerate/alone_times), and all that stand and come like it end as it did,
// without messages. Those that meet others are noted: the run counts for nothing then, and another one has them as messages.
#pragma once
#include <string>
#include <vector>

#include "accelerate/alone_times.hpp"
#include "accelerate/gatherings.hpp"
#include "media/link_holds.hpp"

namespace astrarium {

// Of runs that share what they found out: collectives by content, and which met others.
class Undisturbed final : public Accelerator {
public:
    // Thrown where no collective of the plan can be timed, or hardly any: every message is cheaper then.
    struct Disturbed {
        const char* why;
    };
    explicit Undisturbed(const Plan& plan);

    void begin(const Parts& run) override;
    bool measure(const Member& member) override;
    bool exact() const override { return holds_.found().empty(); }

    // After a run that is not exact: collectives that met others are not timed any more; how many, in words; whether there is another run.
    std::string promote();
    bool goes_again() const { return runs_ < most_runs; }
    std::uint64_t measured() const { return times_.measured(); }  // events of the runs by themselves

    Tick horizon(Tick now) const override { return gatherings_.horizon(now); }
    void write(StateWords& to) const override;
    std::size_t issues() const override { return held_.size(); }
    std::uint64_t periods_alike(const Period& period, std::uint64_t most) const override;
    void skip(const Period& period, std::uint64_t periods) override;

private:
    static constexpr int most_runs = 4;
    struct Group {
        bool placed = false;
        AloneTimes::Place place;
        std::vector<std::uint8_t> meet;  // by number of the collective: it is known to meet others
        bool meets(std::uint32_t serial) const { return serial < meet.size() && meet[serial]; }
    };
    struct Held {  // a timed collective of this run
        std::uint32_t group, serial;
    };
    std::vector<std::uint32_t> in_period_before(std::uint32_t first, const std::vector<std::uint32_t>& serials) const;
    bool able(const Collective& collective) const;
    std::vector<std::uint8_t> groups_in_use() const;
    void time(const Member& last, const Gathering& all);
    void end(std::uint32_t group, const Gathering& all, const AloneTimes::Timed& t, Tick first, std::uint32_t holder);

    const Plan& plan_;
    Membership membership_;
    AloneTimes times_;
    const Parts* run_ = nullptr;
    Gatherings gatherings_;
    LinkHolds holds_;
    std::vector<std::uint8_t> able_;  // by collective
    std::vector<Group> groups_;       // the last: all ranks
    std::vector<Held> held_;          // by holder of links
    int runs_ = 0;
};

}  // namespace astrarium
