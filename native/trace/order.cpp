#include "order.hpp"

#include <queue>
#include <stdexcept>
#include <utility>

namespace astrarium::trace {
namespace {

// Children of every node, as ptr and index lists, from its parents.
struct Children {
    std::vector<std::int64_t> ptr;
    std::vector<std::int32_t> node;
};

void check(std::size_t nodes, const std::int64_t* ptr, const std::int32_t* parent, std::size_t edges) {
    bool fits = ptr[0] == 0 && ptr[nodes] == static_cast<std::int64_t>(edges);
    for (std::size_t i = 0; i < nodes && fits; i++) fits = ptr[i] <= ptr[i + 1];
    for (std::size_t e = 0; e < edges && fits; e++) fits = parent[e] < static_cast<std::int64_t>(nodes);
    if (!fits) throw std::invalid_argument("topological_order: ptr and parent do not fit the nodes");
}

Children invert(std::size_t nodes, const std::int64_t* ptr, const std::int32_t* parent, std::size_t edges) {
    Children children{std::vector<std::int64_t>(nodes + 2), std::vector<std::int32_t>(edges)};
    for (std::size_t e = 0; e < edges; e++)
        if (parent[e] >= 0) children.ptr[static_cast<std::size_t>(parent[e]) + 2]++;
    for (std::size_t i = 2; i < nodes + 2; i++) children.ptr[i] += children.ptr[i - 1];
    for (std::size_t i = 0; i < nodes; i++)
        for (std::int64_t e = ptr[i]; e < ptr[i + 1]; e++)
            if (parent[e] >= 0)
                children.node[static_cast<std::size_t>(children.ptr[static_cast<std::size_t>(parent[e]) + 1]++)] =
                    static_cast<std::int32_t>(i);
    return children;
}

}  // namespace

std::vector<std::int32_t> topological_order(const std::uint64_t* id, std::size_t nodes, const std::int64_t* ptr, const std::int32_t* parent,
                                            std::size_t edges) {
    check(nodes, ptr, parent, edges);
    const Children children = invert(nodes, ptr, parent, edges);
    using Entry = std::pair<std::uint64_t, std::int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    std::vector<std::int64_t> waits(nodes);
    for (std::size_t i = 0; i < nodes; i++) {
        waits[i] = ptr[i + 1] - ptr[i];
        if (waits[i] == 0) ready.emplace(id[i], static_cast<std::int32_t>(i));
    }
    std::vector<std::int32_t> order;
    order.reserve(nodes);
    while (!ready.empty()) {
        const std::int32_t node = ready.top().second;
        ready.pop();
        order.push_back(node);
        const auto at = static_cast<std::size_t>(node);
        for (std::int64_t c = children.ptr[at]; c < children.ptr[at + 1]; c++) {
            const std::int32_t child = children.node[static_cast<std::size_t>(c)];
            if (--waits[static_cast<std::size_t>(child)] == 0) ready.emplace(id[static_cast<std::size_t>(child)], child);
        }
    }
    return order;
}

}  // namespace astrarium::trace
