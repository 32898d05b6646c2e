#include "astra/astra_traffic.hpp"

namespace astrarium {

AstraTraffic::Ends AstraTraffic::ends_of(std::int32_t counter) const {
    const auto dims = static_cast<std::int32_t>(network_.dims.size());
    const std::int32_t n = network_.dims[0].npus;
    if (!network_.medium->on_links) return {counter % dims, counter / dims, -1};
    switch (network_.dims[0].shape) {
        case Shape::ring: {
            const std::int32_t from = counter / 2;
            return {0, from, counter % 2 ? (from == 0 ? n - 1 : from - 1) : (from == n - 1 ? 0 : from + 1)};
        }
        case Shape::switch_: return counter < n ? Ends{0, counter, -1} : Ends{0, -1, counter - n};
        default: return {0, counter / n, counter % n};
    }
}

void AstraTraffic::report(Outcome& out) {
    usage_.report(out);
    for (std::size_t counter = 0; counter < bytes_.size(); ++counter) {
        if (bytes_[counter] == 0) continue;
        const Ends ends = ends_of(static_cast<std::int32_t>(counter));
        out.link_dim.push_back(ends.dim), out.link_from.push_back(ends.from), out.link_to.push_back(ends.to);
        out.link_bytes.push_back(bytes_[counter]), out.link_busy.push_back(busy_[counter]);
    }
}

}  // namespace astrarium
