// When ports are in use.
#pragma once
#include <algorithm>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

struct Span {
    Tick from, until;
    bool operator==(const Span&) const = default;
};

// From the first to the last use of one collective at one NPU's ports in or out of a dim.
class Used {
public:
    void add(Tick from, Tick until) {
        until = std::max(until, from + 1);  // a message without bytes waits for its turn too
        span_ = empty() ? Span{from, until} : Span{std::min(span_.from, from), std::max(span_.until, until)};
    }
    void join(const Used& other, Tick base) {
        if (!other.empty()) add(astrarium::add(base, other.span_.from), astrarium::add(base, other.span_.until));
    }
    bool empty() const { return span_.until == 0; }
    Tick from() const { return span_.from; }
    Tick until() const { return span_.until; }
    bool operator==(const Used&) const = default;

private:
    Span span_{0, 0};
};

struct PortUse {  // in one dim
    Used out, in;
    bool operator==(const PortUse&) const = default;
};

inline void join(PortUse& sum, const PortUse& use, Tick base) { sum.out.join(use.out, base), sum.in.join(use.in, base); }

// Of participants, by dim in which the members of their group differ. What is like that of one of the last few stands there once.
class Uses {
public:
    using Row = std::vector<PortUse>;
    bool empty() const { return of_.empty(); }
    const Row& operator[](std::size_t participant) const { return rows_[of_[participant]]; }
    std::size_t bytes() const {
        return 4 * of_.size() + (rows_.empty() ? 0 : rows_.size() * (sizeof(Row) + rows_[0].size() * sizeof(PortUse)));
    }
    void assign(std::size_t participants, const Row& row) { rows_.assign(1, row), of_.assign(participants, 0); }
    void push_back(const Row& row) {
        std::size_t at = rows_.size();
        while (at > 0 && at + few > rows_.size() && rows_[at - 1] != row) --at;
        if (at == 0 || at + few <= rows_.size()) rows_.push_back(row), at = rows_.size();
        of_.push_back(static_cast<std::uint32_t>(at - 1));
    }

private:
    static constexpr std::size_t few = 16;
    std::vector<Row> rows_;
    std::vector<std::uint32_t> of_;
};

}  // namespace astrarium
