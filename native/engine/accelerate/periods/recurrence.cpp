#include "accelerate/periods/recurrence.hpp"

#include <map>
#include <unordered_map>

#include "plan/mix.hpp"

namespace astrarium {
namespace {

constexpr std::size_t most_beats = 63, most_states = 12, most_words = 1 << 23, fewest_nodes = 64;
constexpr std::ptrdiff_t most_of_a_beat = 3;
constexpr std::uint32_t fewest_periods = 4;
constexpr std::uint8_t most_failures = 12;  // in a row, however few events there were

// Equal nodes at equal distances.
struct Run {
    std::uint64_t node = 0;  // what they are like
    std::uint32_t first = 0, last = 0, gap = 0, count = 1;
    std::uint32_t covers() const { return gap * count; }
    // One lies beside the other, or within one of its periods.
    bool goes_with(const Run& other) const {
        return first >= other.last + other.gap || other.first >= last + gap || covers() <= other.gap || other.covers() <= gap;
    }
};

bool ascends(const Program& p) {
    for (std::size_t i = 0; i < p.nodes(); ++i)
        for (std::int32_t e = p.child_ptr[i]; e < p.child_ptr[i + 1]; ++e)
            if (static_cast<std::size_t>(p.child[static_cast<std::size_t>(e)]) <= i) return false;
    return true;
}

std::vector<Run> runs_of(const Program& p) {
    std::unordered_map<std::uint64_t, Run> open;
    open.reserve(1024);
    std::vector<Run> found;
    const auto close = [&found](const Run& run) {
        if (run.count >= fewest_periods) found.push_back(run);
    };
    for (std::uint32_t i = 0; i < p.nodes(); ++i) {
        std::uint64_t h = mix(p.kind[i], static_cast<std::uint64_t>(p.lane[i]));
        h = mix(mix(h, static_cast<std::uint64_t>(p.duration[i])), static_cast<std::uint64_t>(p.size[i]));
        h = mix(mix(h, static_cast<std::uint64_t>(p.slot[i])), static_cast<std::uint64_t>(p.parents[i]));
        const auto [at, fresh] = open.try_emplace(h, Run{h, i, i, 0, 1});
        if (fresh) continue;
        Run& run = at->second;
        if (run.count == 1) run.gap = i - run.last;
        if (i - run.last == run.gap) {
            run.last = i, ++run.count;
        } else {
            close(run);
            run = {h, run.last, i, i - run.last, 2};
        }
    }
    for (const auto& [h, run] : open) close(run);
    const auto before = [](const Run& x, const Run& y) { return x.covers() != y.covers() ? x.covers() > y.covers() : x.first < y.first; };
    std::sort(found.begin(), found.end(), before);
    return found;
}

}  // namespace

bool Beats::ascend() {
    if (!ascend_) ascend_ = std::all_of(programs_.begin(), programs_.end(), ascends);
    return *ascend_;
}

const std::vector<std::uint8_t>& Beats::of(std::size_t program) {
    const std::lock_guard<std::mutex> held(lock_);
    std::vector<std::uint8_t>& beats = of_[program];
    const Program& p = programs_[program];
    if (!beats.empty() || p.nodes() == 0) return beats;
    beats.assign(p.nodes(), 0);
    if (p.nodes() < fewest_nodes || !ascend()) return beats;
    std::vector<Run> chosen;
    std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint8_t> numbers;  // runs of equal nodes have one
    for (const Run& run : runs_of(p)) {
        if (!std::all_of(chosen.begin(), chosen.end(), [&run](const Run& other) { return run.goes_with(other); })) continue;
        chosen.push_back(run);
        const auto number = numbers.try_emplace({run.node, run.gap}, static_cast<std::uint8_t>(numbers.size() + 1)).first->second;
        for (std::uint32_t i = run.first; i <= run.last; i += run.gap) beats[i] = number;
        if (numbers.size() == most_beats) break;
    }
    return beats;
}

Recurrence::Recurrence(const Nodes::Own& own, Beats& beats)
    : programs_(own.programs), left_(own.left), beats_of_(own.program_of.size()), ranks_(own.program_of.size()),
      state_(own.program_of.size()), reach_of_(own.program_of.size()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const std::uint32_t program = own.program_of[r];
        ranks_[r].program = program, ranks_[r].base = own.base[r];
        if (program >= whole_.size()) whole_.resize(program + 1);
        if (whole_[program].nodes() > 0 || programs_[r].nodes() == 0) continue;
        whole_[program] = programs_[r];
        beats_of_[r] = &beats.of(program);
    }
    failures_.assign(whole_.size() * (most_beats + 1), 0);
}

