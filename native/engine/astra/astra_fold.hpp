// ASTRA-sim's rules, one rank per class: each collective is a delay that is measured once; list scheduling, no messages.
// Gives up (Unfoldable) wherever the integers could differ from running every rank.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <queue>

#include "accelerate/memo/facts.hpp"
#include "accelerate/timers/timers.hpp"
#include "media/usage.hpp"
#include "nodes/ready.hpp"
#include "plan/run.hpp"

namespace astrarium {

class AstraFold {
public:
    AstraFold(const Plan& plan, bool record, Facts& facts, std::shared_ptr<const RankClasses> classes);
    Outcome run();

private:
    static constexpr std::uint32_t none = 0xffffffffu;
    struct Class {
        const Program* program = nullptr;
        std::size_t slots = 0;  // first slot of the representative
        std::uint32_t node_base = 0, rank = 0;
        std::uint32_t inflight[lane_count] = {};
        std::uint32_t ongoing = 0, left = 0;
        ReadySet ready;
        std::vector<std::uint32_t> issued_on;   // per kind of group: collectives issued
        std::vector<std::uint32_t> completing;  // nodes that end at this instant
        std::map<std::tuple<std::int32_t, std::int32_t, bool>, Load> traffic;
    };
    struct Meeting {  // one collective of one kind of group: who has come, and when
        std::uint32_t arrived = 0;
        std::vector<Tick> at;  // per participant class, in order of `participants`
        std::vector<std::uint32_t> node;
        std::uint32_t collective = none;
    };
    struct Event {
        Tick time;
        std::uint32_t cls, node;
        bool operator>(const Event& other) const { return time > other.time; }
    };

    void check_supported() const;
    void start();
    void instant();
    void complete(std::uint32_t c, std::uint32_t node);
    void finish_node(Class& k, std::uint32_t node, std::vector<std::int32_t>& left) const;
    void issue_ready(std::uint32_t c);
    bool next_ready(Class& k, std::uint32_t& node) const;
    void issue(std::uint32_t c, std::uint32_t node);
    void issue_collective(std::uint32_t c, std::uint32_t node);
    void begin_collective(std::uint32_t collective, std::size_t kind, const Meeting& all);
    void send(std::uint32_t c, std::uint32_t node);
    void receive(std::uint32_t c, std::uint32_t node);
    bool order_matters(std::uint32_t c);
    std::vector<std::uint32_t> dry_run(std::uint32_t c, const std::vector<std::uint32_t>& order) const;
    void carry(std::uint32_t c, const std::vector<Load>& loads);
    Outcome outcome();

    const Plan& plan_;
    bool record_;
    Facts& facts_;
    const std::shared_ptr<const RankClasses> held_classes_;
    const RankClasses& classes_;
    Kinds kinds_;
    CollectiveTimers timers_;
    std::vector<Class> class_;
    std::vector<std::int32_t> left_;
    std::vector<Tick> start_, end_, finish_, busy_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> pending_;
    Tick now_ = 0, links_until_ = 0;
    Usage usage_;
    std::uint64_t events_ = 0;
    std::map<std::pair<std::size_t, std::uint32_t>, Meeting> meetings_;
    struct Mail {  // a message that is on its way, or a receive that was posted
        bool sent;
        Tick there;
        std::uint32_t node;
    };
    // By class and slot of the receive, in order: messages that nobody posted a receive for, or receives without a message.
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<Mail>> mail_;
    std::vector<std::uint32_t> touched_, ended_;  // of one round of an instant
};

}  // namespace astrarium
