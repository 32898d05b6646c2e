// The checks of changes of speed.
#include "plan/check_plan.hpp"
#include "plan/graph.hpp"
#include "plan/rates.hpp"

namespace astrarium {
namespace {

std::string wrong_with(const Plan& plan, std::size_t row, std::int64_t links) {
    const Changes& c = plan.changes;
    const auto what = static_cast<Changing>(c.what[row]);
    if (what == Changing::link && !plan.network.medium->takes_graph)
        return std::string(plan.network.medium->name) + " has no links of its own";
    if (c.time[row] < 0) return "its time is below 0";
    if (c.factor[row] < 0 || c.factor[row] > Rates::full) return "its factor is not from 0 to 1,000,000 parts per million";
    if (what != Changing::npu && what != Changing::link) return "of neither an NPU nor a link";
    const bool known = c.number[row] >= 0 && c.number[row] < (what == Changing::npu ? plan.npus : links);
    return known ? "" : std::string("there is no ") + (what == Changing::npu ? "NPU " : "link ") + std::to_string(c.number[row]);
}

}  // namespace

void check_changes(const Plan& plan) {
    const Changes& c = plan.changes;
    require(c.what.size == c.time.size && c.number.size == c.time.size && c.factor.size == c.time.size, "changes differ in length");
    if (plan.policy.order == Order::astra_sim && c.time.size > 0) throw Unsupported("changes while it runs, under ASTRA-sim's rule book");
    const std::int64_t links = plan.network.graph ? static_cast<std::int64_t>(plan.network.graph->links()) : links_of(plan.network);
    for (std::size_t row = 0; row < c.time.size; ++row)
        if (const std::string why = wrong_with(plan, row, links); !why.empty())
            throw Unsupported("change " + std::to_string(row) + ": " + why);
}

}  // namespace astrarium
