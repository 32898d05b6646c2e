// The input of the GPU simulator and its outcome: astrarium.gpu.engine.values, field by field. Times in ps.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium::gpu {

enum class OpKind : std::uint8_t { load, store, memcpy, reduce, multiply, acquire, release, barrier, nop };

struct Machine {
    std::vector<std::uint16_t> unit_router, channel_router, port_router;
    std::int64_t workgroups_per_unit, wavefronts_per_unit, instruction, limit_wavefront, limit_workgroup, limit_unit;
    std::int64_t interleave, port_interleave, columns, credits;
    Tick unit_data, unit_store, unit_control, reduce, dispatch, barrier, fence, enter, hop, mesh_data, mesh_control;
    Tick channel, channel_latency, hbm, hbm_store, hbm_latency, port_data, port_control, link_latency;
    std::int64_t engines, engine_limit, write_back;
    Tick engine_data, engine_control, engine_dispatch;
    bool switched, round_robin;
};

// A kernel: its workgroups take `places` of a unit each, on `units`; `cluster` of them at once, on all units of a port. `start`: after its GPU's.
struct Stream {
    std::uint32_t wavefronts, unroll;
    std::int64_t places;
    Tick start;
    std::uint32_t cluster;
    std::vector<std::uint16_t> units;
};

struct Buffer {
    std::uint32_t first, lines;  // first line; lines per request of payload
};

struct Place {
    std::uint32_t buffer, offset;
    std::uint16_t peer;
};

struct Operation {
    OpKind kind;
    bool fence;
    std::uint16_t peer;
    std::uint32_t size, semaphore, value;
    std::uint32_t source, sources, target, targets;  // first and number of places
    Tick time;
};

struct Grid {
    std::vector<std::uint32_t> groups;   // first operation of each workgroup, and the end
    std::vector<std::uint32_t> streams;  // of each workgroup
    std::vector<Operation> operations;
    std::vector<Place> places;
    std::size_t works() const { return groups.size() - 1; }
};

struct Launch {
    Machine machine;
    std::uint32_t gpus, semaphores;
    std::uint32_t flagged, in_hbm, lines;  // ends of the lines with flags, of those in HBM, of all
    std::vector<Buffer> buffers;
    std::vector<Stream> streams;
    std::vector<Grid> grids;
    std::vector<Tick> starts;
    std::vector<std::vector<std::uint16_t>> ports;  // of every unit: the units of its port
    Tick record = 0;  // width of the bins in which the use of ports is recorded, with times of operations; 0: nothing is
    const Grid& grid(std::uint32_t gpu) const { return grids[grids.size() > 1 ? gpu : 0]; }
    Tick start(std::uint32_t gpu) const { return starts[starts.size() > 1 ? gpu : 0]; }
};

// Why a workgroup waits: for a store of `line` on the GPU at distance `peer`; for its semaphore, where `value` stands; for room.
struct Wait {
    std::uint32_t gpu, workgroup, operation;
    std::int64_t line, peer, value;
};
inline constexpr std::int64_t on_semaphore = -1, on_room = -2;

// Of one GPU.
struct Report {
    Tick end = 0, outstanding = 0, latency = 0;
    std::array<std::int64_t, 3> requests{};
    std::vector<Tick> starts, ends;  // of workgroups
    std::vector<std::int64_t> channel_requests, hbm_requests, port_packets;
    // Recorded: when the last wavefront went on from each operation of the grid, units of workgroups, ps of service by port and bin.
    std::vector<Tick> over;
    std::vector<std::uint16_t> units;
    std::vector<std::vector<Tick>> port_busy;
};

struct Finished {
    std::vector<Report> gpus;
    std::vector<Wait> waits;
    std::uint64_t events = 0, undispatched = 0;
};

// `fold`: the first GPU stands for all. `threads`: deal GPUs among them; they change no integer.
Finished run(const Launch& launch, bool fold, std::size_t threads);

}  // namespace astrarium::gpu
