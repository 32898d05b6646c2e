#include "plan/graph.hpp"

namespace astrarium {

LinksOf::LinksOf(std::int32_t nodes, const View<std::int32_t>& ends, const std::vector<bool>& dead)
    : first_(static_cast<std::size_t>(nodes) + 1, 0) {
    const auto there = [&dead](std::size_t link) { return dead.empty() || !dead[link]; };
    for (std::size_t link = 0; link < ends.size; ++link)
        if (there(link)) ++first_[static_cast<std::size_t>(ends[link]) + 1];
    for (std::size_t n = 1; n < first_.size(); ++n) first_[n] += first_[n - 1];
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    links_.resize(first_.back());
    for (std::size_t link = 0; link < ends.size; ++link)
        if (there(link)) links_[next[static_cast<std::size_t>(ends[link])]++] = static_cast<std::uint32_t>(link);
}

std::vector<std::int32_t> distances(std::int32_t nodes, std::int32_t start, const LinksOf& links, const View<std::int32_t>& ends) {
    std::vector<std::int32_t> found(static_cast<std::size_t>(nodes), no_way), reached{start};
    found[static_cast<std::size_t>(start)] = 0;
    for (std::size_t k = 0; k < reached.size(); ++k)
        for (const std::uint32_t link : links[reached[k]]) {
            std::int32_t& end = found[static_cast<std::size_t>(ends[link])];
            if (end != no_way) continue;
            end = found[static_cast<std::size_t>(reached[k])] + 1;
            reached.push_back(ends[link]);
        }
    return found;
}

}  // namespace astrarium
