// Native rule book, one rank per class: messages arrive as those of equals, collectives that meet no messages are measured.
#include <algorithm>
#include <optional>

#include "fold/fold.hpp"
#include "fold/timers/arrivals.hpp"
#include "run/native.hpp"

namespace astrarium {
namespace {

constexpr std::uint32_t in_a_row = 3, timed_one_in = 8;  // collectives of a kind

}  // namespace

Native::Native(Quotient& quotient, const Folded* folded, bool record, Purpose purpose)
    : plan_(quotient.plan()), record_(record), alone_(false), scouts_(purpose == Purpose::conflicts), attempts_(purpose == Purpose::attempt), quotient_(&quotient), folded_(folded), membership_(plan_), geometry_(plan_.network), programs_(&plan_.programs) {
    ports_ = std::make_unique<Ports>(plan_, quotient.rows(), record);
    prepare();
    if (folded_ && !record && !scouts_) count_periods(folded_->beats);
    out_held_.assign(ranks_.size(), std::vector<Held>(plan_.network.dims.size())), in_held_ = out_held_;
}

Native::Native(const Plan& plan, Quotient& quotient, bool record) : plan_(plan), record_(record), alone_(false), quotient_(&quotient), membership_(plan_), geometry_(plan_.network), programs_(&plan_.programs) {
    ports_ = std::make_unique<Ports>(plan_, quotient.rows(), record);
    prepare();
    out_held_.assign(ranks_.size(), std::vector<Held>(plan_.network.dims.size())), in_held_ = out_held_;
}

// What is known of the sends of a class in a phase: the same for all chunks, and for all collectives of the family.
const Native::Sends& Native::class_sends(const Instance& i, const ChunkState& s, const Phase& phase) {
    const std::uint64_t family = quotient_->family(kind_of(i.group), phase);
    if (sends_.size() <= family) sends_.resize(family + 1);
    auto& of_family = sends_[family];
    if (of_family.empty()) of_family.resize(ranks_.size());
    Sends& sends = of_family[membership_.rank(i.group, s.position)];
    if (!sends.aims.empty()) return sends;
    const Schedule& schedule = *phase.schedule;
    const auto first = static_cast<std::size_t>(schedule.send_ptr[static_cast<std::size_t>(schedule.program[static_cast<std::size_t>(s.index)])]);
    for (std::size_t k = first; k < first + s.sends; ++k) {
        const auto to = static_cast<std::uint32_t>(s.base + peer_of(schedule, s.index, schedule.send_peer[k]) * phase.stride);
        sends.aims.push_back(find_aim(i.group, membership_.rank(i.group, s.position), phase, to, static_cast<std::uint32_t>(schedule.send_match[k])));
    }
    sends.together = find_trains(sends.aims, s, schedule);
    return sends;
}

// Where a send goes: the class that stands there, and its flight.
void Native::aim(std::uint32_t message, const Aim& aim, std::uint32_t chunks) {
    Message& m = messages_[message];
    m.state += aim.position * chunks, m.receive = aim.receive;
    m.flight = aim.flight, m.source = aim.source;
}

Native::Aim Native::find_aim(std::uint32_t group, std::uint32_t mine, const Phase& phase, std::uint32_t to, std::uint32_t receive) {
    const std::uint32_t kind = kind_of(group), other = quotient_->class_at(kind, mine, to);
    const Schedule& schedule = *phase.schedule;
    const std::uint32_t place = quotient_->place(kind, other);
    const int index = index_in(phase, place);
    const auto program = static_cast<std::size_t>(schedule.program[static_cast<std::size_t>(index)]);
    receive = quotient_->receive(phase, kind, mine, to, receive);
    const auto r = static_cast<std::size_t>(schedule.recv_ptr[program]) + receive;
    const auto from = static_cast<std::uint32_t>(static_cast<int>(place) + (peer_of(schedule, index, schedule.recv_peer[r]) - index) * phase.stride);
    return {membership_.position(group, other), receive, quotient_->rank_at(kind, other, from), quotient_->flight(kind, mine, to, other, from)};
}

// Messages of several ranks that come to one port at one instant and mean the same to it go by their ranks: these must stand in one
// order for all equals.
void Native::land(std::uint32_t id) {
    const Keyed key = arrives(id);
    const Message& m = messages_[id];
    const auto slot = static_cast<std::uint32_t>(m.tag);
    const std::int32_t npu = m.flight.to;
    const Tick when = ports_->deliver(m.flight, clock_.now, {key.high, key.low, slot});
    for (const Ports::Order& other : ports_->ties())
        if (m.purpose != Message::node || !quotient_->ordered(static_cast<std::uint32_t>(quotient_->slot_of(npu)), other.slot, slot))
            throw Unfoldable{"messages of several ranks reach one port at one instant"};
    keep_apart(npu, in_held_);
    deliver(id, when);
}

// A collective that is known to meet others runs as messages, and one of a kind whose last few did: most often it would meet others,
// too. To see whether it still does, every so many of a kind are timed.
bool Native::is_measured(std::uint32_t group, std::uint32_t serial) {
    const std::uint32_t kind = kind_of(group), number = serial + skipped(kind);
    bool met = quotient_->conflicts.contains(kind, number);
    if (!met && !scouts_ && number % timed_one_in != 0 && !gatherings_.contains({group, serial})) {
        met = true;
        for (std::uint32_t before = 1; before <= in_a_row && met; ++before) met = number >= before && quotient_->conflicts.contains(kind, number - before);
        if (met) quotient_->conflicts.insert(kind, number);
    }
    if (recurrence_) periods_.issues.push_back({kind, number, !met});
    return !met;
}

// A collective whose messages meet no others: measured once for each pattern of arrivals.
void Native::gather(std::uint32_t rank, std::uint32_t node, std::uint32_t group, std::uint32_t collective, std::uint32_t serial) {
    const std::uint32_t position = membership_.position(group, rank), size = membership_.size(group);
    Gathering& g = gatherings_[{group, serial}];
    if (g.collective == none)
        g.collective = collective, g.at.assign(size, 0), g.node.assign(size, none);
    else if (g.collective != collective)
        throw Endless{{"ranks issue a group's collectives in different orders"}};
    g.at[position] = clock_.now, g.node[position] = node;
    if (++g.arrived < size) return;
    const Gathering all = std::move(g);
    gatherings_.erase({group, serial});
    begin_measured(group, serial, all);
}

// All members have come. A timed collective stands if nothing else uses its ports meanwhile.
void Native::begin_measured(std::uint32_t group, std::uint32_t serial, const Gathering& all) {
    const Tick begin = *std::min_element(all.at.begin(), all.at.end());
    const Measured* measured = timed(group, all, begin);
    const auto early = [&](Tick done) { return add(begin, done) <= clock_.now; };  // it would end before its last member comes
    if (measured && std::any_of(measured->done.begin(), measured->done.end(), early)) measured = nullptr;
    if (measured && (stands(group, serial, all, *measured, begin) || scouts_)) return stand(group, serial, all, *measured, begin);
    if (scouts_) throw Unfoldable{overlapping};
    if (begin < clock_.now) go_back_before(kind_of(group), serial, begin);
    if (back_to_ != never) return;
    quotient_->conflicts.insert(kind_of(group), serial + skipped(kind_of(group)));
    const std::uint32_t instance = open_instance(group, all.collective, serial);
    for (std::uint32_t p = 0; p < all.at.size(); ++p) join(instance, p, all.node[p]);
}

// Null where it has no time of its own.
const Measured* Native::timed(std::uint32_t group, const Gathering& all, Tick begin) {
    try {
        return &folded_->timers.measure(all.collective, kind_of(group), all.at, begin);
    } catch (const Endless&) {
        throw;
    } catch (const Asymmetric&) {
        throw;
    } catch (const Unfoldable&) {
        return nullptr;
    }
}

// visit(held, until when messages use the ports, from when to when the collective does) for the ports of each participant, out and
// in, of each dim that it uses.
template <class Visit>
void Native::each_use(std::uint32_t group, const Gathering& all, const Measured& measured, Tick begin, Visit&& visit) {
    const std::vector<std::size_t>& dims = folded_->kinds.dims(kind_of(group));
    for (std::uint32_t p = 0; p < all.at.size(); ++p) {
        const std::uint32_t rank = membership_.rank(group, p);
        PortUse roughly;
        if (measured.uses.empty()) roughly = folded_->timers.use(measured, p, begin, all.at[p]);
        const Tick base = measured.uses.empty() ? 0 : begin;
        for (std::size_t d = 0; d < dims.size(); ++d) {
            const PortUse& mine = measured.uses.empty() ? roughly : measured.uses[p][d];
            if (!mine.out.empty()) visit(out_held_[rank][dims[d]], ports_->out_until(rank, dims[d]), Span{base + mine.out.from(), base + mine.out.until()});
            if (!mine.in.empty()) visit(in_held_[rank][dims[d]], ports_->in_until(rank, dims[d]), Span{base + mine.in.from(), base + mine.in.until()});
        }
    }
}

// Whether it meets nothing of what is known so far. Timed collectives that it meets do not stand either.
bool Native::stands(std::uint32_t group, std::uint32_t serial, const Gathering& all, const Measured& measured, Tick begin) {
    bool alone = true;
    each_use(group, all, measured, begin, [&](const Held& held, Tick messages, const Span& mine) {
        const bool meets = held.until > mine.from && (held.kind != kind_of(group) || held.serial != serial);
        if (meets) meet(held);
        alone = alone && !meets && std::max(messages, held.asked) <= mine.from;
    });
    if (!alone && scouts_) quotient_->conflicts.insert(kind_of(group), serial);
    return alone;
}

void Native::stand(std::uint32_t group, std::uint32_t serial, const Gathering& all, const Measured& measured, Tick begin) {
    const std::uint32_t kind = kind_of(group);
    each_use(group, all, measured, begin, [&](Held& held, Tick, const Span& mine) {
        held = {std::max(held.until, mine.until), begin, kind, serial, held.asked};
    });
    if (record_) ports_->traffic.usage.repeat(measured.steps, begin, folded_->kinds.groups_like(kind));
    for (std::uint32_t p = 0; p < all.at.size(); ++p) {
        const std::uint32_t rank = membership_.rank(group, p);
        const std::uint64_t key = static_cast<std::uint64_t>(rank) << 32 | all.node[p];
        const bool late = measured.late[p] != 0;
        clock_.at(add(begin, measured.done[p]), late ? BatchClock::arrive : BatchClock::done, {key, 0, late ? measured_over : node_over, rank, all.node[p]});
        if (record_ && !measured.loads.empty())
            for (const Load& load : measured.loads[measured.loads.size() == 1 ? 0 : p]) ports_->carry(rank, load);
    }
}

// A timed collective has met others: it runs as messages after all. The run goes back to before it began.
void Native::meet(const Held& held) {
    if (scouts_) return quotient_->conflicts.insert(held.kind, held.serial);
    go_back_before(held.kind, held.serial, held.begin);
}

void Native::go_back_before(std::uint32_t kind, std::uint32_t serial, Tick begin) {
    quotient_->conflicts.insert(kind, serial + skipped(kind));
    back_to_ = std::min(back_to_, begin);
}

// The message whose way was found last asks for ports of an NPU.
void Native::keep_apart(std::int32_t npu, std::vector<std::vector<Held>>& held) {
    auto& mine = held[static_cast<std::size_t>(quotient_->slot_of(npu))];
    ports_->each_dim([&](std::size_t d) {
        if (mine[d].until > clock_.now) meet(mine[d]);
        mine[d].asked = clock_.now + 1;
    });
}

namespace {

const TimedRules rules{&run_native_alone, &run_native_members, false, true};

// A run of representatives that goes wrong is left to the full run, which says what is wrong, of which rank.
template <class Run>
auto or_unfoldable(Run&& run) {
    try {
        return run();
    } catch (const BadTrace&) {
        throw Endless{{"the run does not end"}};
    } catch (const Stall&) {
        throw Endless{{"the run does not end"}};
    } catch (const Unsupported&) {
        throw Endless{{"the run does not end"}};
    }
}

}  // namespace

Outcome run_native_quotient(Quotient& quotient, const Folded& folded, bool record) {
    const auto run = [&](Native::Purpose purpose) {
        const bool recorded = record && purpose != Native::Purpose::conflicts;
        return or_unfoldable([&] { return Native(quotient, &folded, recorded, purpose).run(); });
    };
    try {
        return run(Native::Purpose::attempt);
    } catch (const Native::TooManyReturns&) {
    }
    try {
        run(Native::Purpose::conflicts);
    } catch (const Unfoldable&) {  // as far as it came
    }
    return run(Native::Purpose::result);
}

Outcome run_native_folded(const Plan& plan, const FoldOptions& options) {
    Facts facts(plan, options.store, options.common);
    std::optional<std::pair<Conflicts, std::vector<std::int32_t>>> known;  // and the kinds of groups as they were then
    const auto with_classes = [&](const std::set<Labels>& split) {
        const std::shared_ptr<const RankClasses> classes = facts.classes(split);
        check_foldable(plan, *classes, options.record);
        Kinds kinds(plan, facts, *classes);
        const Timing timing{plan, options.record, rules, facts, *classes, kinds};
        if (!split.empty() && classes->first.size() * 2 > plan.ranks() && !timing.by_lines()) throw Unfoldable{"too few equal ranks"};
        CollectiveTimers timers(timing);
        Quotient quotient(plan, *classes, facts);
        if (known) quotient.conflicts = known->first.renumbered(known->second, *classes);
        try {
            return run_native_quotient(quotient, {kinds, timers, facts.beats()}, options.record);
        } catch (const Asymmetric&) {
            known.emplace(quotient.conflicts, classes->group_kind);
            throw;
        }
    };
    return fold(plan, options, with_classes, [&] { return options.record ? run_native(plan, true) : run_native_periods(plan, facts.beats()); });
}

// One collective of the classes in `participants`, which come at `offsets`; the results are by class.
Alone run_quotient_alone(Quotient& quotient, const Collective& collective, std::uint32_t kind, const std::vector<std::uint32_t>& participants,
                      const std::vector<Tick>& offsets, bool record) {
    const Plan& all = quotient.plan();
    Plan plan;
    plan.npus = all.npus, plan.network = all.network, plan.policy = all.policy, plan.npu_of = all.npu_of, plan.groups = all.groups;
    plan.reduce_bandwidth = all.reduce_bandwidth;
    plan.collectives.push_back(collective);
    Arrivals arrivals;
    plan.programs.push_back(Arrivals::none());  // of classes that take no part
    std::vector<std::int64_t> slot_ptr{0};
    std::vector<std::int32_t> program_of(all.ranks(), 0), zeros(participants.size(), 0), group(participants.size(), static_cast<std::int32_t>(kind) - 1);
    for (std::size_t i = 0; i < participants.size(); ++i) {
        program_of[participants[i]] = static_cast<std::int32_t>(i + 1);
        plan.programs.push_back(arrivals.at(offsets[i]));
    }
    for (const std::int32_t program : program_of) slot_ptr.push_back(slot_ptr.back() + (program > 0));
    plan.program_of = {program_of.data(), program_of.size()}, plan.slot_ptr = {slot_ptr.data(), slot_ptr.size()};
    plan.slot_a = {zeros.data(), zeros.size()}, plan.slot_b = {group.data(), group.size()}, plan.slot_c = {zeros.data(), zeros.size()};
    return or_unfoldable([&] { return Native(plan, quotient, record).run_members(); });
}

}  // namespace astrarium
