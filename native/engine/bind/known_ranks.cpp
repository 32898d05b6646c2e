#include "bind/known_ranks.hpp"

#include <algorithm>

namespace astrarium {

std::shared_ptr<const Ranks> KnownRanks::find(const Key& key) {
    const auto it = known_.find(key);
    if (it == known_.end()) return nullptr;
    it->second.used = ++used_;
    const auto found = it->second.ranks;
    if (used_ % 1024 == 0) make_room();  // what is known of them grows
    return found;
}

void KnownRanks::insert(const Key& key, std::shared_ptr<const Ranks> ranks) {
    known_[key] = {std::move(ranks), ++used_};
    make_room();
}

// Those asked for longest ago go.
void KnownRanks::make_room() {
    std::size_t bytes = 0;
    for (const auto& [other, entry] : known_) bytes += entry.ranks->bytes + entry.ranks->common->bytes();
    while (known_.size() > 1 && (known_.size() > most || bytes > most_bytes)) {
        const auto oldest =
            std::min_element(known_.begin(), known_.end(), [](const auto& x, const auto& y) { return x.second.used < y.second.used; });
        bytes -= oldest->second.ranks->bytes + oldest->second.ranks->common->bytes();
        known_.erase(oldest);
    }
}

}  // namespace astrarium
