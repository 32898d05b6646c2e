#include "astra/astra_engine.hpp"

#include <utility>
#include <vector>

#include "nodes/describe.hpp"
#include "plan/how.hpp"

namespace astrarium {

namespace {

std::size_t running(const Plan& plan, AstraEngine::Runs runs) { return runs == AstraEngine::Runs::one_member ? 1 : plan.ranks(); }

}  // namespace

AstraEngine::AstraEngine(const Plan& plan, bool record, Runs runs)
    : plan_(plan), record_(record), one_member_(runs == Runs::one_member), ties_{runs != Runs::every_rank},
      events_(clock_, running(plan, runs)), network_(plan, record, one_member_, clock_, ties_), mail_(plan, clock_, network_, *this),
      collectives_({plan, running(plan, runs), one_member_, record, clock_, events_, network_, mail_, ties_}, *this),
      remote_(plan, events_), ranks_(plan, running(plan, runs), record, clock_, *this) {}

Outcome AstraEngine::run() {
    ranks_.begin();
    run_clock();
    explain_stall();
    return outcome();
}

Alone AstraEngine::run_members() {
    ranks_.begin();
    run_clock();
    ties_.found |= !ranks_.all_finished();  // it never ends: let the whole run say why
    Alone out = alone();
    out.each = ranks_.finish();
    out.late.assign(ranks_.size(), 0);
    if (record_) out.loads = loads_of(outcome(), plan_.npu_of);
    return out;
}

Alone AstraEngine::run_one_member() {
    collectives_.issue_alone();
    run_clock();
    ties_.found |= ended_ < 0;
    Alone out = alone();
    out.done = ended_;
    out.late = {0};
    if (record_) out.loads = loads_of(outcome(), {plan_.npu_of.data, 1});
    return out;
}

Alone AstraEngine::alone() {
    Alone out;
    out.quiet = clock_.now, out.tie = ties_.found, out.events = clock_.handled;
    out.steps = network_.steps();
    return out;
}

void AstraEngine::start(std::uint32_t rank, std::uint32_t node) {
    const Program& program = plan_.program(rank);
    const auto kind = static_cast<Kind>(program.kind[node]);
    switch (kind) {
        case Kind::delay: return events_.after(rank, program.duration[node], {npu_event::node_done, rank, node});
        case Kind::collective: return collectives_.issue(rank, node);
        case Kind::remote: return remote_.access(rank, node);
        default: break;
    }
    const auto at = static_cast<std::size_t>(plan_.slot_ptr[rank]) + static_cast<std::size_t>(program.slot[node]);
    const auto peer = static_cast<std::uint32_t>(plan_.slot_a[at]);
    const Done done{Done::node, rank, node};
    if (kind == Kind::send) return mail_.send({plan_.slot_b[at], program.size[node], rank, peer}, done);
    if (peer >= plan_.ranks()) throw BadTrace("its peer rank does not exist", place_of(plan_, program, rank, node));
    mail_.receive({plan_.slot_b[at], program.size[node], peer, rank}, done);
}

void AstraEngine::ended(Done done) {
    if (done.what == Done::stream) return collectives_.received(done.a);
    if (done.what == Done::custom) return collectives_.custom_done(done.a, done.b);
    if (one_member_) ended_ = clock_.now;
    else ranks_.complete(done.a, done.b);
}

void AstraEngine::run_clock() {
    clock_.run([this](const Event& event) { handle(event); });
}

inline void AstraEngine::handle(const Event& event) {
    switch (event.kind) {
        case astra_event::npu_batch: return events_.run(event.a, [this](const NpuEvent& own) { handle_npu(own); });
        case astra_event::chunk_arrives:
            return collectives_.arrived(event.a, static_cast<std::uint32_t>(event.b >> 32), static_cast<std::uint32_t>(event.b));
        case astra_event::chunk_received: return collectives_.received_late(event.a);
        case astra_event::message_arrives: return mail_.arrived(event.a);
        case astra_event::done_due: return mail_.due(event.a);
        case astra_event::next_hop: {
            Event then;
            if (network_.links().arrived(event.a, then)) handle(then);
            return;
        }
        case astra_event::link_free: return network_.links().freed(event.a);
        default: break;
    }
}

inline void AstraEngine::handle_npu(const NpuEvent& event) {
    switch (event.kind) {
        case npu_event::node_done: return ranks_.complete(event.a, event.b);
        case npu_event::crossed: return collectives_.crossed(event.a, event.b);
        case npu_event::remote_free: return remote_.freed(event.a);
        case npu_event::custom_done: return collectives_.custom_done(event.a, event.b);
        case npu_event::bus: return collectives_.run_bus(event.a, event.b);
        default: break;
    }
}

Outcome AstraEngine::outcome() {
    Outcome out;
    out.events = clock_.handled, out.how = {every_message};
    ranks_.report(out);
    if (record_) network_.report(out);
    return out;
}

void AstraEngine::explain_stall() const {
    std::vector<Wait> waits;
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank)
        if (!ranks_.finished(rank) || ranks_.blocked(rank) > 0) waits.push_back(wait_of(rank));
    if (!waits.empty()) throw Stall(std::move(waits));
}

// One sentence for a rank that is not finished: what its unfinished nodes wait for.
Wait AstraEngine::wait_of(std::uint32_t rank) const {
    const std::size_t blocked = ranks_.blocked(rank);
    Wait wait{"rank " + std::to_string(rank) + ":", rank, {}};
    if (ranks_.finished(rank)) {
        (wait.text += ' ') += std::to_string(blocked) + " nodes never start: they wait for each other";
        return wait;
    }
    collectives_.explain(rank, wait);
    for (const std::uint32_t node : mail_.unsent(rank))
        say(wait, place_of(plan_, plan_.program(rank), rank, node), " waits for a send that never comes");
    ranks_.explain(rank, wait);
    if (blocked) (wait.text += ' ') += std::to_string(blocked) + " nodes wait for these";
    return wait;
}

Outcome run_astra(const Plan& plan, bool record) { return AstraEngine(plan, record, AstraEngine::Runs::every_rank).run(); }
Alone run_astra_alone(const Plan& plan, bool record) { return AstraEngine(plan, record, AstraEngine::Runs::one_member).run_one_member(); }
Alone run_astra_members(const Plan& plan, bool record) { return AstraEngine(plan, record, AstraEngine::Runs::members).run_members(); }

}  // namespace astrarium
