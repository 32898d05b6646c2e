// The two networks of ASTRA-sim's analytical back ends: messages that never meet, and FIFO links (AstraLinks).
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "astra/astra_links.hpp"
#include "astra/astra_ties.hpp"
#include "astra/astra_traffic.hpp"
#include "clock/clock.hpp"
#include "media/distance.hpp"
#include "plan/plan.hpp"

namespace astrarium {

// What a message takes over the lowest dim in which two NPUs differ, and that one only; `dim` becomes which.
inline Tick unshared(const Network& network, const Geometry& geometry, int from, int to, std::int64_t size, std::size_t& dim) {
    const auto& dims = network.dims;
    for (dim = 0; dim + 1 < dims.size() && from % dims[dim].npus == to % dims[dim].npus; ++dim)
        from /= dims[dim].npus, to /= dims[dim].npus;
    const Dim& link = dims[dim];
    const int hops = geometry.hops(dim, from % link.npus, to % link.npus);
    return ticks(hops * link.latency + static_cast<double>(size) / link.bandwidth, true);
}

class AstraNetwork {
public:
    // `looped`: see AstraLinks. Throws Unsupported where links would have several dims.
    AstraNetwork(const Plan& plan, bool record, bool looped, Clock& clock, Ties& ties);

    // Bytes from one NPU to another; the event happens when they have arrived.
    void carry(std::uint32_t from, std::uint32_t to, std::int64_t size, Event then) {
        if (links_shared_) return links_.carry(from, to, size, then);
        clock_.after(delay(from, to, size), then);
    }

    // Whether `delay` says all about a message: it meets no other and nothing is recorded.
    bool only_delays() const { return !links_shared_ && !traffic_; }
    Tick delay(std::uint32_t from, std::uint32_t to, std::int64_t size) {
        std::size_t dim = 0;
        const Tick delay = unshared(network_, geometry_, static_cast<int>(from), static_cast<int>(to), size, dim);
        if (traffic_) note_use(from, dim, size);
        return delay;
    }

    AstraLinks& links() { return links_; }
    std::vector<Step> steps() { return traffic_ ? traffic_->steps() : std::vector<Step>{}; }
    void report(Outcome& out) { traffic_->report(out); }  // of a recorded run

private:
    void note_use(std::uint32_t from, std::size_t dim, std::int64_t size);

    const Network& network_;
    const bool links_shared_;
    Clock& clock_;
    Geometry geometry_;
    std::optional<AstraTraffic> traffic_;  // where recorded
    AstraLinks links_;
};

}  // namespace astrarium
