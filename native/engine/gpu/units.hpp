// Compute units of one GPU: workgroups, wavefronts, and when their instructions are issued.
#pragma once
#include <cstdint>
#include <vector>

#include "gpu/chip.hpp"

namespace astrarium::gpu {

enum class Phase : std::uint8_t { load, store, control, nop };

// `at`: its next instruction of the operation. A phase issues `count` instructions, of which `cursor` are issued.
struct Wavefront {
    std::uint64_t key;  // workgroup and wavefront
    std::uint32_t work, index, pc = 0, at, step = 0, cursor = 0, count = 0, loads = 0, serial = 0;
    std::int64_t out = 0;
    Phase phase = Phase::load;
    bool blocked = false;
};

struct Work {
    std::uint32_t number, stream, first, wavefronts;  // first wavefront, and how many
    std::uint32_t unit = 0, left = wavefronts, arrived = 0;
    std::int64_t out = 0;
    bool fencing = false;
    Tick start = -1, end = -1;
    std::vector<std::uint32_t> blocked;  // wavefronts that its limit stops
};

// Wavefronts that are ready to issue, in their order: each stands here at most once.
class Ready {
public:
    explicit Ready(std::size_t most) : ring_(most) {}
    bool empty() const { return count_ == 0; }
    std::uint32_t front() const { return ring_[head_]; }
    void pop() {
        head_ = head_ + 1 == ring_.size() ? 0 : head_ + 1;
        --count_;
    }
    void push(std::uint32_t wavefront) {
        std::size_t at = head_ + count_++;
        ring_[at >= ring_.size() ? at - ring_.size() : at] = wavefront;
    }

private:
    std::vector<std::uint32_t> ring_;
    std::size_t head_ = 0, count_ = 0;
};

// `places`, `wavefronts`: room for more. A copy engine has its own limits and times.
struct Unit {
    Ready ready;
    std::int64_t places, wavefronts, limit_wavefront, limit_workgroup, limit_unit;
    Tick store, control, dispatch;
    std::int64_t out = 0;
    Tick outward = 0, alu = 0, matrix = 0, since = 0;
};

// A stream's workgroups, of which `placed` have had a place, and the entry of its units whose turn is next.
struct Dealt {
    std::vector<std::uint32_t> works;
    std::vector<bool> on;  // units on which it runs
    std::size_t placed = 0, next = 0;
    bool came = false;
    bool waits() const { return placed < works.size(); }
};

class Units {
public:
    Units(const Launch& launch, std::uint32_t gpu, Queue& queue, Chip& chip, Instructions& flights);

    // Deals workgroups round-robin to units, as long as there is room.
    void begin(Tick when);
    // Events of the stages start, timer and done.
    void start(std::uint32_t work);
    void timer(std::uint32_t wavefront);
    void done(std::uint32_t instruction);

    void report(Report& into) const;
    std::size_t undispatched() const { return works_.size() - dispatched_; }
    // Who waits: visit(workgroup, wavefront) of those that began and did not end.
    template <class Visit>
    void each_unfinished(Visit&& visit) const {
        for (const Work& work : works_)
            if (work.start >= 0 && work.end < 0)
                for (std::uint32_t i = 0; i < work.wavefronts; ++i) visit(work, wavefronts_[work.first + i]);
    }
    const Operation* operation(const Wavefront& f) const {
        const std::uint32_t at = grid_.groups[f.work] + f.pc;
        return at < grid_.groups[f.work + 1] ? &grid_.operations[at] : nullptr;
    }

private:
    struct Wanted {
        Packet kind;
        std::uint32_t line, count, peer;
    };
    struct Span {
        std::uint32_t first, count;  // requests of payload
    };
    const Launch& launch_;
    const Machine& m_;
    const Grid& grid_;
    Queue& queue_;
    Chip& chip_;
    Instructions& flights_;
    std::vector<Unit> units_;
    std::vector<Work> works_;
    std::vector<Wavefront> wavefronts_;
    std::vector<Dealt> dealt_;  // by stream
    std::size_t dispatched_ = 0;
    Tick end_ = 0, outstanding_ = 0, latency_ = 0;
    std::array<std::int64_t, 3> requests_{};
    std::vector<Tick> over_;  // recorded, by operation

    Tick now() const { return chip_.now; }
    Unit& unit_of(const Wavefront& f) { return units_[works_[f.work].unit]; }
    Wavefront& leader(const Work& work) { return wavefronts_[work.first]; }
    std::uint32_t number(const Wavefront& f) const { return static_cast<std::uint32_t>(&f - wavefronts_.data()); }
    Span span(const Wavefront& f, const Operation& op, std::uint32_t j) const;
    const Stream& stream_of(const Work& work) const { return launch_.streams[work.stream]; }
    bool room(const Unit& unit, const Stream& stream) const { return unit.places >= stream.places && unit.wavefronts >= stream.wavefronts; }
    bool fits(std::uint32_t unit, const Stream& stream) const;
    void deal(std::uint32_t stream, Tick when);
    void place(std::uint32_t stream, std::uint32_t unit, Tick when);
    void put(std::uint32_t stream, std::uint32_t unit, Tick when);
    void later(Tick when, Stage stage, const Wavefront& f, std::uint32_t serial, std::uint32_t what);
    void proceed(Wavefront& f);
    void next(Wavefront& f) {
        if (launch_.record) over_[grid_.groups[f.work] + f.pc] = now();
        ++f.pc, f.at = f.index;
    }
    void phase(Wavefront& f, Phase to, std::uint32_t places);
    void loaded(Wavefront& f);
    void added(Wavefront& f);
    void stepped(Wavefront& f);
    void control(Work& work);
    void fence(Work& work);
    void ask(Wavefront& leader);
    void controlled(Work& work);
    Wanted wanted(const Wavefront& f) const;
    void serve(Unit& unit);
    void issue(Unit& unit, Wavefront& f, const Wanted& want);
    void count(Unit& unit, std::int64_t change);
    void end_if_over(Work& work);
};

}  // namespace astrarium::gpu
