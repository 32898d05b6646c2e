#include "accelerate/promotion.hpp"

#include <algorithm>

namespace astrarium {

Conflicts Conflicts::renumbered(const std::vector<std::int32_t>& kinds, const RankClasses& to) const {
    Conflicts out;
    out.met_.resize(to.first_group.size());
    for (std::uint32_t kind = 0; kind < to.first_group.size(); ++kind) {
        const std::int32_t group = to.first_group[kind];
        const auto before = group < 0 ? 0 : static_cast<std::uint32_t>(kinds[static_cast<std::size_t>(group)]);
        if (before < met_.size()) out.met_[kind] = met_[before];
    }
    return out;
}

void Promotion::begin(const Parts& run) {
    run_ = &run;
    holds_.reset(2 * run.plan.ranks() * run.plan.network.dims.size());
    run.messages.watch(holds_);
}

// One that is known to meet others runs as messages.
bool Promotion::measure(const Member& m) {
    const std::uint32_t kind = quotient_.kind_of(m.group), mine = number(m.group, m.serial);
    if (quotient_.size(kind) < 2) return false;
    const bool met = conflicts_.contains(kind, mine);
    add_issue({kind, mine, !met});
    if (met) return false;
    Gathering& gathering = gatherings_.of(m, run_->collectives.membership().size(m.group), run_->clock);
    if (gathering.collective != m.collective) throw_different(gathering.collective, m.collective);
    if (Gathering all; gatherings_.take(m, {run_->clock.now, false}, gathering, all)) start(m, all);
    return true;
}

// A run of every rank goes on where they are the same to it.
void Promotion::throw_different(std::uint32_t one, std::uint32_t other) const {
    const auto& collectives = quotient_.plan().collectives;
    if (collectives[one].same_work(collectives[other])) throw Unfoldable{"members that give a collective different algorithms"};
    throw Endless{{"ranks issue a group's collectives in different orders"}};
}

// All members have come. A timed collective stands if nothing else uses its ports meanwhile.
void Promotion::start(const Member& last, const Gathering& all) {
    const Timed mine{last.group, last.serial,
                     std::min_element(all.at.begin(), all.at.end(), [](const Coming& x, const Coming& y) { return x.at < y.at; })->at};
    const Measured* measured = timed(last.group, all, mine.begin);
    const auto early = [&](Tick done) { return add(mine.begin, done) <= run_->clock.now; };  // it would end before its last member comes
    if (measured && std::any_of(measured->done.begin(), measured->done.end(), early)) measured = nullptr;
    if (measured && stands(last.group, all, *measured, mine.begin)) return stand(mine, all, *measured);
    // Its first messages leave before others of this instant where a member came in an earlier batch.
    if (all.batch != run_->clock.handled) holds_.meet(add_holder(mine));
    if (!exact()) {  // the run goes on for a while, to see what else meets others
        if (measured) stand(mine, all, *measured);
        return;
    }
    conflicts_.insert(quotient_.kind_of(last.group), number(last.group, last.serial));
    const std::uint32_t instance = run_->collectives.open(last.group, all.collective, last.serial);
    for (std::uint32_t p = 0; p < all.at.size(); ++p) run_->collectives.join(instance, p, all.node[p]);
}

// Null where it has no time of its own.
const Measured* Promotion::timed(std::uint32_t group, const Gathering& all, Tick begin) {
    std::vector<Tick> at;
    for (const Coming& coming : all.at) at.push_back(coming.at);
    try {
        return &timers_.measure(all.collective, quotient_.kind_of(group), at, begin);
    } catch (const Endless&) { throw; } catch (const Asymmetric&) {
        throw;
    } catch (const Unfoldable&) { return nullptr; }
}

// visit(ports, when the collective uses them) for the ports of each participant, out and in, of each dim that it uses.
template <class Visit>
void Promotion::each_use(std::uint32_t group, const Gathering& all, const Measured& measured, Tick begin, Visit&& visit) {
    const std::vector<std::size_t>& dims = kinds_.dims(quotient_.kind_of(group));
    const Ports& ports = *run_->messages.ports();
    for (std::uint32_t p = 0; p < all.at.size(); ++p) {
        const std::uint32_t rank = run_->collectives.membership().rank(group, p);
        PortUse roughly;
        if (measured.uses.empty()) roughly = timers_.use(measured, p, begin, all.at[p].at);
        const Tick base = measured.uses.empty() ? 0 : begin;
        for (std::size_t d = 0; d < dims.size(); ++d) {
            const PortUse& mine = measured.uses.empty() ? roughly : measured.uses[p][d];
            if (!mine.out.empty()) visit(ports.class_ports(rank, dims[d], false), Span{base + mine.out.from(), base + mine.out.until()});
            if (!mine.in.empty()) visit(ports.class_ports(rank, dims[d], true), Span{base + mine.in.from(), base + mine.in.until()});
        }
    }
}

// Whether it meets nothing of what is known so far. Timed collectives that it meets do not stand either.
bool Promotion::stands(std::uint32_t group, const Gathering& all, const Measured& measured, Tick begin) {
    bool alone = true;
    each_use(group, all, measured, begin, [&](std::size_t ports, const Span& mine) { alone &= holds_.is_free(ports, mine.from); });
    return alone;
}

void Promotion::stand(const Timed& mine, const Gathering& all, const Measured& measured) {
    const std::uint32_t kind = quotient_.kind_of(mine.group), holder = add_holder(mine);
    Ports& ports = *run_->messages.ports();
    each_use(mine.group, all, measured, mine.begin, [&](std::size_t held, const Span& use) { holds_.hold(held, use.until, holder); });
    if (run_->record) ports.traffic.usage.repeat(measured.steps, mine.begin, kinds_.groups_like(kind));
    for (std::uint32_t p = 0; p < all.at.size(); ++p) {
        const std::uint32_t rank = run_->collectives.membership().rank(mine.group, p);
        const std::uint64_t key = static_cast<std::uint64_t>(rank) << 32 | all.node[p];
        const bool late = measured.late[p] != 0;
        run_->clock.at(add(mine.begin, measured.done[p]), late ? BatchClock::arrive : BatchClock::done,
                       {key, 0, late ? measured_over : node_over, rank, all.node[p]});
        if (run_->record && !measured.loads.empty())
            for (const Load& load : measured.loads[measured.loads.size() == 1 ? 0 : p]) ports.carry(rank, load);
    }
}

std::uint32_t Promotion::add_holder(const Timed& timed) {
    timed_.resize(holds_.holders());
    timed_.push_back(timed);
    return holds_.add_holder();
}

Tick Promotion::exact_until() const {
    Tick until = never;
    for (const std::uint32_t holder : holds_.found()) until = std::min(until, timed_[holder].begin);
    return until;
}

void Promotion::promote() {
    for (const std::uint32_t holder : holds_.found())
        conflicts_.insert(quotient_.kind_of(timed_[holder].group), number(timed_[holder].group, timed_[holder].serial));
    holds_.forget_found();
}

// --- periods that recur

void Promotion::write(StateWords& to) const {
    gatherings_.write(to, run_->collectives);
    holds_.each([&](std::size_t ports, Tick held, Tick used, std::uint32_t holder) {
        if (!to.matters(held) && !to.matters(used)) return;
        to.count(ports), to.until(held), to.until(used);
        if (!to.matters(held)) return;
        const Timed& by = timed_[holder];
        to.word(by.group), to.word(std::int64_t{by.serial} - run_->collectives.issued(by.group));
    });
}

// Whether a collective is timed depends on its number: as far as the coming ones are like those of this period. One that some members
// have begun as messages, the others join as such after the jump.
std::uint64_t Promotion::periods_alike(const Period& period, std::uint64_t most) const {
    for (std::size_t i = issue_count_ - period.issues; i < issue_count_; ++i)
        for (std::uint64_t k = 1; k <= most && issues_[i].measured; ++k) {
            const Issue& issue = issues_[i];
            if (conflicts_.contains(issue.kind, issue.serial + static_cast<std::uint32_t>(k) * period.serials[group_of(issue.kind)]))
                most = k - 1;
        }
    return most;
}

void Promotion::skip(const Period& period, std::uint64_t periods) {
    const std::size_t first = issue_count_ - period.issues;
    for (std::uint64_t k = 1; k <= periods; ++k)
        for (std::size_t i = first; i < first + period.issues; ++i) {
            Issue issue = issues_[i];
            issue.serial += static_cast<std::uint32_t>(k) * period.serials[group_of(issue.kind)];
            if (!issue.measured && k == periods) conflicts_.insert(issue.kind, issue.serial);
            add_issue(issue);
        }
}

}  // namespace astrarium
