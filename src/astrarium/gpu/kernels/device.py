"""A GPU and its scale-up links as the simulator of kernels sees them, with units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from astrarium import catalog
from astrarium.config import Config, Knob, Problem, default
from astrarium.config.named import Shorthand
from astrarium.errors import InputError
from astrarium.units import Bandwidth, Bytes, Time

if TYPE_CHECKING:
    from astrarium.gpu.engine import Machine

__all__ = ["CopyEngines", "Gpu"]

Rules = tuple[Callable[[Any], Iterable[Problem]], ...]


def _rules(gpu: Gpu) -> Iterator[Problem]:
    if Bytes.of(gpu.instruction) % Bytes.of(gpu.request):
        yield Problem("instruction", f"{gpu.instruction} is no multiple of request", f"a multiple of {gpu.request}")
    for name in ("interleave", "port_interleave"):
        if Bytes.of(getattr(gpu, name)) % Bytes.of(gpu.request):
            yield Problem(name, f"{getattr(gpu, name)} is no multiple of request", f"a multiple of {gpu.request}")
    if gpu.peers and (gpu.switched or gpu.ports % gpu.peers):
        yield Problem("peers", f"{gpu.peers} peers, {gpu.ports} ports" + ", switched" * gpu.switched,
                      "ports that no switch joins, a multiple of their peers")
    if gpu.units % gpu.units_per_port:
        yield Problem("units_per_port", f"{gpu.units_per_port} does not divide {gpu.units} units", "whole ports")
    if gpu.channels % 2 and gpu.rows > 1:
        yield Problem("channels", f"{gpu.channels} cannot be divided between the top and the bottom row", "an even "
                                                                                                          "number")
    if gpu.ports % 2 and gpu.columns > 1:
        yield Problem("ports", f"{gpu.ports} cannot be divided between the left and the right column", "an even number")


class CopyEngines(Config, frozen=True, kw_only=True):
    """DMA engines, which copy without a compute unit. What one does is known of few devices: no field has a default."""

    count: Annotated[int, Knob("Engines of a GPU that work at once.", ge=1)]
    bandwidth: Annotated[Bandwidth, Knob("Between an engine and the chip's network, each way; reads and "
                                         "acknowledgements (`control`) included.", gt=0)]
    outstanding: Annotated[int, Knob("Requests that an engine may have outstanding.", ge=1)]
    dispatch: Annotated[Time, Knob("From a command to the engine's first request.", gt=0)]


class Gpu(Config, frozen=True, kw_only=True):
    """What GPU kernels run on. No field of time or rate has a default: say what you know of a device, and its source.

    Compute units and copy engines are at routers in equal blocks; half of the channels in the top row and half in
    the bottom row; half of the ports in the left column and half in the right one.
    """

    rules: ClassVar[Rules] = (_rules,)
    shorthand: ClassVar[Shorthand | None] = Shorthand(
        lambda name: catalog.row_of("gpus", name)["gpu"], "a GPU of the catalog (`astrarium list gpu`)")
    units: Annotated[int, Knob("Compute units (SMs) that run workgroups.", ge=1)]
    workgroups_per_unit: Annotated[int, Knob("Workgroups that a unit runs at once.", ge=1)]
    wavefronts_per_unit: Annotated[int, Knob("Wavefronts (warps) that a unit runs at once.", ge=1)]
    request: Annotated[Bytes, Knob("What one request moves.", gt=0)] = default("128 B")
    instruction: Annotated[Bytes, Knob("What one access of all lanes of a wavefront moves.", gt=0)]
    outstanding_wavefront: Annotated[int, Knob("Requests that a wavefront may have outstanding.", ge=1)]
    outstanding_workgroup: Annotated[int, Knob("Requests that a workgroup may have outstanding.", ge=1)]
    outstanding_unit: Annotated[int, Knob("Requests that a unit may have outstanding.", ge=1)]
    units_per_port: Annotated[int, Knob("Units that share a port to the chip's network, through which what they load "
                                        "comes in (a TPC has two SMs).", ge=1)] = 1
    port_groups: Annotated[int, Knob("Groups of such ports (GPCs). Workgroups go to all groups in turn, and there to "
                                     "all units of a port before the next.", ge=1)] = 1
    unit_bandwidth: Annotated[Bandwidth, Knob("Of a port of units, for what they load.", gt=0)]
    store_bandwidth: Annotated[Bandwidth | None, Knob("Of a unit, for what it stores; none: unit_bandwidth.",
                                                        gt=0)] = None
    issue: Annotated[Time, Knob("A unit's time to issue a request without data.", gt=0)]
    reduce_bandwidth: Annotated[Bandwidth, Knob("Rate at which a unit adds one operand to another.", gt=0)]
    dispatch: Annotated[Time, Knob("From a place on a unit to a workgroup's first operation.", gt=0)]
    barrier: Annotated[Time, Knob("A barrier of a workgroup.", gt=0)]
    fence: Annotated[Time, Knob("A fence, once all requests of the workgroup are back.", gt=0)]
    rows: Annotated[int, Knob("Rows of routers.", ge=1)] = 1
    columns: Annotated[int, Knob("Columns of routers; 1 x 1 is a crossbar.", ge=1)] = 1
    network_latency: Annotated[Time, Knob("Latency of any way on the chip, without its hops.", gt=0)]
    hop_latency: Annotated[Time, Knob("Latency of a link between routers.", gt=0)] = default("1 ns")
    mesh_bandwidth: Annotated[Bandwidth | None, Knob("Of a link between routers, each way.", gt=0)] = None
    channels: Annotated[int, Knob("Channels of memory, each a slice of L2 with its HBM.", ge=1)]
    interleave: Annotated[Bytes, Knob("Bytes in a row on one channel.", gt=0)]
    l2_bandwidth: Annotated[Bandwidth, Knob("Of all channels' L2.", gt=0)]
    l2_latency: Annotated[Time, Knob("From L2 having served a request to its answer on the network.", gt=0)]
    hbm_bandwidth: Annotated[Bandwidth, Knob("Of all channels' HBM.", gt=0)]
    hbm_store_bandwidth: Annotated[Bandwidth | None, Knob(
        "Of all channels' HBM, for what is stored; none: hbm_bandwidth.", gt=0)] = None
    hbm_latency: Annotated[Time, Knob("Added to loads that HBM serves.", gt=0)]
    write_back: Annotated[Bytes, Knob("Stored data that all channels' L2 may hold before HBM has them; 0: a store is "
                                      "acknowledged when it is in HBM.", ge=0)] = default("0 B")
    ports: Annotated[int, Knob("Ports to other GPUs.", ge=1)]
    port_interleave: Annotated[Bytes, Knob("Bytes in a row on one port.", gt=0)]
    port_bandwidth: Annotated[Bandwidth, Knob("Of one port, each way, headers included.", gt=0)]
    header: Annotated[Bytes, Knob("Header of a packet with data.", ge=0)]
    control: Annotated[Bytes, Knob("A packet without data: a read, an acknowledgement, a semaphore.", gt=0)]
    link_latency: Annotated[Time, Knob("From a port to the other GPU, switch included.", gt=0)]
    credits: Annotated[int, Knob("Packets that a port has out in a round trip of its link; 0: any number.", ge=0)] = 0
    switched: Annotated[bool, Knob("Ports lead to a switch; else they are dealt to the peers.")] = True
    peers: Annotated[int, Knob("Peers to which ports are dealt where no switch is, whether they take part or not; 0: "
                               "those that take part.", ge=0)] = 0
    multimem: Annotated[bool, Knob("The switch adds what is loaded from all GPUs and copies what is stored to all "
                                   "(NVLS: from NVSwitch of the third generation on).")] = True
    arbitration: Annotated[Literal["fifo", "round_robin"], Knob(
        "Which packet a port, or a switch's queue for it, takes next. fifo: the one that came first. round_robin: one "
        "with data and one without (a read, an acknowledgement, a semaphore) in turn, while both wait.")] = "fifo"
    copy_engines: Annotated[CopyEngines | None, Knob("Its copy engines; none: kernels of copy engines are refused.")
                            ] = None
    proxy_latency: Annotated[Time | None, Knob("From a thread block's request on a port channel of an MSCCL++ plan "
                                               "until its proxy acts; none: such plans are refused.", gt=0)] = None

    def machine(self, gpus: int = 0) -> Machine:
        """As the simulator takes it, for `gpus` GPUs that take part (0: any number): ps and requests.

        Raises InputError where `peers` are too few for them.
        """
        from astrarium.gpu.engine import Machine

        ports = self.ports
        if self.peers and gpus:
            if gpus - 1 > self.peers:
                raise InputError("gpu.peers", str(self.peers), expected=f"at least {gpus - 1}, for {gpus} GPUs")
            ports = self.ports // self.peers * (gpus - 1)
        line, head, control = (float(Bytes.of(x)) for x in (self.request, self.header, self.control))

        def ps(time: float) -> int:
            return max(1, round(time * 1000))

        def at(size: float, rate: float) -> int:
            return ps(size / rate)

        def spread(count: int) -> tuple[int, ...]:
            return tuple(i * self.rows * self.columns // count for i in range(count))

        mesh, engines = self.mesh_bandwidth, self.copy_engines
        return Machine(
            unit_router=spread(self.units) + (spread(engines.count) if engines else ()),
            unit_port=_ports(self.units, self.units_per_port, self.port_groups, engines.count if engines else 0),
            **({} if engines is None else {
                "engines": engines.count, "engine_data": at(line, engines.bandwidth),
                "engine_control": at(control, engines.bandwidth), "engine_limit": engines.outstanding,
                "engine_dispatch": ps(engines.dispatch)}),
            channel_router=_edges(self.channels, self.columns, 1, (self.rows - 1) * self.columns),
            port_router=_edges(max(1, ports), self.rows, self.columns, self.columns - 1),
            workgroups_per_unit=self.workgroups_per_unit, wavefronts_per_unit=self.wavefronts_per_unit,
            instruction=round(float(self.instruction) / line), limit_wavefront=self.outstanding_wavefront,
            limit_workgroup=self.outstanding_workgroup, limit_unit=self.outstanding_unit,
            unit_data=at(line, self.unit_bandwidth), unit_store=at(line, self.store_bandwidth or self.unit_bandwidth),
            unit_control=ps(self.issue),
            reduce=at(line, self.reduce_bandwidth), dispatch=ps(self.dispatch), barrier=ps(self.barrier),
            fence=ps(self.fence), rows=self.rows, columns=self.columns, enter=ps(self.network_latency),
            hop=ps(self.hop_latency), mesh_data=at(line, mesh) if mesh else 0,
            mesh_control=at(control, mesh) if mesh else 0, interleave=round(float(self.interleave) / line),
            channel=at(line * self.channels, self.l2_bandwidth), channel_latency=ps(self.l2_latency),
            hbm=at(line * self.channels, self.hbm_bandwidth),
            hbm_store=at(line * self.channels, self.hbm_store_bandwidth or self.hbm_bandwidth),
            hbm_latency=ps(self.hbm_latency),
            write_back=int(float(self.write_back) / line / self.channels),
            port_interleave=round(float(self.port_interleave) / line), port_data=at(line + head, self.port_bandwidth),
            port_control=at(control, self.port_bandwidth), link_latency=ps(self.link_latency), credits=self.credits,
            switched=self.switched, multimem=self.multimem, round_robin=self.arbitration == "round_robin")


def _ports(units: int, shared: int, groups: int, engines: int) -> tuple[int, ...]:
    """The port of every unit, in the order in which workgroups come to them; of none where each has its own."""
    if shared == 1:
        return ()
    ports, found = units // shared, list[int]()
    for first in range(0, ports, groups):
        found += shared * list(range(first, min(first + groups, ports)))
    return (*found, *range(ports, ports + engines))


def _edges(count: int, places: int, step: int, far: int) -> tuple[int, ...]:
    """Routers of units on two opposite edges of `places` routers each, the first half on the near edge."""
    half = -(-count // 2)
    near = [i * places // half * step for i in range(half)]
    return tuple(near + [i * places // half * step + far for i in range(count - half)])
