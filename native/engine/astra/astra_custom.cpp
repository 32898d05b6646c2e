#include "astra/astra_custom.hpp"

#include "astra/hash_order.hpp"

namespace astrarium {

namespace {

std::size_t number_of(const Custom& custom, const Stream& s) { return static_cast<std::size_t>(custom.program_of[s.position]); }

}  // namespace

void CustomMachine::start(const Stream& s) {
    const Custom& custom = custom_of(s);
    const std::size_t number = number_of(custom, s);
    Run& run = runs_[s.id];
    run = Run{};
    run.left.assign(custom.programs[number].parents.begin(), custom.programs[number].parents.end());
    run.ready.assign(custom.roots[number].begin(), custom.roots[number].end());
    issue_ready(s, run);
}

void CustomMachine::issue_ready(const Stream& s, Run& run) {
    if (run.ready.empty()) return;
    const Custom& custom = custom_of(s);
    const std::vector<std::uint32_t> ready = hash_order(run.ready, custom.programs[number_of(custom, s)].node_id.begin(), run.grown);
    run.ready.clear();
    run.ongoing += static_cast<std::uint32_t>(ready.size());
    for (const std::uint32_t node : ready) issue(s, node);
}

void CustomMachine::issue(const Stream& s, std::uint32_t node) {
    const Custom& custom = custom_of(s);
    const std::size_t number = number_of(custom, s);
    const Program& program = custom.programs[number];
    const auto kind = static_cast<Kind>(program.kind[node]);
    if (kind != Kind::send && kind != Kind::recv)
        return events_.after(s.rank, program.duration[node], {npu_event::custom_done, s.id, node});
    const auto slot = static_cast<std::size_t>(program.slot[node]);
    const std::int64_t tag = custom.slot_tag[number][slot];
    const std::uint32_t peer = meetings_.rank_of(s, static_cast<std::uint32_t>(custom.slot_peer[number][slot]));
    const Done done{Done::custom, s.id, node};
    if (kind == Kind::send) mail_.send({tag, program.size[node], s.rank, peer}, done);
    else mail_.receive({tag, program.size[node], peer, s.rank}, done);
}

bool CustomMachine::completed(const Stream& s, std::uint32_t node) {
    const Custom& custom = custom_of(s);
    const Program& program = custom.programs[number_of(custom, s)];
    Run& run = runs_[s.id];
    --run.ongoing;
    for (std::int32_t e = program.child_ptr[node]; e < program.child_ptr[node + 1]; ++e) {
        const auto child = static_cast<std::size_t>(program.child[static_cast<std::size_t>(e)]);
        if (--run.left[child] == 0) run.ready.push_back(static_cast<std::uint32_t>(child));
    }
    issue_ready(s, run);
    if (run.ongoing > 0) return false;
    runs_.erase(s.id);
    return true;
}

}  // namespace astrarium
