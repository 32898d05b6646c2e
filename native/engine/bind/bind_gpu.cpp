// Reads a Launch of astrarium.gpu.engine, whose grids come as tables, and writes what came of it.
#include "bindings.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "gpu/launch.hpp"

namespace nb = nanobind;

namespace {

namespace gpu = astrarium::gpu;
using Table = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Numbers = std::vector<std::uint32_t>;
using Grids = std::vector<std::tuple<Numbers, Numbers, Table, Table>>;
using Streams =
    std::vector<std::tuple<std::uint32_t, std::uint32_t, std::int64_t, std::int64_t, std::uint32_t, std::vector<std::uint16_t>>>;
using Ports = std::vector<std::vector<std::uint16_t>>;

template <class T>
T field(nb::handle source, const char* name) {
    return nb::cast<T>(source.attr(name));
}

gpu::Machine machine_of(nb::handle from) {
    gpu::Machine m;
    for (const auto& [name, into] :
         {std::pair{"unit_router", &m.unit_router}, {"channel_router", &m.channel_router}, {"port_router", &m.port_router}})
        *into = field<std::vector<std::uint16_t>>(from, name);
    const std::pair<const char*, std::int64_t*> numbers[] = {{"workgroups_per_unit", &m.workgroups_per_unit},
                                                             {"wavefronts_per_unit", &m.wavefronts_per_unit},
                                                             {"instruction", &m.instruction},
                                                             {"limit_wavefront", &m.limit_wavefront},
                                                             {"limit_workgroup", &m.limit_workgroup},
                                                             {"limit_unit", &m.limit_unit},
                                                             {"interleave", &m.interleave},
                                                             {"port_interleave", &m.port_interleave},
                                                             {"columns", &m.columns},
                                                             {"credits", &m.credits},
                                                             {"unit_data", &m.unit_data},
                                                             {"unit_store", &m.unit_store},
                                                             {"unit_control", &m.unit_control},
                                                             {"reduce", &m.reduce},
                                                             {"dispatch", &m.dispatch},
                                                             {"barrier", &m.barrier},
                                                             {"fence", &m.fence},
                                                             {"enter", &m.enter},
                                                             {"hop", &m.hop},
                                                             {"mesh_data", &m.mesh_data},
                                                             {"mesh_control", &m.mesh_control},
                                                             {"channel", &m.channel},
                                                             {"channel_latency", &m.channel_latency},
                                                             {"hbm", &m.hbm},
                                                             {"hbm_store", &m.hbm_store},
                                                             {"hbm_latency", &m.hbm_latency},
                                                             {"port_data", &m.port_data},
                                                             {"port_control", &m.port_control},
                                                             {"link_latency", &m.link_latency},
                                                             {"write_back", &m.write_back},
                                                             {"engines", &m.engines},
                                                             {"engine_limit", &m.engine_limit},
                                                             {"engine_data", &m.engine_data},
                                                             {"engine_control", &m.engine_control},
                                                             {"engine_dispatch", &m.engine_dispatch}};
    for (const auto& [name, into] : numbers) *into = field<std::int64_t>(from, name);
    m.switched = field<bool>(from, "switched"), m.round_robin = field<bool>(from, "round_robin");
    return m;
}

// Columns of a row: those of astrarium.gpu.engine._native.
gpu::Operation operation_of(const std::int64_t* row) {
    gpu::Operation op{};
    const auto number = [row](int column) { return static_cast<std::uint32_t>(row[column]); };
    op.kind = static_cast<gpu::OpKind>(row[0]), op.size = number(1), op.source = number(2), op.sources = number(3), op.target = number(4),
    op.targets = number(5);
    op.semaphore = number(6), op.peer = static_cast<std::uint16_t>(row[7]), op.value = number(8), op.fence = row[9] != 0, op.time = row[10];
    return op;
}

gpu::Grid grid_of(const Numbers& groups, const Numbers& streams, const Table& operations, const Table& places) {
    gpu::Grid grid{groups, streams, {}, {}};
    for (std::size_t i = 0; i < operations.shape(0); ++i)
        grid.operations.push_back(operation_of(operations.data() + i * operations.shape(1)));
    for (std::size_t i = 0; i < places.shape(0); ++i) {
        const std::int64_t* row = places.data() + i * places.shape(1);
        grid.places.push_back({static_cast<std::uint32_t>(row[0]), static_cast<std::uint32_t>(row[1]), static_cast<std::uint16_t>(row[2])});
    }
    return grid;
}

nb::object launch(nb::handle machine, const std::array<std::uint32_t, 2>& counts, const std::array<std::uint32_t, 3>& ends,
                  const std::vector<std::pair<std::uint32_t, std::uint32_t>>& buffers, const Streams& streams, const Grids& grids,
                  const std::vector<std::int64_t>& starts, const Ports& ports, bool fold, std::size_t threads, std::int64_t record) {
    gpu::Launch launch{machine_of(machine), counts[0], counts[1], ends[0], ends[1], ends[2], {}, {}, {}, starts, ports, record};
    for (const auto& [first, lines] : buffers) launch.buffers.push_back({first, lines});
    for (const auto& [wavefronts, unroll, places, start, cluster, units] : streams)
        launch.streams.push_back({wavefronts, unroll, places, start, cluster, units});
    for (const auto& [groups, kernels, operations, places] : grids) launch.grids.push_back(grid_of(groups, kernels, operations, places));
    gpu::Finished finished;
    {
        nb::gil_scoped_release unlocked;
        finished = gpu::run(launch, fold, threads);
    }
    nb::list waits, rows;
    for (const gpu::Wait& it : finished.waits) waits.append(nb::make_tuple(it.gpu, it.workgroup, it.operation, it.line, it.peer, it.value));
    for (const gpu::Report& it : finished.gpus)
        rows.append(nb::make_tuple(it.end, it.starts, it.ends, it.requests, it.outstanding, it.latency, it.channel_requests,
                                   it.hbm_requests, it.port_packets, it.over, it.units, it.port_busy));
    return nb::make_tuple(waits, finished.undispatched, rows, finished.events);
}

}  // namespace

void bind_gpu(nb::module_& m) {
    m.def("launch", &launch, nb::arg("machine"), nb::arg("counts"), nb::arg("ends"), nb::arg("buffers"), nb::arg("streams"),
          nb::arg("grids"), nb::arg("starts"), nb::arg("ports"), nb::arg("fold"), nb::arg("threads"), nb::arg("record"),
          "Runs GPU kernels: (waits of a run that cannot go on, workgroups without a place, one row per simulated GPU, events).");
}
