// The ports or links of a network by number, and what they have carried.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/plan.hpp"
#include "plan/run.hpp"
#include "media/distance.hpp"
#include "media/usage.hpp"

namespace astrarium {

// Which row of ports an NPU has: its own; where one rank stands for its equals, that of its class; where one stands for all, the first.
struct PortRows {
    std::size_t rows = 0;
    const std::vector<std::int32_t>* of_npu = nullptr;   // -1: none
    const std::vector<std::int64_t>* members = nullptr;  // ranks that a row stands for
    std::vector<std::int32_t> npu_of;                    // of rows, where `of_npu` is given
    bool one = false;

    static PortRows each(const Plan& plan) { return {static_cast<std::size_t>(plan.npus), nullptr, nullptr, {}, false}; }
    static PortRows looped() { return {1, nullptr, nullptr, {}, true}; }
    std::int32_t row(std::int32_t npu) const { return one ? 0 : of_npu ? (*of_npu)[static_cast<std::size_t>(npu)] : npu; }
    std::int32_t npu(std::int32_t row) const { return of_npu ? npu_of[static_cast<std::size_t>(row)] : row; }
    std::int64_t times(std::int32_t npu) const { return members ? (*members)[static_cast<std::size_t>(row(npu))] : 1; }
};

// Ports of an NPU in a dim: ring and mesh forward 0 and backward 1; switch 0; fully_connected one per peer coordinate; hypercube one per
// bit. Links have the same numbers (out side); a switch's down links follow (in side). Links of a graph have the graph's numbers; they are
// one dim.
class Traffic {
public:
    Traffic(const Network& network, PortRows rows, bool record);

    static std::size_t ports_per_npu(const Dim& dim);
    std::size_t port(std::size_t dim, std::int32_t npu, int which) const {
        return base_[dim] + static_cast<std::size_t>(rows.row(npu)) * per_npu_[dim] + static_cast<std::size_t>(which);
    }
    std::size_t first(std::size_t dim, std::size_t row) const { return base_[dim] + row * per_npu_[dim]; }
    std::size_t per_npu(std::size_t dim) const { return per_npu_[dim]; }
    std::size_t ports() const { return total_; }
    bool records() const { return record_; }

    void charge(std::size_t port, bool inward, std::int64_t size, Tick busy) {
        if (!record_) return;
        if (rows.one) return charge_one(port, inward, size, busy);
        if (inward) port += total_;
        Carried& carried = carried_[port];
        if (counts_ && carried.size == 0 && size > 0) used_.push_back(port);
        carried.size += size, carried.busy += busy;
    }
    // Periods that recur: what each port has carried, in the order of their first uses, and what they add. That takes a log of uses, which is
    // kept from the first time on that one recurs.
    void count_periods() { counts_ = true; }
    void counts(std::vector<std::int64_t>& out) const;
    bool knows(const std::vector<std::int64_t>& counts, std::size_t first) const;
    bool remember(const std::vector<std::int64_t>& counts, std::size_t first);  // from now on, if such a period is not too long
    void skip(const std::vector<std::int64_t>& counts, std::size_t first, std::int64_t periods, Tick time);
    void use(std::size_t dim, Tick begin, Tick busy, std::int32_t npu) {
        if (record_) usage.add(dim, begin, busy, rows.times(npu));
    }
    // `links`: they have two ends.
    void report(Outcome& out, bool links);
    std::vector<Load> loads() const;  // of the one NPU that stands for all
    Load named(std::size_t port, bool inward) const;
    auto state() { return std::tie(carried_, usage); }

    const PortRows rows;
    Usage usage;

private:
    struct Carried {
        std::int64_t size = 0;
        Tick busy = 0;
    };
    void charge_one(std::size_t port, bool inward, std::int64_t size, Tick busy);
    void report_graph(Outcome& out) const;

    const Network& network_;
    bool record_, counts_ = false;
    std::size_t total_ = 0;
    std::vector<std::size_t> base_, per_npu_;  // per dim: its first port, and an NPU's ports
    std::vector<Carried> carried_;             // per port; in ports, and down links, come after the others
    std::vector<std::size_t> used_;            // where periods count
    std::map<std::pair<std::size_t, bool>, Load> loads_;
};

}  // namespace astrarium
