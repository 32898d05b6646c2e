// Layers that repeat. When the state of a run recurs, later in time and further on in the programs, all that follows recurs
// too, for as long as the programs repeat: periods are counted instead of run. Periods may hold others: micro-batches hold layers.
#pragma once
#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "nodes/state_words.hpp"
#include "plan/plan.hpp"
#include "run/nodes.hpp"

namespace astrarium {

// By program and node: 0, or the number of a kind of equal periods of which one may begin as the node ends. Made when asked for,
// for several threads at once.
class Beats {
public:
    explicit Beats(const std::vector<Program>& programs) : programs_(programs), of_(programs.size()) {}
    const std::vector<std::uint8_t>& of(std::size_t program);

private:
    // Whether nodes stand after all that they wait for. Else none may begin: what is left out would not be what has ended.
    bool ascend();

    const std::vector<Program> programs_;
    std::mutex lock_;
    std::vector<std::vector<std::uint8_t>> of_;
    std::optional<bool> ascend_;
};

class Recurrence final : public Nodes::Watch {
public:
    // `own`: the run's programs, one per rank, of which a jump takes the next nodes away.
    Recurrence(const Nodes::Own& own, Beats& beats);

    // What happens to nodes, from the start.
    void make_ready(std::uint32_t rank, std::uint32_t node) override { ranks_[rank].touched.include(whole(rank, node)); }
    void make_wait(std::uint32_t rank, std::uint32_t node) override { ranks_[rank].waiting.push_back(whole(rank, node)); }
    void complete(std::uint32_t rank, std::uint32_t node) override;

    bool due() const { return beat_ != 0; }  // to be looked at when the instant is over

    // Whether to look: not where states that did not recur took longer to write than it can pay, for so many events of the run so far.
    bool worth_it(std::uint64_t events) const;
    void pass() { beat_ = 0; }  // not now
    // The state, written anew. Then whether it recurs; and how often at most, in a row. Then `jump`, of so many periods or fewer, `decline`, or
    // `hold`. `counts` grow with every period, those that were left out too; what is counted for the first time stands behind all others.
    StateWords& begin(Tick now, Tick horizon) { return state_.begin(now, horizon), state_; }
    std::optional<Jump> end(std::vector<std::int64_t> counts);
    void jump(const Jump& jump);
    void decline();
    void hold() { keep(std::move(now_state_)); }  // not yet: what comes may recur to it

private:
    static constexpr std::uint32_t none = 0xffffffffu;
    // Nodes have the numbers that they have in whole programs; those that the run gives and takes count from what is left of them.
    using Span = NodeSpan;
    using Waiting = std::vector<std::pair<std::uint32_t, std::int32_t>>;  // nodes, and parents that they wait for
    struct Rank {
        std::uint32_t program = 0, base = 0;
        Span touched;                        // since the last state
        std::vector<std::uint32_t> waiting;  // nodes of which some parents have ended; more than once, and others among them
    };
    struct Seen {  // of a rank, in a state
        std::uint32_t finished = 0;
        Span live;
        Waiting waiting;
    };
    struct State {
        std::uint32_t owner = none;
        std::size_t beat = 0;
        Tick time = 0;  // with what periods took that were left out
        std::vector<std::int64_t> words, counts;
        std::vector<Seen> ranks;
    };
    struct Since {  // a state, and the nodes per rank that were touched since
        std::shared_ptr<const State> state;
        std::vector<Span> touched;
    };
    struct Reach {  // of ranks with equal programs: nodes of the span are to be like those `shift` after them
        std::uint32_t program = 0, shift = 0;
        std::uint32_t sink = none;  // the lowest node that waits for nodes of many periods
        Span span;
    };

    std::uint32_t whole(std::uint32_t rank, std::uint32_t node) const { return node + state_.rank(rank).skipped; }
    std::int32_t& left(std::size_t rank, std::uint32_t node) const { return left_[ranks_[rank].base + node - state_.rank(rank).skipped]; }
    bool owns(std::uint32_t rank);
    Waiting waiting(std::size_t rank);
    void keep(std::shared_ptr<const State> state);
    Jump next_periods(const Since& since, const State& now);
    std::int32_t decrease(std::size_t rank, std::uint32_t node, std::int32_t left) const;
    static bool compare(const Waiting& before, const Waiting& now, Reach& reach, std::uint64_t& most);
    static std::uint64_t periods(const Program& program, Reach reach);

    std::vector<Program>& programs_;
    std::vector<Program> whole_;
    std::vector<std::int32_t>& left_;
    std::vector<const std::vector<std::uint8_t>*> beats_of_;  // per rank; null: not the first of its program
    std::vector<Rank> ranks_;
    std::vector<std::uint8_t> failures_;  // per program and beat: states in a row that did not recur
    std::size_t beat_ = 0;                // of the program that is due
    std::uint32_t owner_ = none, challenger_ = none;
    Tick skipped_ = 0;
    std::uint64_t wasted_ = 0;  // words of states that did not recur
    StateWords state_;
    std::vector<Since> before_;              // the latest last; a few of each beat
    std::shared_ptr<const State> recurred_;  // what the state now is like
    std::shared_ptr<const State> now_state_;
    std::vector<Reach> reach_;
    std::vector<std::uint32_t> reach_of_;  // per rank
};

}  // namespace astrarium
