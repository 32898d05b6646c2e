#include "astra/astra_chunks.hpp"

namespace astrarium {

// Which of several chunks goes on first would be a choice, where messages of several ranks come at one instant: it matters
// where the chunks then ask for one link.
void ChunkMail::note(const Stream& s, std::uint32_t source) {
    if (!plan_.network.medium->on_links) return;
    if (last_.size() <= s.rank) last_.resize(s.rank + 1);
    Arrival& last = last_[s.rank];
    if (last.instant != clock_.now) last = {clock_.now, s.id, source, false, false};
    last.streams |= last.stream != s.id;
    last.sources |= last.source != source;
    ties_.found |= last.streams && last.sources;
}

}  // namespace astrarium
