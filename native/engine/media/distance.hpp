// Where NPUs stand in the dims, and how far apart.
#pragma once
#include <bit>
#include <cstdlib>

#include "plan/plan.hpp"

namespace astrarium {

// Quotient and rest of numbers that are not negative: most divisors are powers of two.
inline int quotient(int number, int by) {
    return (by & (by - 1)) == 0 ? number >> std::countr_zero(static_cast<unsigned>(by)) : number / by;
}
inline int rest(int number, int by) { return (by & (by - 1)) == 0 ? number & (by - 1) : number % by; }

// Which of a phase's participants stands at a position of the group.
inline int index_in(const Phase& phase, std::uint32_t position) {
    return rest(quotient(static_cast<int>(position), phase.stride), phase.n);
}

class Geometry {
public:
    explicit Geometry(const Network& network) {
        int stride = 1;
        for (const Dim& dim : network.dims) {
            lines_.push_back({dim.shape, dim.npus, stride, 0});
            stride *= dim.npus;
        }
        int node = npus_ = stride;
        for (Line& line : lines_) {
            line.first_switch = node;
            if (line.shape == Shape::switch_ && line.npus > 1) node += npus_ / line.npus;
        }
    }

    int coordinate(int npu, std::size_t dim) const { return rest(quotient(npu, lines_[dim].stride), lines_[dim].npus); }

    int hops(std::size_t dim, int from, int to) const {
        const Line& d = lines_[dim];
        const int forward = from <= to ? to - from : to - from + d.npus;
        switch (d.shape) {
            case Shape::ring: return forward < d.npus - forward ? forward : d.npus - forward;
            case Shape::ring_one_way: return forward;
            case Shape::switch_: return 2;
            case Shape::fully_connected: return 1;
            case Shape::mesh: return std::abs(to - from);
            case Shape::hypercube: return std::popcount(static_cast<unsigned>(from ^ to));
        }
        return 0;
    }

    int stride(std::size_t dim) const { return lines_[dim].stride; }

    // Switches are numbered behind the NPUs, by dim: the one that an NPU is linked to, and the dim of one.
    bool is_switch(int node) const { return node >= npus_; }
    int switch_of(std::size_t dim, int npu) const {
        const Line& d = lines_[dim];
        return d.first_switch + quotient(npu, d.stride * d.npus) * d.stride + rest(npu, d.stride);
    }
    std::size_t dim_of_switch(int node) const {
        std::size_t dim = lines_.size() - 1;
        while (lines_[dim].first_switch > node) --dim;
        return dim;
    }

    // The next link between two different places of a dim: number of the port, and the place where it ends.
    struct Step {
        int port, next;
    };
    Step step(std::size_t dim, int from, int to) const {
        const Line& d = lines_[dim];
        const int forward = to >= from ? to - from : to - from + d.npus;
        const bool back = d.shape == Shape::ring && d.npus - forward < forward;
        switch (d.shape) {
            case Shape::ring:
            case Shape::ring_one_way: return {back, back ? (from == 0 ? d.npus : from) - 1 : from + 1 == d.npus ? 0 : from + 1};
            case Shape::mesh: return {to < from, to < from ? from - 1 : from + 1};
            case Shape::fully_connected: return {to, to};
            case Shape::hypercube: {
                const int bit = std::countr_zero(static_cast<unsigned>(from ^ to));
                return {bit, from ^ 1 << bit};
            }
            case Shape::switch_: break;
        }
        return {0, to};
    }

    // The place at which the link of a port of a place ends.
    int neighbour(std::size_t dim, int place, int port) const {
        const Line& d = lines_[dim];
        switch (d.shape) {
            case Shape::ring:
            case Shape::ring_one_way:
            case Shape::mesh: return port ? (place + d.npus - 1) % d.npus : (place + 1) % d.npus;
            case Shape::hypercube: return place ^ 1 << port;
            default: return port;
        }
    }

    // For messages that go equally far from every NPU (the step from `npu` to `other`, dim by dim): the NPU whose message ends at `npu`.
    int mirrored(int npu, int other) const {
        int out = 0;
        for (std::size_t d = 0; d < lines_.size(); ++d) {
            const Line& dim = lines_[d];
            const int from = coordinate(npu, d), to = coordinate(other, d);
            out += dim.stride * (dim.shape == Shape::hypercube ? to : ((2 * from - to) % dim.npus + dim.npus) % dim.npus);
        }
        return out;
    }

private:
    struct Line {  // a dim
        Shape shape;
        int npus, stride, first_switch;
    };
    std::vector<Line> lines_;
    int npus_ = 1;
};

// Where one place of a dim is relative to another: a number less than the dim's NPUs, another one for each place.
inline int away(const Dim& dim, int from, int to) {
    if (dim.shape == Shape::hypercube) return from ^ to;
    return to >= from ? to - from : to - from + dim.npus;
}

// ASTRA-sim truncates each delay to whole ns; natively a delay is rounded once, half to even, to ps.
inline Tick ticks(double ns, bool whole_ns) {
    if (!(ns >= 0) || ns >= 9.2e15) refuse("a delay of more than 2^63 ps (106 days)");
    if (whole_ns) return static_cast<Tick>(ns) * 1000;
    const double ps = ns * 1000.0;
    constexpr double unit = 0x1p52;  // from here on doubles have no fraction: adding it rounds, half to even
    return static_cast<Tick>(ps < unit ? ps + unit - unit : ps);
}

}  // namespace astrarium
