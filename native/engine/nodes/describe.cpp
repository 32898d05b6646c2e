#include "nodes/describe.hpp"

namespace astrarium {

Place place_of(const Plan& plan, const Program& program, std::uint32_t rank, std::uint32_t node) {
    static const char* const names[] = {"delay", "collective", "send", "recv", "remote access", "skip"};
    std::string work = names[program.kind[node]];
    const auto kind = static_cast<Kind>(program.kind[node]);
    if (kind == Kind::send || kind == Kind::recv) {
        const auto at = static_cast<std::size_t>(plan.slot_ptr[rank] + program.slot[node]);
        work += std::string(kind == Kind::send ? " to " : " from ") + std::to_string(plan.slot_a[at]) + ", tag " +
                std::to_string(plan.slot_b[at]) + ", " + std::to_string(program.size[node]) + " bytes";
    }
    return {rank, program.node_id[node], std::move(work)};
}

void say(Wait& wait, const Place& node, const std::string& does) {
    if (!wait.node) wait.node = node.node;
    wait.text += " node " + std::to_string(*node.node) + " (" + node.work + ")" + does;
}

}  // namespace astrarium
