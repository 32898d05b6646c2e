// Runs one rank per class, with each collective as a delay that is measured once: list scheduling, no messages.
// Gives up (Unfoldable) wherever the integers could differ from running every rank.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <queue>

#include "fold/quotient/classes.hpp"
#include "fold/quotient/image.hpp"
#include "fold/memo/facts.hpp"
#include "nodes/ready.hpp"
#include "plan/run.hpp"
#include "media/usage.hpp"
#include "media/ports.hpp"

namespace astrarium {

class Fold {
public:
    Fold(const Plan& plan, bool record, Facts& facts, const std::set<Labels>& split = {});
    Outcome run();

    // For runs in which some collectives are delays that are measured once (Image).
    const RankClasses& classes() const { return classes_; }
    Beats& beats() { return facts_.beats(); }
    const Measured& measure(std::uint32_t collective, std::int32_t kind, const std::vector<Tick>& at, Tick begin);
    const std::vector<std::size_t>& dims_of(std::size_t kind);
    bool passes_others(std::size_t kind, const std::vector<std::size_t>& dims) const;
    std::int64_t groups_like(std::size_t kind) const;
    std::uint64_t measured_events() const;
    // Whether collectives may be found line by line: cheap however many classes there are.
    bool finds_lines() const { return !astra_ && !record_ && plan_.network.medium->ends && plan_.reduce_bandwidth.size == 0; }

    // When a participant's ports carry a measured collective of unknown uses that begins at `begin`, where it comes at `at`.
    PortUse use(const Measured& measured, std::size_t participant, Tick begin, Tick at) const;

private:
    static constexpr std::uint32_t none = 0xffffffffu;
    struct Lines {  // how a collective lies on the dims of its group
        struct Stage {
            std::size_t dim;
            std::vector<std::uint32_t> steps, first;  // positions of a line relative to its first; first of each line
            std::uint32_t line;
        };
        std::vector<Stage> stages;  // none: it cannot run line by line
    };
    struct Class {
        const Program* program = nullptr;
        std::size_t slots = 0;  // first slot of the representative
        std::uint32_t node_base = 0, rank = 0;
        std::uint32_t inflight[lane_count] = {};
        std::uint32_t ongoing = 0, left = 0;
        ReadySet ready;
        std::vector<std::pair<std::uint32_t, Tick>> comm;  // native: ready COMM nodes and since when
        std::vector<std::uint32_t> issued_on;              // per kind of group: collectives issued
        std::vector<PortLog> out, in;                      // per dim: of the NPU's ports
        std::vector<std::uint32_t> completing;  // nodes that end at this instant
        std::map<std::tuple<std::int32_t, std::int32_t, bool>, Load> traffic;
    };
    struct Meeting {  // one collective of one kind of group: who has come, and when
        std::uint32_t arrived = 0;
        std::vector<Tick> at;            // per participant class, in order of `participants`
        std::vector<std::uint32_t> node;
        std::uint32_t collective = none;
        Tick first = 0;                  // when the first one came
    };
    struct Event {
        Tick time;
        bool late;                // natively: by an arrival, after everything local of that instant
        std::uint32_t cls, node;  // node none: look at what is ready
        bool operator>(const Event& other) const { return time != other.time ? time > other.time : late > other.late; }
    };

