// The one scheduler of native runs: what is ready on each rank, by lane; what issuing and ending a node does to it.
#pragma once
#include <tuple>
#include <vector>

#include "clock/batches.hpp"
#include "nodes/describe.hpp"
#include "nodes/ready.hpp"
#include "nodes/state_words.hpp"
#include "plugins/foreign.hpp"
#include "run/what.hpp"

namespace astrarium {

class Nodes {
public:
    // Who carries out nodes that are no delays.
    class Tasks {
    public:
        virtual void issue(Kind kind, std::uint32_t rank, std::uint32_t node, std::size_t slot) = 0;

    protected:
        ~Tasks() = default;
    };
    // Who is told what happens to nodes: a node is ready; it waits for one parent fewer, but not the last; it ends.
    class Watch {
    public:
        virtual void make_ready(std::uint32_t rank, std::uint32_t node) = 0;
        virtual void make_wait(std::uint32_t rank, std::uint32_t node) = 0;
        virtual void complete(std::uint32_t rank, std::uint32_t node) = 0;

    protected:
        ~Watch() = default;
    };
    struct Rank {
        std::uint32_t program = 0, node_base = 0;
        std::uint32_t inflight[lane_count] = {};
        std::uint32_t left = 0;
        bool looking = false;
        ReadySet ready;
        std::vector<std::pair<std::uint32_t, Tick>> comm;  // ready COMM nodes and since when
    };

    Nodes(const Plan& plan, BatchClock& clock, bool record, const Plugins& plugins, Tasks& tasks);
    Nodes(const Nodes&) = delete;
    Nodes& operator=(const Nodes&) = delete;
    // All nodes without parents become ready.
    void start();

    const Program& program(std::uint32_t rank) const { return (*programs_)[ranks_[rank].program]; }
    std::size_t ranks() const { return ranks_.size(); }
    bool done() const { return unfinished_ == 0; }
    Tick at(Tick clock) const { return add(clock, skipped_); }  // the time in the run at a time of the clock
    void look(std::uint32_t rank);                              // issues what is ready, as far as lanes have room
    // A node ends: now, or at `when`.
    void complete(std::uint32_t rank, std::uint32_t node);
    void over(std::uint32_t rank, std::uint32_t node, Tick when) {
        clock_.at(when, BatchClock::done, {static_cast<std::uint64_t>(rank) << 32 | node, 0, node_over, rank, node});
    }
    // A message arrived now: what ends in this instant ends late.
    void arrival() { last_arrival_ = clock_.now; }
    bool late() const { return last_arrival_ == clock_.now; }

    Place place(std::uint32_t rank, std::uint32_t node) const { return place_of(plan_, program(rank), rank, node); }
    // What ranks that have not ended wait for, beside `why` (per rank).
    void explain(std::vector<Wait> why, std::vector<Wait>& waits) const;
    void report(Outcome& out);
    const std::vector<Tick>& finish() const { return finish_; }
    const std::vector<std::uint8_t>& ended_late() const {
        return late_;
    }  // per rank: messages had arrived at the instant of its last end, before it

    // The state as words; periods are left out of the run's own copy of the programs, one per rank. By rank: number of its program, and of its
    // first node; by node: how many parents it waits for.
    struct Own {
        std::vector<std::uint32_t> program_of, base;
        std::vector<Program>& programs;
        std::vector<std::int32_t>& left;
    };
    Own own_programs();
    void watch(Watch* watch) { watch_ = watch; }
    void write(StateWords& to) const;
    void skip(const Jump& jump);
    void counts(std::vector<std::int64_t>& out) const { out.insert(out.end(), busy_.begin(), busy_.end()); }

    // Earlier states: all but what nodes wait for, of which is noted what changes.
    auto state() { return std::tie(ranks_, own_programs_, finish_, busy_, late_, last_arrival_, skipped_, unfinished_); }
    void note_changes() { noting_ = true; }
    void forget_changes() { counted_down_.clear(); }
    std::size_t changes() const { return counted_down_.size(); }
    void undo_changes(std::size_t until);
    void count_parents();

private:
    std::size_t number(const Rank& r, std::uint32_t rank, std::uint32_t node) const {
        return plugins_.growth ? plugins_.growth->number(rank, node) : r.node_base + node;
    }
    void make_ready(std::uint32_t rank, std::uint32_t node);
    void want_look(std::uint32_t rank);
    std::uint32_t take_comm(std::uint32_t rank);
    std::uint32_t take_ready(std::uint32_t rank, int lane);
    void issue(std::uint32_t rank, std::uint32_t node);
    void take_work();
    void record_periods(const Jump& jump);
    Tick time() const { return skipped_ == 0 ? clock_.now : add(clock_.now, skipped_); }

    const Plan& plan_;
    BatchClock& clock_;
    const bool record_;
    const Plugins plugins_;
    Tasks& tasks_;
    std::vector<Rank> ranks_;
    std::vector<std::int32_t> parents_;
    std::vector<Tick> start_, end_, finish_, busy_;
    std::vector<std::uint8_t> late_;
    Tick last_arrival_ = -1, skipped_ = 0;
    std::size_t unfinished_ = 0;
    const std::vector<Program>* programs_;  // the plan's, which may grow; or those of the periods
    std::vector<Program> own_programs_;     // per rank, without what was skipped
    Watch* watch_ = nullptr;
    bool noting_ = false;
    std::vector<std::uint32_t> counted_down_;  // numbers of nodes: one parent fewer, since the first state that is kept
    std::vector<Handed> handed_;
};

}  // namespace astrarium
