#include "run/promotion.hpp"

namespace astrarium {

Promotion::Promotion(Quotient& quotient, const Folded* folded, BatchClock& clock, Messages& messages, Collectives& collectives, bool record)
    : quotient_(quotient), folded_(folded), clock_(clock), ports_(*messages.ports()), collectives_(collectives), record_(record) {
    const Plan& plan = quotient.plan();
    out_held_.assign(plan.ranks(), std::vector<Held>(plan.network.dims.size())), in_held_ = out_held_;
}

// One that is known to meet others runs as messages.
bool Promotion::measures(std::uint32_t group, std::uint32_t serial) {
    const std::uint32_t kind = collectives_.kind_of(group), mine = number(group, serial);
    if (!folded_ || quotient_.size(kind) < 2) return false;
    const bool met = quotient_.conflicts.contains(kind, mine);
    if (keeps_issues_) add_issue({kind, mine, !met});
    return !met;
}

// A run of every rank goes on where they are the same to it.
void Promotion::throw_different(std::uint32_t one, std::uint32_t other) const {
    const auto& collectives = quotient_.plan().collectives;
    if (collectives[one].same_work(collectives[other])) throw Unfoldable{"members that give a collective different algorithms"};
    throw Endless{{"ranks issue a group's collectives in different orders"}};
}

void Promotion::gather(std::uint32_t rank, std::uint32_t node, std::uint32_t group, std::uint32_t collective, std::uint32_t serial) {
    const std::uint32_t position = collectives_.membership().position(group, rank), size = collectives_.membership().size(group);
    Gathering& g = gatherings_[{group, serial}];
    if (g.collective == nothing) g = {0, collective, clock_.handled, std::vector<Tick>(size, 0), std::vector<std::uint32_t>(size, nothing)};
    else if (g.collective != collective) throw_different(g.collective, collective);
    g.at[position] = clock_.now, g.node[position] = node;
    if (++g.arrived < size) return;
    const Gathering all = std::move(g);
    gatherings_.erase({group, serial});
    begin(group, serial, all);
}

// All members have come. A timed collective stands if nothing else uses its ports meanwhile.
void Promotion::begin(std::uint32_t group, std::uint32_t serial, const Gathering& all) {
    const Tick first = *std::min_element(all.at.begin(), all.at.end());
    const Measured* measured = timed(group, all, first);
    const auto early = [&](Tick done) { return add(first, done) <= clock_.now; };  // it would end before its last member comes
    if (measured && std::any_of(measured->done.begin(), measured->done.end(), early)) measured = nullptr;
    if (measured && stands(group, serial, all, *measured, first)) return stand(group, serial, all, *measured, first);
    // Its first messages leave before others of this instant where a member came in an earlier batch.
    if (all.batch != clock_.handled) go_back_before(collectives_.kind_of(group), serial, first);
    if (back_to_ != never) {  // the run goes on for a while, to see what else meets others
        if (measured) stand(group, serial, all, *measured, first);
        return;
    }
    quotient_.conflicts.insert(collectives_.kind_of(group), number(group, serial));
    const std::uint32_t instance = collectives_.open(group, all.collective, serial);
    for (std::uint32_t p = 0; p < all.at.size(); ++p) collectives_.join(instance, p, all.node[p]);
}

// Null where it has no time of its own.
const Measured* Promotion::timed(std::uint32_t group, const Gathering& all, Tick begin) {
    try {
        return &folded_->timers.measure(all.collective, collectives_.kind_of(group), all.at, begin);
    } catch (const Endless&) { throw; } catch (const Asymmetric&) {
        throw;
    } catch (const Unfoldable&) { return nullptr; }
}

// visit(held, until when messages use the ports, from when to when the collective does) for the ports of each participant, out and
// in, of each dim that it uses.
template <class Visit>
void Promotion::each_use(std::uint32_t group, const Gathering& all, const Measured& measured, Tick begin, Visit&& visit) {
    const std::vector<std::size_t>& dims = folded_->kinds.dims(collectives_.kind_of(group));
    for (std::uint32_t p = 0; p < all.at.size(); ++p) {
        const std::uint32_t rank = collectives_.membership().rank(group, p);
        PortUse roughly;
        if (measured.uses.empty()) roughly = folded_->timers.use(measured, p, begin, all.at[p]);
        const Tick base = measured.uses.empty() ? 0 : begin;
        for (std::size_t d = 0; d < dims.size(); ++d) {
            const PortUse& mine = measured.uses.empty() ? roughly : measured.uses[p][d];
            if (!mine.out.empty())
                visit(out_held_[rank][dims[d]], ports_.out_until(rank, dims[d]), Span{base + mine.out.from(), base + mine.out.until()});
            if (!mine.in.empty())
                visit(in_held_[rank][dims[d]], ports_.in_until(rank, dims[d]), Span{base + mine.in.from(), base + mine.in.until()});
        }
    }
}

// Whether it meets nothing of what is known so far. Timed collectives that it meets do not stand either.
bool Promotion::stands(std::uint32_t group, std::uint32_t serial, const Gathering& all, const Measured& measured, Tick begin) {
    bool alone = true;
    each_use(group, all, measured, begin, [&](const Held& held, Tick messages, const Span& mine) {
        const bool meets = held.until > mine.from && (held.kind != collectives_.kind_of(group) || held.serial != serial);
        if (meets) meet(held);
        alone = alone && !meets && std::max(messages, held.asked) <= mine.from;
    });
    return alone;
}

void Promotion::stand(std::uint32_t group, std::uint32_t serial, const Gathering& all, const Measured& measured, Tick begin) {
    const std::uint32_t kind = collectives_.kind_of(group);
    each_use(group, all, measured, begin,
             [&](Held& held, Tick, const Span& mine) { held = {std::max(held.until, mine.until), begin, kind, serial, held.asked}; });
    if (record_) ports_.traffic.usage.repeat(measured.steps, begin, folded_->kinds.groups_like(kind));
    for (std::uint32_t p = 0; p < all.at.size(); ++p) {
        const std::uint32_t rank = collectives_.membership().rank(group, p);
        const std::uint64_t key = static_cast<std::uint64_t>(rank) << 32 | all.node[p];
        const bool late = measured.late[p] != 0;
        clock_.at(add(begin, measured.done[p]), late ? BatchClock::arrive : BatchClock::done,
                  {key, 0, late ? measured_over : node_over, rank, all.node[p]});
        if (record_ && !measured.loads.empty())
            for (const Load& load : measured.loads[measured.loads.size() == 1 ? 0 : p]) ports_.carry(rank, load);
    }
}

void Promotion::go_back_before(std::uint32_t kind, std::uint32_t serial, Tick begin) {
    quotient_.conflicts.insert(kind, number(group_of(kind), serial));
    back_to_ = std::min(back_to_, begin);
}

// The message whose way was found last asks for ports of an NPU.
void Promotion::keep_apart(std::int32_t npu, Holdings& held) {
    auto& mine = held[static_cast<std::size_t>(quotient_.slot_of(npu))];
    ports_.each_dim([&](std::size_t d) {
        if (mine[d].until > clock_.now) meet(mine[d]);
        mine[d].asked = clock_.now + 1;
    });
}

// Messages of several ranks that come to one port at one instant and mean the same to it go by their ranks: these must stand in one
// order for all equals.
Tick Promotion::land(const Message& m, const Keyed& key) {
    const auto slot = static_cast<std::uint32_t>(m.tag);
    const std::int32_t npu = m.flight.to;
    const Tick when = ports_.deliver(m.flight, clock_.now, {key.high, key.low, slot});
    for (const Ports::Order& other : ports_.ties())
        if (m.purpose != Message::node || !quotient_.ordered(static_cast<std::uint32_t>(quotient_.slot_of(npu)), other.slot, slot))
            throw Unfoldable{"messages of several ranks reach one port at one instant"};
    keep_apart(npu, in_held_);
    return when;
}

// --- periods that recur

Tick Promotion::horizon(Tick now) const {
    for (const auto& [key, g] : gatherings_)
        for (std::size_t p = 0; p < g.node.size(); ++p)
            if (g.node[p] != nothing) now = std::min(now, g.at[p]);
    return now;
}

void Promotion::write(Recurrence& to) {
    to.count(gatherings_.size());
    for (const auto& [key, g] : gatherings_) {
        to.word(key.first), to.word(static_cast<std::int64_t>(key.second) - collectives_.issued(key.first)), to.word(g.collective);
        for (std::uint32_t p = 0; p < g.node.size(); ++p) {
            to.word(g.node[p] != nothing);
            if (g.node[p] != nothing) to.time(g.at[p]), to.node(collectives_.membership().rank(key.first, p), g.node[p]);
        }
    }
    for (const auto* held : {&out_held_, &in_held_})
        for (const auto& dims : *held)
            for (const Held& h : dims) {
                to.until(h.until), to.until(h.asked);
                if (to.matters(h.until))
                    to.word(h.kind), to.word(static_cast<std::int64_t>(h.serial) - collectives_.issued(group_of(h.kind)));
            }
}

// Whether a collective is timed depends on its number: as far as the coming ones are like those of this period. One that some members
// have begun as messages, the others join as such after the jump.
std::uint64_t Promotion::periods_alike(const std::vector<std::uint32_t>& serials, std::size_t issues, std::uint64_t most) const {
    for (std::size_t i = issue_count_ - issues; i < issue_count_; ++i)
        for (std::uint64_t k = 1; k <= most && issues_[i].measured; ++k) {
            const Issue& issue = issues_[i];
            if (quotient_.conflicts.contains(issue.kind, issue.serial + static_cast<std::uint32_t>(k) * serials[group_of(issue.kind)]))
                most = k - 1;
        }
    return most;
}

void Promotion::skip(const std::vector<std::uint32_t>& serials, std::size_t issues, std::uint64_t periods) {
    const std::size_t first = issue_count_ - issues;
    for (std::uint64_t k = 1; k <= periods; ++k)
        for (std::size_t i = first; i < first + issues; ++i) {
            Issue issue = issues_[i];
            issue.serial += static_cast<std::uint32_t>(k) * serials[group_of(issue.kind)];
            if (!issue.measured && k == periods) quotient_.conflicts.insert(issue.kind, issue.serial);
            add_issue(issue);
        }
}

}  // namespace astrarium
