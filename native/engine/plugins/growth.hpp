// A workload that decides as it runs: tables of nodes that grow while the engine plays them.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

// One thing that a rank does, ready to be issued. `node` is its own number among those of the rank.
struct Handed {
    std::uint32_t rank = 0, node = 0;
    Kind kind = Kind::skip;
    std::int16_t lane = -1;
    Tick duration = 0;
    std::int64_t size = 0;
    std::int32_t a = 0, b = 0, c = 0;  // as in Plan.slot_a, slot_b, slot_c
};

class ForeignWork {
public:
    virtual ~ForeignWork() = default;
    virtual void start(std::vector<Handed>& ready) = 0;
    virtual void completed(std::uint32_t rank, std::uint32_t node, Tick now, std::vector<Handed>& ready) = 0;
};

// The programs of `plan`, one per rank and empty at first, as they are handed out by `source`. Nodes that were handed out are
// numbered in that order, all ranks together; numbers of a rank that have not come yet are holes.
class Growth {
public:
    Growth(Plan& plan, ForeignWork& source) : source(source), plan_(plan), tables_(plan.ranks()) {}
    void add(const Handed& work);
    std::size_t number(std::uint32_t rank, std::uint32_t node) const { return tables_[rank].number[node]; }

    ForeignWork& source;

private:
    struct Table {
        std::vector<std::uint64_t> node_id;
        std::vector<std::uint8_t> kind;
        std::vector<std::int16_t> lane;
        std::vector<std::int64_t> duration, busy, size;
        std::vector<std::int32_t> slot, parents, child_ptr;
        std::vector<std::uint32_t> number;
    };
    void show(std::uint32_t rank);

    Plan& plan_;
    std::vector<Table> tables_;
    std::vector<std::int32_t> a_, b_, c_;
    std::vector<Tick> busy_ = std::vector<Tick>(tables_.size(), 0);
    std::size_t handed_ = 0;
};

}  // namespace astrarium
