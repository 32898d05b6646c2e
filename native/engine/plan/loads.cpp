#include <unordered_map>

#include "plan/run.hpp"

namespace astrarium {

std::vector<std::vector<Load>> loads_of(const Outcome& outcome, const View<std::int32_t>& npu_of) {
    std::vector<std::vector<Load>> out(npu_of.size);
    std::unordered_map<std::int32_t, std::size_t> member;
    for (std::size_t p = 0; p < npu_of.size; ++p) member.emplace(npu_of[p], p);
    for (std::size_t k = 0; k < outcome.link_dim.size(); ++k) {
        const bool inward = outcome.link_from[k] < 0;
        const auto found = member.find(inward ? outcome.link_to[k] : outcome.link_from[k]);
        if (found == member.end()) continue;
        const auto port = outcome.link_port.empty() ? static_cast<std::int32_t>(out[found->second].size()) : outcome.link_port[k];
        out[found->second].push_back({outcome.link_dim[k], port, inward, outcome.link_bytes[k], outcome.link_busy[k]});
    }
    return out;
}

}  // namespace astrarium
