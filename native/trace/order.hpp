// The order in which nodes become ready when every node takes no time: lowest id first among the ready ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace astrarium::trace {

// `parent[ptr[i]:ptr[i + 1]]` are the indexes of the nodes that node i waits for; a negative one never finishes.
// Returns the indexes of the nodes that can run, in order; those behind a cycle or a missing parent are left out.
// Throws std::invalid_argument when the arrays do not fit each other.
std::vector<std::int32_t> topological_order(const std::uint64_t* id, std::size_t nodes, const std::int64_t* ptr, const std::int32_t* parent,
                                            std::size_t edges);

}  // namespace astrarium::trace
