// Collectives whose phases are each over one dim, and no two dims' phases take turns: what all members do is found line by line, dim
// after dim.
#include <algorithm>
#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "accelerate/timers/timers.hpp"

namespace astrarium {
namespace {

using Factor = std::pair<int, int>;  // stride, n: of positions in the group

struct Stage {  // successive phases over one dim
    std::size_t dim = 0;
    std::vector<std::size_t> phases;
    std::vector<Factor> factors;  // of positions in the group, ascending
};

// The stages of a collective; none where a dim comes twice, or chunks differ in more than bytes.
std::vector<Stage> stages_of(const Collective& c, std::size_t dims) {
    std::vector<Stage> stages;
    if (c.custom || c.chunks.empty() || !c.turns.empty()) return {};
    const auto& phases = c.chunks.front().phases;
    for (const Chunk& chunk : c.chunks) {
        if (chunk.phases.size() != phases.size()) return {};
        for (std::size_t k = 0; k < phases.size(); ++k) {
            const Phase &x = chunk.phases[k], &first = phases[k];
            if (x.algorithm != Algorithm::schedule || !x.schedule || x.dim < 0 || x.n < 2 || x.switches() > 0) return {};
            if (x.dim != first.dim || x.schedule != first.schedule || x.n != first.n || x.stride != first.stride) return {};
        }
    }
    std::vector<bool> seen(dims, false);
    for (std::size_t k = 0; k < phases.size(); ++k) {
        const auto dim = static_cast<std::size_t>(phases[k].dim);
        if (c.meets || stages.empty() || stages.back().dim != dim) {
            if (seen[dim]) return {};
            seen[dim] = true;
            stages.push_back({dim, {}, {}});
        }
        Stage& stage = stages.back();
        stage.phases.push_back(k);
        const Factor factor{phases[k].stride, phases[k].n};
        if (std::find(stage.factors.begin(), stage.factors.end(), factor) == stage.factors.end()) stage.factors.push_back(factor);
        std::sort(stage.factors.begin(), stage.factors.end());
    }
    return stages;
}

// Positions of a line, relative to its first.
std::vector<std::uint32_t> line_of(const std::vector<Factor>& factors) {
    std::vector<std::uint32_t> out{0};
    for (const auto& [stride, n] : factors) {
        const std::size_t before = out.size();
        for (int i = 1; i < n; ++i)
            for (std::size_t p = 0; p < before; ++p) out.push_back(out[p] + static_cast<std::uint32_t>(i * stride));
    }
    return out;
}

class LineTimer final : public Timer {
public:
    explicit LineTimer(const Timing& timing) : Timer(timing) {}
    std::optional<Measured> time(const Asked& asked) override;

private:
    struct LaidStage {
        std::size_t dim;
        std::vector<std::uint32_t> steps, first;  // positions of a line relative to its first; first of each line
        std::uint32_t line;
    };
    using Laid = std::vector<LaidStage>;  // none: it cannot run line by line

    LineStore& store() { return *timing_.facts.store; }
    bool lay(const Collective& c, const std::vector<std::uint32_t>& members, Laid& out);
    std::uint32_t line(const Collective& c, const Stage& stage, const std::vector<int>& places);
    std::uint64_t run_stage(const LaidStage& stage, const std::vector<std::uint32_t>& index, std::vector<Pattern>& now,
                            std::vector<Uses::Row>& uses);
    void end(const Asked& asked, const std::vector<std::uint32_t>& index, const std::vector<Pattern>& now, Measured& found);

