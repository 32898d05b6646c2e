// Bytes and busy times of ports or links under ASTRA-sim's rule book, where recorded.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "media/usage.hpp"
#include "plan/plan.hpp"

namespace astrarium {

// Counters are numbered npu * dims + dim, or by links of the one dim (AstraLinks).
class AstraTraffic {
public:
    AstraTraffic(const Network& network, std::size_t counters, bool by_step)
        : network_(network), bytes_(counters, 0), busy_(counters, 0), usage_(network.dims.size()) {
        if (by_step) usage_.keep_steps();
    }

    void add(std::size_t counter, std::int64_t bytes, Tick busy) { bytes_[counter] += bytes, busy_[counter] += busy; }
    void use(std::size_t dim, Tick begin, Tick busy) { usage_.add(dim, begin, busy); }  // of what leaves an NPU

    std::vector<Step> steps() { return usage_.steps(); }
    void report(Outcome& out);

private:
    struct Ends {
        std::int32_t dim, from, to;
    };
    Ends ends_of(std::int32_t counter) const;

    const Network& network_;
    std::vector<std::int64_t> bytes_;
    std::vector<Tick> busy_;
    Usage usage_;
};

}  // namespace astrarium
