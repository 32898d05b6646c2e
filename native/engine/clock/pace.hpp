#pragma once

#include <cstdint>
#include <vector>

namespace astrarium {

// Messages of a phase that leave an NPU one after the other: each keeps `port` for `service` ns and lets the next go `latency` ns later.
struct Stride {
    int port, times;
    double service, latency;
};

// Chunks of one collective at one NPU, where all NPUs take equal steps: `phases[k]` are the strides of a kind of phase, `paths[k]` the phases that a
// kind of chunk takes, `chunks` the kinds in order. Phases of a number are entered in chunk order, `limit` at once (0: all), `entry` ns
// after they may be; a port serves in order of arrival. When the last chunk ends, in ns. The Python twin is engine/strides.py.
double pace(const std::vector<std::vector<Stride>>& phases, const std::vector<std::vector<int>>& paths, const std::vector<int>& chunks,
            int limit, double entry);

}  // namespace astrarium