// State is looked at when a period of one rank begins; of another rank, once that one has two while the first has none.
bool Recurrence::owns(std::uint32_t rank) {
    if (owner_ == none || rank == challenger_) owner_ = rank;
    challenger_ = rank == owner_ ? none : challenger_ == none ? rank : challenger_;
    return rank == owner_;
}

void Recurrence::complete(std::uint32_t rank, std::uint32_t node) {
    Rank& r = ranks_[rank];
    const std::uint32_t mine = whole(rank, node);
    r.touched.include(mine);
    ++state_.rank(rank).finished;
    if (!beats_of_[rank] || beat_ != 0) return;
    const std::uint8_t beat = (*beats_of_[rank])[mine];
    if (beat != 0 && owns(rank)) beat_ = r.program * (most_beats + 1) + beat;
}

// A word takes a small part of the time of an event. A beat that never recurs gets less than others.
bool Recurrence::worth_it(std::uint64_t events) const {
    return failures_[beat_] < most_failures ? wasted_ < 1 << 12 || wasted_ / 4 < events : wasted_ < events / 4;
}

Recurrence::Waiting Recurrence::waiting(std::size_t rank) {
    std::vector<std::uint32_t>& nodes = ranks_[rank].waiting;
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    std::erase_if(nodes, [&](std::uint32_t node) { return left(rank, node) == 0; });
    Waiting out;
    for (const std::uint32_t node : nodes) out.emplace_back(node, left(rank, node));
    return out;
}

std::optional<Jump> Recurrence::end(std::vector<std::int64_t> counts) {
    State now{owner_, beat_, add(state_.now(), skipped_), state_.take(), std::move(counts), {}};
    for (Since& before : before_)
        for (std::size_t r = 0; r < ranks_.size(); ++r) before.touched[r].include(ranks_[r].touched);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        now.ranks.push_back({state_.rank(r).finished, state_.rank(r).live, waiting(r)});
        ranks_[r].touched = Span{};
    }
    Jump jump;
    bool known = false;
    for (auto before = before_.rbegin(); before != before_.rend() && jump.periods == 0; ++before) {
        if (before->state->owner != now.owner || before->state->beat != now.beat) continue;
        known = true;
        if (before->state->words == now.words) jump = next_periods(*before, now), recurred_ = before->state;
    }
    if (known) failures_[beat_] = jump.periods > 0 ? 0 : std::min<std::uint8_t>(failures_[beat_] + 1, most_failures);
    beat_ = 0;
    now_state_ = std::make_shared<const State>(std::move(now));
    if (jump.periods > 0) return jump;
    wasted_ += now_state_->words.size();
    keep(std::move(now_state_));
    return std::nullopt;
}

// The oldest of its beat gives way, or the oldest of all.
void Recurrence::keep(std::shared_ptr<const State> state) {
    const auto same = [&state](const Since& since) { return since.state->beat == state->beat; };
    if (std::count_if(before_.begin(), before_.end(), same) == most_of_a_beat)
        before_.erase(std::find_if(before_.begin(), before_.end(), same));
    std::size_t words = state->words.size();
    for (const Since& since : before_) words += since.state->words.size();
    while (!before_.empty() && (before_.size() >= most_states || words > most_words)) {
        words -= before_.front().state->words.size();
        before_.erase(before_.begin());
    }
    before_.push_back({std::move(state), std::vector<Span>(ranks_.size())});
}

// From a state to one that is like it.
Jump Recurrence::next_periods(const Since& since, const State& now) {
    const State& before = *since.state;
    Jump jump;
    jump.time = now.time - before.time;
    std::uint64_t most = none;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> number;  // of a reach, by program and shift
    reach_.clear();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const Seen &then = before.ranks[r], &here = now.ranks[r];
        const std::uint32_t nodes = here.finished - then.finished, program = ranks_[r].program;
        jump.nodes.push_back(nodes);
        reach_of_[r] = number.try_emplace({program, nodes}, static_cast<std::uint32_t>(reach_.size())).first->second;
        if (reach_of_[r] == reach_.size()) reach_.push_back({program, nodes, none, {}});
        Reach& reach = reach_[reach_of_[r]];
        for (const Span& span : {then.live, here.live, since.touched[r]}) reach.span.include(span);
        if (!compare(then.waiting, here.waiting, reach, most)) return jump;
    }
    for (const Reach& reach : reach_)
        if (reach.shift > 0 && most > 0) most = std::min(most, periods(whole_[reach.program], reach));
    jump.counts = now.counts;
    for (std::size_t k = 0; k < before.counts.size(); ++k) jump.counts[k] -= before.counts[k];
    jump.periods = most == none ? 0 : most;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const Span& span = reach_[reach_of_[r]].span;
        const std::uint32_t skipped = state_.rank(r).skipped;
        jump.among.push_back(span.end == 0 ? Span{0, 0} : Span{span.low - skipped, span.end - skipped});
    }
    return jump;
}

