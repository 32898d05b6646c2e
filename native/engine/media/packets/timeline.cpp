#include "media/packets/timeline.hpp"

#include <algorithm>

namespace astrarium::packets {

void Timeline::widen(Row& row) {
    for (std::size_t k = 0; k < bins; ++k) {
        const bool half = 2 * k < bins;
        row.longest[k] = half ? std::max(row.longest[2 * k], row.longest[2 * k + 1]) : 0;
        row.paused[k] = half ? row.paused[2 * k] + row.paused[2 * k + 1] : 0;
    }
    ++row.shift;
}

void Timeline::reach(Row& row, Tick time) {
    if (row.longest.empty()) row.longest.assign(bins, 0), row.paused.assign(bins, 0);
    while ((time >> row.shift) >= static_cast<Tick>(bins)) widen(row);
}

void Timeline::queue(std::uint32_t link, Tick now, std::int64_t bytes) {
    Row& row = rows_[link];
    if (row.bytes == 0 && bytes == 0) return;
    reach(row, now);
    const auto bin = static_cast<std::size_t>(now >> row.shift);
    if (row.bytes > 0)
        for (auto k = static_cast<std::size_t>(row.since >> row.shift); k <= bin; ++k) row.longest[k] = std::max(row.longest[k], row.bytes);
    row.longest[bin] = std::max(row.longest[bin], bytes);
    row.bytes = bytes, row.since = now;
}

void Timeline::paused(std::uint32_t link, Tick begin, Tick end) {
    Row& row = rows_[link];
    reach(row, end);
    for (Tick at = begin; at < end;) {
        const Tick bin = at >> row.shift, over = std::min(end, (bin + 1) << row.shift);
        row.paused[static_cast<std::size_t>(bin)] += over - at, at = over;
    }
}

void Timeline::report(PacketCounts& out) const {
    std::vector<Row> rows;
    int shift = first_shift;
    for (std::size_t link = 0; link < rows_.size(); ++link) {
        if (rows_[link].longest.empty()) continue;
        out.watched.push_back(static_cast<std::int32_t>(link)), rows.push_back(rows_[link]);
        shift = std::max(shift, rows_[link].shift);
    }
    if (rows.empty()) return;
    out.width = Tick{1} << shift;
    for (Row& row : rows) {
        while (row.shift < shift) widen(row);
        out.longest.insert(out.longest.end(), row.longest.begin(), row.longest.end());
        out.paused_in.insert(out.paused_in.end(), row.paused.begin(), row.paused.end());
    }
}

}  // namespace astrarium::packets
