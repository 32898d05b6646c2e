// When ports are in use: a few spans of time, disjoint and ascending.
#pragma once
#include <algorithm>
#include <array>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

struct Span {
    Tick from, until;
    bool operator==(const Span&) const = default;
};

// Spans of one collective at one NPU's ports in or out of a dim; of more than a few, those closest to each other count as one.
class Spans {
public:
    void add(Tick from, Tick until) {
        until = std::max(until, from + 1);  // a message without bytes waits for its turn too
        std::size_t at = count_;
        while (at > 0 && spans_[at - 1].from > from) --at;
        if (at > 0 && spans_[at - 1].until >= from) {
            --at;
            spans_[at].until = std::max(spans_[at].until, until);
        } else {
            std::move_backward(spans_.begin() + static_cast<std::ptrdiff_t>(at), spans_.begin() + static_cast<std::ptrdiff_t>(count_),
                               spans_.begin() + static_cast<std::ptrdiff_t>(count_ + 1));
            spans_[at] = {from, until};
            ++count_;
        }
        while (at + 1 < count_ && spans_[at + 1].from <= spans_[at].until) {
            spans_[at].until = std::max(spans_[at].until, spans_[at + 1].until);
            erase(at + 1);
        }
        if (count_ > most) merge_closest();
    }
    void join(const Spans& other, Tick base) {
        for (const Span& span : other) add(astrarium::add(base, span.from), astrarium::add(base, span.until));
    }
    bool empty() const { return count_ == 0; }
    Tick from() const { return spans_[0].from; }
    Tick until() const { return spans_[count_ - 1].until; }
    const Span* begin() const { return spans_.data(); }
    const Span* end() const { return spans_.data() + count_; }
    bool operator==(const Spans& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

private:
    static constexpr std::size_t most = 4;
    void erase(std::size_t at) {
        std::move(spans_.begin() + static_cast<std::ptrdiff_t>(at + 1), spans_.begin() + static_cast<std::ptrdiff_t>(count_), spans_.begin() + static_cast<std::ptrdiff_t>(at));
        --count_;
    }
    void merge_closest() {
        std::size_t best = 0;
        for (std::size_t i = 1; i + 1 < count_; ++i)
            if (spans_[i + 1].from - spans_[i].until < spans_[best + 1].from - spans_[best].until) best = i;
        spans_[best].until = spans_[best + 1].until;
        erase(best + 1);
    }
    std::array<Span, most + 1> spans_{};
    std::size_t count_ = 0;
};

struct PortUse {  // in one dim
    Spans out, in;
    bool operator==(const PortUse&) const = default;
};

inline void join(PortUse& sum, const PortUse& use, Tick base) { sum.out.join(use.out, base), sum.in.join(use.in, base); }

// Of participants, by dim in which the members of their group differ. What is like that of one of the last few stands there once.
class Uses {
public:
    using Row = std::vector<PortUse>;
    bool empty() const { return of_.empty(); }
    const Row& operator[](std::size_t participant) const { return rows_[of_[participant]]; }
    std::size_t bytes() const { return 4 * of_.size() + (rows_.empty() ? 0 : rows_.size() * (sizeof(Row) + rows_[0].size() * sizeof(PortUse))); }
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
