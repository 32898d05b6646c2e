#include "fold/periods/recurrence.hpp"

#include <unordered_map>

#include "plan/mix.hpp"

namespace astrarium {
namespace {

constexpr std::size_t most_runs = 8, fewest_nodes = 64;
constexpr std::uint32_t fewest_periods = 4;
constexpr std::uint8_t most_failures = 12;  // in a run of periods whose state does not recur

// Equal nodes at equal distances.
struct Run {
    std::uint32_t first = 0, last = 0, gap = 0, count = 1;
    std::uint32_t covers() const { return gap * count; }
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
        const auto [at, fresh] = open.try_emplace(h, Run{i, i, 0, 1});
        if (fresh) continue;
        Run& run = at->second;
        if (run.count == 1) run.gap = i - run.last;
        if (i - run.last == run.gap) {
            run.last = i, ++run.count;
        } else {
            close(run);
            run = {run.last, i, i - run.last, 2};
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
    for (const Run& run : runs_of(p)) {
        const auto meets = [&run](const Run& other) { return run.first < other.last + other.gap && other.first < run.last + run.gap; };
        if (std::any_of(chosen.begin(), chosen.end(), meets)) continue;
        chosen.push_back(run);
        for (std::uint32_t i = run.first; i <= run.last; i += run.gap) beats[i] = static_cast<std::uint8_t>(chosen.size());
        if (chosen.size() == most_runs) break;
    }
    return beats;
}

Recurrence::Recurrence(const std::vector<std::uint32_t>& program_of, const std::vector<std::uint32_t>& base, std::vector<Program>& programs,
                       std::vector<std::int32_t>& left, Beats& beats)
    : programs_(programs), left_(left), beats_of_(program_of.size()), ranks_(program_of.size()),
      failures_(programs.size() * (most_runs + 1)), live_(program_of.size()) {
    std::vector<bool> seen(programs.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        ranks_[r].program = program_of[r], ranks_[r].base = base[r];
        if (seen[program_of[r]]) continue;
        seen[program_of[r]] = true;
        beats_of_[r] = &beats.of(program_of[r]);
    }
}

// State is looked at when a period of one rank begins; of another rank, once that one has two while the first has none.
bool Recurrence::owns(std::uint32_t rank) {
    if (owner_ == none || rank == challenger_) owner_ = rank;
    challenger_ = rank == owner_ ? none : challenger_ == none ? rank : challenger_;
    return rank == owner_;
}

void Recurrence::completed(std::uint32_t rank, std::uint32_t node) {
    Rank& r = ranks_[rank];
    r.touched.include(node);
    ++r.finished;
    if (!beats_of_[rank] || beat_ != 0) return;
    const std::uint8_t beat = (*beats_of_[rank])[node + static_cast<std::size_t>(programs_[r.program].skipped)];
    if (beat == 0) return;
    const std::size_t number = r.program * (most_runs + 1) + beat;
    if (owns(rank) && failures_[number] < most_failures) beat_ = number;
}

void Recurrence::lanes(std::uint32_t rank, const std::uint32_t (&inflight)[lane_count], const ReadySet& ready, Arrivals comm) {
    std::vector<std::uint32_t> nodes;
    for (int lane = -1; lane < lane_count; ++lane) {
        if (lane >= 0) word(inflight[lane]);
        nodes = ready.all(lane);
        std::sort(nodes.begin(), nodes.end());
        count(nodes.size());
        for (const std::uint32_t n : nodes) node(rank, n);
    }
    // What came first matters, not when.
    std::sort(comm.begin(), comm.end(),
              [](const auto& x, const auto& y) { return x.second != y.second ? x.second < y.second : x.first < y.first; });
    count(comm.size());
    for (std::size_t k = 0; k < comm.size(); ++k) node(rank, comm[k].first), word(k > 0 && comm[k].second == comm[k - 1].second);
}

void Recurrence::begin(Tick now, Tick horizon) {
    now_ = now, horizon_ = horizon;
    words_.clear();
    live_.assign(ranks_.size(), Span{});
    time(horizon);
}

Recurrence::Waiting Recurrence::waiting(Rank& r) const {
    std::sort(r.waiting.begin(), r.waiting.end());
    r.waiting.erase(std::unique(r.waiting.begin(), r.waiting.end()), r.waiting.end());
    std::erase_if(r.waiting, [&](std::uint32_t node) { return left_[r.base + node] == 0; });
    Waiting out;
    for (const std::uint32_t node : r.waiting) out.emplace_back(node, left_[r.base + node]);
    return out;
}

std::optional<Recurrence::Jump> Recurrence::end(std::vector<std::int64_t> counts) {
    State now{owner_, beat_, now_, std::move(words_), std::move(counts), {}};
    beat_ = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) now.ranks.push_back({ranks_[r].finished, live_[r], waiting(ranks_[r])});
    Jump jump;
    if (before_.owner == now.owner && before_.beat == now.beat) {
        if (before_.words == now.words) jump.periods = periods(now, jump);
        if (jump.periods == 0) ++failures_[now.beat];
    }
    if (jump.periods > 0) {
        recurred_ = std::move(now.ranks);
        return jump;
    }
    wasted_ += now.words.size();
    std::swap(words_, before_.words);
    before_ = std::move(now);
    for (Rank& r : ranks_) r.touched = Span{};
    return std::nullopt;
}

std::uint64_t Recurrence::periods(const State& now, Jump& jump) {
    jump.time = now.time - before_.time;
    std::uint64_t most = none;
    reach_.assign(programs_.size(), Reach{});
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const Seen &then = before_.ranks[r], &here = now.ranks[r];
        const std::uint32_t nodes = here.finished - then.finished;
        jump.nodes.push_back(nodes);
        Reach& program = reach_[ranks_[r].program];
        if (program.used && program.shift != nodes) return 0;
        program.used = true, program.shift = nodes;
        for (const Span& span : {then.live, here.live, ranks_[r].touched}) program.span.include(span);
        if (!compare(then.waiting, here.waiting, program, most)) return 0;
    }
    for (std::size_t p = 0; p < reach_.size() && most > 0; ++p)
        if (reach_[p].shift > 0) most = std::min(most, periods(programs_[p], reach_[p]));
    for (std::size_t k = 0; k < now.counts.size(); ++k) jump.counts.push_back(now.counts[k] - before_.counts[k]);
    return most == none ? 0 : most;
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
            const auto child = static_cast<std::uint32_t>(p.child[there] - p.skipped);
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

// The nodes at work keep their numbers; those of the periods that are left out are taken from the programs.
void Recurrence::jump(const Jump& jump) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        Rank& rank = ranks_[r];
        const auto shift = static_cast<std::uint32_t>(jump.periods * jump.nodes[r]);
        if (shift == 0) continue;
        const Reach& reach = reach_[rank.program];
        for (const auto& [node, left] : recurred_[r].waiting)
            if (node >= reach.span.end) left_[rank.base + node] -= static_cast<std::int32_t>(jump.periods) * decrease(r, node, left);
        const auto first = left_.begin() + rank.base + reach.span.low, last = left_.begin() + rank.base + reach.span.end;
        std::copy_backward(first, last, last + shift);
        rank.base += shift;
        for (std::uint32_t& node : rank.waiting)
            if (node >= reach.span.end) node -= shift;
    }
    for (std::size_t p = 0; p < reach_.size(); ++p) programs_[p].skip(jump.periods * reach_[p].shift);
    for (Rank& r : ranks_) r.touched = Span{};
    if (jump.periods == 0) ++failures_[before_.beat];
    before_ = State{};
}

// Of the parents that a sink waits for, in a period.
std::int32_t Recurrence::decrease(std::size_t rank, std::uint32_t node, std::int32_t left) const {
    const Waiting& then = before_.ranks[rank].waiting;
    return std::lower_bound(then.begin(), then.end(), std::pair{node, std::int32_t{0}})->second - left;
}

}  // namespace astrarium