    std::map<std::pair<std::uint32_t, std::size_t>, Laid> laid_;  // by collective and kind
};

// Whether positions are a product of lines in every stage: members of a line differ in its dim only, alike on all lines.
bool LineTimer::lay(const Collective& c, const std::vector<std::uint32_t>& members, Laid& out) {
    const Plan& plan = timing_.plan;
    const Geometry geometry(plan.network);
    if (c.meets || !std::is_sorted(members.begin(), members.end())) return false;
    for (const Stage& stage : stages_of(c, plan.network.dims.size())) {
        LaidStage laid{stage.dim, line_of(stage.factors), {}, LineStore::none};
        const Dim& dim = plan.network.dims[stage.dim];
        std::vector<bool> covered(members.size(), false);
        std::vector<int> places;
        for (std::uint32_t p = 0; p < members.size(); ++p) {
            if (covered[p]) continue;
            laid.first.push_back(p);
            const int npu = plan.npu_of[members[p]], from = geometry.coordinate(npu, stage.dim);
            for (std::size_t i = 0; i < laid.steps.size(); ++i) {
                const std::uint32_t q = p + laid.steps[i];
                if (q >= members.size() || covered[q]) return false;
                covered[q] = true;
                const int there = geometry.coordinate(plan.npu_of[members[q]], stage.dim);
                if (plan.npu_of[members[q]] != npu + (there - from) * geometry.stride(stage.dim)) return false;
                if (p == 0) places.push_back(away(dim, from, there));
                else if (places[i] != away(dim, from, there)) return false;
            }
        }
        laid.line = line(c, stage, places);
        if (laid.line == LineStore::none) return false;
        out.push_back(std::move(laid));
    }
    return !out.empty();
}

std::uint32_t LineTimer::line(const Collective& c, const Stage& stage, const std::vector<int>& places) {
    const Plan& plan = timing_.plan;
    const Dim& d = plan.network.dims[stage.dim];
    const double rate = plan.reduction_rate(plan.npu_of[0]);
    Words content{static_cast<std::uint64_t>(d.shape),         static_cast<std::uint64_t>(d.npus),
                  std::bit_cast<std::uint64_t>(d.bandwidth),   std::bit_cast<std::uint64_t>(d.latency),
                  static_cast<std::uint64_t>(c.active_chunks), static_cast<std::uint64_t>(plan.policy.endpoint_delay),
                  std::bit_cast<std::uint64_t>(rate),          places.size()};
    content.insert(content.end(), places.begin(), places.end());
    std::vector<Line::Step> steps;
    for (const std::size_t k : stage.phases) {
        const Phase& phase = c.chunks.front().phases[k];
        int stride = 1;
        for (const auto& [other, n] : stage.factors) stride *= other < phase.stride ? n : 1;
        Line::Step step{phase.schedule, stride, phase.n, {}};
        for (const Chunk& chunk : c.chunks) step.chunks.emplace_back(chunk.repeat, chunk.phases[k].block_size);
        content.insert(content.end(), {timing_.facts.schedule(phase.schedule), static_cast<std::uint64_t>(stride),
                                       static_cast<std::uint64_t>(phase.n), step.chunks.size()});
        for (const auto& [repeat, size] : step.chunks)
            content.insert(content.end(), {static_cast<std::uint64_t>(repeat), static_cast<std::uint64_t>(size)});
        steps.push_back(std::move(step));
    }
    return store().line(content, [&] { return Line(d, places, steps, c.active_chunks, plan.policy.endpoint_delay, rate); });
}

std::optional<Measured> LineTimer::time(const Asked& asked) {
    if (!timing_.by_lines()) return std::nullopt;
    const std::vector<std::uint32_t>& members = timing_.kinds.members(asked.kind);
    const auto [known, fresh] = laid_.try_emplace({asked.collective, asked.kind});
    const Collective& c = collective(asked);
    if (fresh && !lay(c, members, known->second)) known->second.clear();
    if (known->second.empty()) return std::nullopt;
    const std::size_t participants = timing_.kinds.participants(asked.kind).size();
    const std::vector<std::uint32_t>& index = timing_.kinds.index_of(asked.kind);
    const std::uint32_t level = store().pattern(std::vector<Tick>(static_cast<std::size_t>(c.total_chunks), 0)).shape;
    std::vector<Pattern> now;
    for (const std::uint32_t i : index) now.push_back({asked.offsets[i], level});
    Measured found{std::vector<Tick>(participants, -1), std::vector<std::uint8_t>(participants, 0), 0, 0, {}, {}, {}};
    std::vector<Uses::Row> uses(participants, Uses::Row(timing_.plan.network.dims.size()));
    for (const LaidStage& stage : known->second) found.events += run_stage(stage, index, now, uses);
    for (const Uses::Row& row : uses) found.uses.push_back(timing_.kinds.own_dims(row, asked.kind));
    end(asked, index, now, found);
    return found;
}

// When participants end, of when members do.
void LineTimer::end(const Asked& asked, const std::vector<std::uint32_t>& index, const std::vector<Pattern>& now, Measured& found) {
    Pattern last{-1, 0};
    Tick end = 0;
    std::vector<Tick> ends;
    for (const Pattern& pattern : now) {
        if (pattern != last) last = pattern, end = store().last(pattern);
        ends.push_back(end);
    }
    for (std::size_t p = 0; p < ends.size(); ++p) {
        Tick& done = found.done[index[p]];
        if (done >= 0 && done != ends[p])
            throw Asymmetric{{"members of one class end a collective at different times"},
                             by_value(timing_.classes.shape(asked.kind), ends)};
        done = ends[p], found.quiet = std::max(found.quiet, ends[p]);
    }
}

// All lines of a stage, most of them like the one before; how many events. `now`: when each member's chunks come, then when they
// leave.
std::uint64_t LineTimer::run_stage(const LaidStage& stage, const std::vector<std::uint32_t>& index, std::vector<Pattern>& now,
                                   std::vector<Uses::Row>& uses) {
    struct Use {  // what was last added to a participant's
        const PortUse* use = nullptr;
        Tick base = 0;
    };
    std::uint64_t events = 0;
    std::vector<Use> added(uses.size());
    std::vector<Pattern> line, before;
    const LineStore::Found* run = nullptr;
    for (const std::uint32_t p : stage.first) {
        line.clear();
        Tick base = now[p].base;
        for (const std::uint32_t step : stage.steps) base = std::min(base, now[p + step].base);
        for (const std::uint32_t step : stage.steps) line.push_back({now[p + step].base - base, now[p + step].shape});
        if (!run || line != before) run = &store().run(stage.line, line), std::swap(line, before);
        events += run->events;
        for (std::size_t i = 0; i < stage.steps.size(); ++i) {
            const std::uint32_t q = p + stage.steps[i];
            now[q] = {add(base, run->exits[i].base), run->exits[i].shape};
            Use& last = added[index[q]];
            const PortUse& use = run->use(i);
            if (last.use == &use && last.base == base) continue;
            last = {&use, base};
            join(uses[index[q]][stage.dim], use, base);
        }
    }
    return events;
}

}  // namespace

std::unique_ptr<Timer> make_line_timer(const Timing& timing) { return std::make_unique<LineTimer>(timing); }

}  // namespace astrarium
