#include "accelerate/alone.hpp"

#include "accelerate/quotient/quotient.hpp"
#include "media/link_holds.hpp"
#include "run/native.hpp"

namespace astrarium {
namespace {

Alone run_members(const Plan& plan, const RunOptions& options) {
    Native run(plan, options);
    const Parts& parts = run.parts();
    Traffic& traffic = *parts.messages.traffic();
    Ports* ports = parts.messages.ports();
    traffic.usage.keep_steps();
    if (ports) ports->keep_uses();
    run.start();
    run.run_to_end();
    Alone out{0,
              parts.nodes.finish(),
              ports ? ports->quiet() : 0,
              !parts.nodes.done(),
              parts.clock.handled,
              {},
              parts.nodes.ended_late(),
              traffic.usage.steps(),
              {}};
    for (std::size_t r = 0; r < parts.nodes.ranks(); ++r)
        out.uses.push_back(ports ? ports->uses(options.equals ? r : static_cast<std::size_t>(plan.npu_of[r])) : std::vector<PortUse>{});
    if (options.record) out.loads = loads_of(run.outcome(), plan.npu_of);
    return out;
}

}  // namespace

Alone run_native_members(const Plan& plan, bool record) { return run_members(plan, {.record = record}); }

Alone run_native_alone(const Plan& plan, bool record) {
    Native run(plan, {.record = record, .alone = true});
    const Parts& parts = run.parts();
    Collectives& collectives = parts.collectives;
    Traffic& traffic = *parts.messages.traffic();
    Ports& ports = *parts.messages.ports();
    traffic.usage.keep_steps();
    ports.keep_uses();
    const std::uint32_t instance = collectives.open(collectives.membership().all(), 0, 0);
    collectives.begin_alone(instance);
    run.run_to_end();
    const bool ended = collectives.instance(instance).members.empty();
    return {collectives.alone_done(),
            {},
            ports.quiet(),
            !ended,
            parts.clock.handled,
            {traffic.loads()},
            {collectives.alone_late()},
            traffic.usage.steps(),
            {ports.uses(0)}};
}

Alone run_quotient_alone(Quotient& quotient, const Collective& collective, std::uint32_t kind,
                         const std::vector<std::uint32_t>& participants, const std::vector<Tick>& offsets, bool record) {
    const Plan& all = quotient.plan();
    Plan plan;
    plan.npus = all.npus, plan.network = all.network, plan.policy = all.policy, plan.npu_of = all.npu_of, plan.groups = all.groups;
    plan.reduce_bandwidth = all.reduce_bandwidth;
    plan.collectives.push_back(collective);
    Arrivals arrivals;
    plan.programs.push_back(Arrivals::none());  // of classes that take no part
    std::vector<std::int64_t> slot_ptr{0};
    std::vector<std::int32_t> program_of(all.ranks(), 0), zeros(participants.size(), 0),
        group(participants.size(), static_cast<std::int32_t>(kind) - 1);
    for (std::size_t i = 0; i < participants.size(); ++i) {
        program_of[participants[i]] = static_cast<std::int32_t>(i + 1);
        plan.programs.push_back(arrivals.at(offsets[i]));
    }
    for (const std::int32_t program : program_of) slot_ptr.push_back(slot_ptr.back() + (program > 0));
    plan.program_of = {program_of.data(), program_of.size()}, plan.slot_ptr = {slot_ptr.data(), slot_ptr.size()};
    plan.slot_a = {zeros.data(), zeros.size()}, plan.slot_b = {group.data(), group.size()}, plan.slot_c = {zeros.data(), zeros.size()};
    return or_unfoldable([&] { return run_members(plan, {.record = record, .equals = &quotient}); });
}

// Who comes late does so once the messages of that instant have arrived.
AloneOnLinks run_alone_on_links(const Plan& plan, const std::vector<Coming>& comings) {
    Native run(plan, {.record = true});
    const Parts& parts = run.parts();
    Traffic& traffic = *parts.messages.traffic();
    LinkHolds used;
    used.reset(2 * traffic.ports());
    parts.messages.watch(used);
    traffic.usage.keep_steps();
    for (std::uint32_t rank = 0; rank < comings.size(); ++rank)
        parts.clock.at(comings[rank].at, comings[rank].late ? BatchClock::arrive : BatchClock::done,
                       {std::uint64_t{rank} << 32, 0, comings[rank].late ? measured_over : node_over, rank, 0});
    run.run_to_end();
    if (!parts.nodes.done()) return {};
    AloneOnLinks out{parts.nodes.finish(), parts.nodes.ended_late(), traffic.usage.steps(), {}, {}, parts.clock.handled};
    out.traffic = run.outcome();
    const Outcome& t = out.traffic;
    for (std::size_t k = 0; k < t.link_dim.size(); ++k) {
        const bool inward = t.link_from[k] < 0;
        const std::size_t port =
            traffic.port(static_cast<std::size_t>(t.link_dim[k]), inward ? t.link_to[k] : t.link_from[k], t.link_port[k]) +
            (inward ? traffic.ports() : 0);
        out.windows.push_back({used.used_from(port), used.used_until(port)});
    }
    return out;
}

}  // namespace astrarium