    void check_supported() const;
    void start();
    void instant();
    void complete(std::uint32_t c, std::uint32_t node);
    void finish_node(Class& k, std::uint32_t node, std::vector<std::int32_t>& left) const;
    void push_ready(Class& k, std::uint32_t node) const;
    void issue_ready(std::uint32_t c);
    void issue_by_lane(std::uint32_t c);
    bool in_no_time(const Collective& c, std::int32_t group);
    bool next_ready(Class& k, std::uint32_t& node) const;
    std::uint32_t take_comm(Class& k) const;
    void issue(std::uint32_t c, std::uint32_t node);
    void issue_collective(std::uint32_t c, std::uint32_t node);
    void send(std::uint32_t c, std::uint32_t node);
    void receive(std::uint32_t c, std::uint32_t node);
    bool order_matters(std::uint32_t c);
    std::vector<std::uint32_t> dry_run(std::uint32_t c, const std::vector<std::uint32_t>& order) const;
    void leave(std::uint32_t c, const std::vector<Load>& loads);
    void carry(std::uint32_t c, const std::vector<Load>& loads);
    static void occupy(Tick& until_now, Tick from, Tick until);
    void occupy(PortLog& log, Tick from, Tick until);
    void forget(PortLog& log) const;
    void begin_collective(std::uint32_t collective, std::int32_t kind, const Meeting& all);
    std::shared_ptr<const Measured> shared(std::uint32_t collective, std::int32_t kind, const std::vector<Tick>& offsets, bool together);
    const std::vector<std::uint32_t>& index_of(std::size_t kind);
    std::uint32_t index_number(std::size_t kind);
    Measured measured(std::uint32_t collective, std::int32_t kind, const std::vector<Tick>& offsets, bool together);
    Measured run_equals(const Collective& c, std::int32_t kind, const std::vector<Tick>& offsets);
    bool reduce_alike(const std::vector<std::uint32_t>& members) const;
    bool symmetric(const Collective& c, std::int32_t kind) const;
    LineStore::Looped looped(std::uint32_t id, std::int32_t kind, const std::vector<std::uint32_t>& members);
    LineStore::Looped loop_back(const Collective& c, std::int32_t kind, const std::vector<std::uint32_t>& members);
    LineStore::Looped by_one_line(const Collective& c, std::int32_t kind, const std::vector<std::uint32_t>& members);
    Uses::Row own_dims(const Uses::Row& row, std::int32_t kind) const;
    Plan plan_of(const Collective& c) const;
    bool by_lines(std::uint32_t id, std::int32_t kind, const std::vector<std::uint32_t>& members, const std::vector<Tick>& offsets, Measured& found);
    std::uint64_t run_stage(const Lines::Stage& stage, const std::vector<std::uint32_t>& index, std::vector<Pattern>& now, std::vector<Uses::Row>& uses);
    bool lay_lines(const Collective& c, const std::vector<std::uint32_t>& members, Lines& out);
    std::uint32_t line(const Collective& c, std::size_t dim, const std::vector<std::size_t>& phases, const std::vector<std::pair<int, int>>& factors,
                       const std::vector<int>& places);
    void shrink(Plan& small, std::vector<std::int32_t>& npu_of) const;
    Measured run_members(const Plan& small, std::int32_t kind, const std::vector<std::uint32_t>& members, const std::vector<Tick>& offsets) const;
    Tick message_time(std::uint32_t c, std::uint32_t other, std::uint32_t peer, std::int64_t size, bool& late);
    Outcome outcome();

    // periods that recur (fold_periods.cpp)
    void look_for_periods();
    void write_classes();
    void write_meetings();
    void write_pending();
    std::uint32_t issued(std::size_t kind) const { return participants_[kind].empty() ? 0 : class_[participants_[kind].front()].issued_on[kind]; }
    void skip_periods(const Recurrence::Jump& jump);

    const Plan& plan_;
    bool record_, astra_, meshes_ = false;
    Facts& facts_;
    std::shared_ptr<LineStore> store_;
    std::map<std::pair<std::uint32_t, std::int32_t>, Lines> lines_;
    std::shared_ptr<const RankClasses> held_classes_;
    const RankClasses& classes_;
    std::vector<Class> class_;
    std::vector<std::int32_t> left_;
    std::vector<Tick> start_, end_, finish_, busy_;
    struct Pending : std::priority_queue<Event, std::vector<Event>, std::greater<>> {
        const std::vector<Event>& all() const { return c; }
    } pending_;
    Tick now_ = 0, links_until_ = 0;
    Ports idle_;  // where messages do not meet
    Usage usage_;
    std::vector<std::int64_t> class_size_;
    std::uint64_t events_ = 0, counted_ = 0;
    std::vector<Program> programs_;  // the plan's, without what was skipped
    std::unique_ptr<Recurrence> recurrence_;
    Tick skipped_ = 0;
    std::vector<std::vector<std::uint32_t>> participants_;  // per kind: classes, ascending
    std::vector<std::uint32_t> kind_size_;
    std::vector<std::uint8_t> kind_passes_;  // as far as asked for: 1 no message passes others
    std::map<std::pair<std::int32_t, std::uint32_t>, Meeting> meetings_;
    std::unordered_map<Words, std::shared_ptr<const Measured>, WordsHash> measured_;  // by collective and kind, and when all come
    Words key_;
    std::vector<std::uint32_t> kind_index_number_;
    std::vector<std::vector<std::uint32_t>> kind_index_;  // as far as asked for: by member, of its class among the participants
    std::unique_ptr<Image> image_;  // made when first asked for
    std::vector<const Measured*> together_;  // by collective and kind: of all that come at once
    struct Mail {  // a message that is on its way, or a receive that was posted
        bool sent, late;
        Tick there;
        std::uint32_t node;
    };
    // By class and slot of the receive, in order: messages that nobody posted a receive for, or receives without a message.
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<Mail>> mail_;
    std::vector<std::uint32_t> touched_, ended_;  // of one round of an instant
    Tick last_ = -1;      // the last instant that ran, and
    bool late_ = false;   // whether arrivals have ended something in it
};

}  // namespace astrarium