// Nodes that wait do so as far on, or are the same: sinks, which must not become ready.
bool Recurrence::compare(const Waiting& before, const Waiting& now, Reach& reach, std::uint64_t& most) {
    const auto find = [&now](std::uint32_t node) { return std::lower_bound(now.begin(), now.end(), std::pair{node, std::int32_t{0}}); };
    std::size_t matched = 0;
    for (const auto& [node, left] : before) {
        if (const auto at = find(node + reach.shift); at != now.end() && at->first == node + reach.shift && at->second == left) {
            if (reach.shift > 0) reach.span.include(node), reach.span.include(at->first);
        } else {
            const auto sink = find(node);
            if (sink == now.end() || sink->first != node || sink->second > left || reach.shift == 0) return false;
            if (sink->second < left) most = std::min(most, static_cast<std::uint64_t>((sink->second - 1) / (left - sink->second)));
            reach.sink = std::min(reach.sink, node);
        }
        ++matched;
    }
    return matched == now.size();
}

// How many periods the nodes of a program are like those before.
std::uint64_t Recurrence::periods(const Program& p, Reach reach) {
    const auto [shift, span] = std::pair{reach.shift, reach.span};
    const auto nodes = static_cast<std::uint32_t>(p.nodes());
    std::uint32_t n = span.low;
    const auto alike = [&](std::uint32_t a, std::uint32_t b) {
        if (p.kind[a] != p.kind[b] || p.lane[a] != p.lane[b] || p.duration[a] != p.duration[b] || p.busy[a] != p.busy[b] ||
            p.size[a] != p.size[b] || p.slot[a] != p.slot[b] || p.parents[a] != p.parents[b] ||
            p.child_ptr[a + 1] - p.child_ptr[a] != p.child_ptr[b + 1] - p.child_ptr[b])
            return false;
        auto there = static_cast<std::size_t>(p.child_ptr[b]);
        for (auto e = static_cast<std::size_t>(p.child_ptr[a]); e < static_cast<std::size_t>(p.child_ptr[a + 1]); ++e, ++there) {
            const auto child = static_cast<std::uint32_t>(p.child[there]);
            if (p.child[there] == p.child[e]) reach.sink = std::min(reach.sink, child);
            else if (static_cast<std::uint32_t>(p.child[there] - p.child[e]) != shift || child >= reach.sink)
                return false;  // another node than before, or another sink
        }
        return true;
    };
    while (n + shift < nodes && n + shift < reach.sink && alike(n, n + shift)) ++n;
    if (reach.sink < n + shift) n = reach.sink < shift ? 0 : reach.sink - shift;
    return n < span.end ? 0 : (n - span.end) / shift + 1;
}

// The nodes at work keep the run's numbers; those of the periods that are left out are taken from the programs.
void Recurrence::jump(const Jump& jump) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        Rank& rank = ranks_[r];
        const auto shift = static_cast<std::uint32_t>(jump.periods * jump.nodes[r]);
        if (shift == 0) continue;
        const Span& span = reach_[reach_of_[r]].span;
        for (const auto& [node, waits] : now_state_->ranks[r].waiting)
            if (node >= span.end) left(r, node) -= static_cast<std::int32_t>(jump.periods) * decrease(r, node, waits);
        std::int32_t* const first = &left(r, 0);
        std::copy_backward(first + span.low, first + span.end, first + span.end + shift);
        rank.base += shift, state_.rank(r).finished += shift, state_.rank(r).skipped += shift;
        programs_[r].skip(shift);
        for (std::uint32_t& node : rank.waiting)
            if (node < span.end) node += shift;
        for (Since& before : before_) before.touched[r].include({span.low, span.end + shift});
    }
    skipped_ = add(skipped_, times(static_cast<std::int64_t>(jump.periods), jump.time));
}

void Recurrence::decline() { failures_[recurred_->beat] = most_failures; }

// Of the parents that a sink waits for, in a period.
std::int32_t Recurrence::decrease(std::size_t rank, std::uint32_t node, std::int32_t waits) const {
    const Waiting& then = recurred_->ranks[rank].waiting;
    return std::lower_bound(then.begin(), then.end(), std::pair{node, std::int32_t{0}})->second - waits;
}

}  // namespace astrarium
