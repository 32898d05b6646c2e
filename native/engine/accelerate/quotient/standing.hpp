// How members of a group stand in the network, as far as it matters to what happens among them.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

struct Standing {
    std::vector<std::uint32_t> members;
    std::vector<std::size_t> dims;      // in which they differ
    std::vector<std::uint64_t> places;  // in these dims, relative to the first: the same words for groups that stand alike
    bool whole = false;                 // every NPU, in order
};

// Of a plan's groups (-1: all ranks), found when asked for; for several threads at once. They are those of every plan with the same
// ranks and groups, whose dims have as many NPUs, and are meshes and hypercubes alike.
class Standings {
public:
    const Standing& of(const Plan& plan, std::int32_t group);
    std::size_t bytes() const;

private:
    mutable std::mutex lock_;
    std::unordered_map<std::int32_t, std::unique_ptr<const Standing>> known_;
};

// Whether every member of a group (empty: all ranks) sees the same ways in every step of a phase. `whole`: rank r is NPU r of
// a full network.
bool stand_alike(const Plan& plan, const Phase& phase, const View<std::int32_t>& group, bool whole);

}  // namespace astrarium
