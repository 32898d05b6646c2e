"""What the simulator of GPU kernels says of rows of microbenchmarks.

A kernel of a row is a `Launch`: a block is a workgroup, a warp a wavefront. Three things about the program are no part
of the GPU's model. A repeated kernel finds in L2 what the last pass left there (`kept`). Its reads have at most `READS`
loads in flight per thread: rows with 8 take the time of 4, while copies do not. And the copies beside products move
64 MiB a block up to 16 blocks, once below 16 blocks, three times below 64 and six times from there on.

Long streams are steady: `STEPS` steps of a thread or `SAMPLE` bytes are simulated, then twice as many, and the rest is
added at the rate between both. Of a product beside copies, how fast each goes beside the other is simulated, with k cut
to `DEPTH`; the product's time alone is that of the kernel model (`compute/kernels`). The copies come first; each later
one waits until the product that then runs leaves its places, and goes before the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp

from msgspec import Struct
from msgspec.structs import replace

from astrarium import catalog
from astrarium.compute import kernels
from astrarium.config import decode
from astrarium.errors import InputError
from astrarium.gpu import Gemm, Gpu, gemm_launch
from astrarium.gpu.engine import Buffer, Launch, Operation, OpKind, Place, Stream, Workgroup, run_launch, together
from astrarium.units import FlopRate, Time
from astrarium.validate.kernel_times import KernelTime, Meant
from astrarium.validate.micro_rows import WARP, Asked, asked_of, identity
from astrarium.validate.rows import Row
from astrarium.validate.systems import system_of
from astrarium.vocab import Kernel

__all__ = ["Device", "device_of", "fitted_micro", "kept", "micro_ns", "micro_times", "touched"]

ACCESS, LINE = 16, 128
READS, STEPS, SAMPLE, DEPTH = 4, 2, 8 << 20, 512
CHAIN = 256     # loads of a chase that are simulated
PIECE, FEW, PIECES = 64 << 20, 16, ((16, 1), (64, 3), (1 << 30, 6))
LASTING = 4     # times of the product alone that copies beside it last


class Device(Struct, frozen=True):
    """A GPU. `launch`: ns between two events around an empty kernel; `model`: its kernel model; `peak`: of bf16,
    FLOP/ns."""

    gpu: Gpu
    launch: float
    model: kernels.DeviceModel
    peak: float


def micro_times(rows: Sequence[Row]) -> list[KernelTime | InputError]:
    """The time of each row, or why it has none."""
    devices, found = dict[str, Device](), list[KernelTime | InputError]()
    for row in rows:
        try:
            name, asked = system_of(row).device, asked_of(row.values)
            if name not in devices:
                devices[name] = device_of(name)
            ns, copies = micro_ns(asked, devices[name])
            found.append(KernelTime(Meant(asked.group, name), ns, copies=copies))
        except InputError as error:
            found.append(error)
    return found


def fitted_micro(rows: Iterable[Row]) -> list[bool]:
    """Whether each row is a microbenchmark on which its GPU was fitted."""
    found = []
    for row in rows:
        try:
            table = catalog.load("gpus").get(system_of(row).device, {}) if row.kind == "micro" else {}
        except InputError:
            table = {}
        found.append(row.kind == "micro" and identity(row.values) in table.get("micro", {}).get("seen", ()))
    return found


def device_of(name: str) -> Device:
    """A row of catalog/gpus.toml. Raises InputError for one without times of microbenchmarks."""
    rows = catalog.load("gpus")
    if name not in rows or "micro" not in rows[name]:
        known = ", ".join(each for each, row in rows.items() if "micro" in row)
        raise InputError("gpu", f"{name} has no times of microbenchmarks in the catalog", expected=f"one of {known}")
    row = rows[name]
    peak = float(FlopRate(catalog.row_of("devices", row["device"])["peak"]))
    return Device(decode(Gpu, {"like": name}), float(Time(row["micro"]["launch"])), kernels.load(name), peak)


def micro_ns(asked: Asked, device: Device) -> tuple[float, float]:
    """(ns of a row, ns of the copies beside a product)."""
    if asked.what == "overlap":
        return _overlap(asked, device)
    if asked.what == "chase":
        return device.launch + _chase(asked, device), 0.0
    return device.launch + (_stream(asked, device) if asked.what in ("read", "copy") else 0.0), 0.0


def touched(asked: Asked) -> int:
    """Bytes that a grid-stride kernel reads: a thread goes on while all its `unroll` accesses are within the size."""
    stride = asked.blocks * asked.threads
    starts = asked.size // ACCESS - (asked.unroll - 1) * stride
    rounds, rest = divmod(max(0, starts), asked.unroll * stride)
    return (rounds * stride + min(rest, stride)) * asked.unroll * ACCESS


def kept(footprint: float, room: float) -> float:
    """The share h of a footprint that L2 has from the last pass: all that fits; of more, h = exp((h - 1) footprint /
    room), the probability that a line outlasts the pass's misses where each replaces a random one. Both in bytes."""
    share = 1.0 if footprint <= room else 0.0
    for _ in range(100 if footprint > room else 0):
        share = exp((share - 1) * footprint / room)
    return share


def _stream(asked: Asked, device: Device) -> float:
    """ns of a read or a copy."""
    copies = asked.what == "copy"
    lines = touched(asked) // LINE // asked.blocks
    if not lines:
        return 0.0
    unroll = asked.unroll if copies else min(asked.unroll, READS)
    step = max(1, asked.threads * unroll * ACCESS // LINE)
    short = max(STEPS, SAMPLE // LINE // asked.blocks // step) * step
    share = kept(lines * LINE * asked.blocks * (2 if copies else 1), float(device.gpu.write_back))
    stream = Stream(asked.threads // WARP, unroll)

    def ns(run: int) -> float:
        in_l2 = round(run * share)
        parts = [(size, hbm) for size, hbm in ((in_l2, False), (run - in_l2, True)) if size]
        return run_launch(_passes(device.gpu, asked.blocks, parts, stream, copies=copies)).makespan / 1e3

    if lines <= 2 * short:
        return ns(lines)
    once, twice = ns(short), ns(2 * short)
    return twice + (twice - once) * (lines - 2 * short) / short


def _passes(gpu: Gpu, blocks: int, parts: Sequence[tuple[int, bool]], stream: Stream, *, copies: bool) -> Launch:
    """Blocks that each read (or copy) `parts`, one after the other: lines of a block, and whether HBM has them."""
    buffers, operations = list[Buffer](), list[list[Operation]]()
    for size, hbm in parts:
        first, places = len(buffers), 2 if copies else 1
        buffers += [Buffer(f"{i}", size * blocks, hbm=hbm) for i in range(first, first + places)]
        operations.append([Operation(
            OpKind.MEMCPY if copies else OpKind.LOAD, size, (Place(first, block * size),),
            (Place(first + 1, block * size),) if copies else ()) for block in range(blocks)])
    grid = tuple(Workgroup(each) for each in zip(*operations, strict=True))
    return Launch(gpu.machine(1), 1, (grid,), tuple(buffers), (), (stream,))


def _chase(asked: Asked, device: Device) -> float:
    """ns of loads that each wait for the last one; the program's few lines stay in L2 whatever its footprint."""
    loads = tuple(Operation(OpKind.LOAD, 1, (Place(0, i),)) for i in range(CHAIN))
    launch = Launch(device.gpu.machine(1), 1, ((Workgroup(loads),),), (Buffer("chain", CHAIN),), (), (Stream(),))
    return run_launch(launch).makespan / 1e3 / CHAIN * asked.unroll


def _overlap(asked: Asked, device: Device) -> tuple[float, float]:
    """(ns of a product of `size` ones that follow each other, ns of all copies beside them)."""
    m, n, k = asked.shape
    alone = float(kernels.latency_ns(device.model, [Kernel("gemm", "bf16", (1, m, n, k), 1.0, 2.0 * m * n * k, 0)],
                                     "torch")[0])
    if not asked.blocks:
        return alone, 0.0
    progress, beside, apart = _rates(asked, device, alone)
    piece = float(PIECE * min(asked.blocks, FEW))
    left, clock, ended = asked.size * alone, 0.0, 0.0
    for number in range(next(times for below, times in PIECES if asked.blocks < below)):
        wait = min(left, alone) if number else 0.0
        left, clock = left - wait, clock + wait
        time = piece / beside
        if left > progress * time:
            left, clock = left - progress * time, clock + time
            continue
        if left:
            ended, piece_left = clock + left / progress, piece - left / progress * beside
            left, clock = 0.0, ended + piece_left / apart
        else:
            clock += piece / apart
    return (clock + left if left else ended or clock) / asked.size, clock


def _rates(asked: Asked, device: Device, alone: float) -> tuple[float, float, float]:
    """While copies run: the share of its pace alone at which a product goes on; bytes/ns of the copies beside it, and
    alone."""
    m, n, k = asked.shape
    gpu, depth = device.gpu, min(k, DEPTH)
    tile = Gemm(m=m, n=n, k=depth, peak=f"{device.peak} GFLOP/s", persistent=True,
                cluster=gpu.units_per_port)
    waves = -(-(-(-m // tile.tile_m) * -(-n // tile.tile_n)) // gpu.units)
    pipe = waves * gpu.units * 2 * tile.tile_m * tile.tile_n * k / device.peak
    product = gemm_launch(replace(tile, efficiency=min(1.0, pipe / alone)), gpu)
    own = run_launch(product).makespan
    rate = min(gpu.store_bandwidth or gpu.unit_bandwidth, gpu.hbm_bandwidth / 2 / asked.blocks)
    lines = max(asked.threads, int(LASTING * own / 1e3 * float(rate)) // LINE)
    stream = Stream(asked.threads // WARP, asked.unroll, places=gpu.workgroups_per_unit)
    copy = _passes(gpu, asked.blocks, ((lines, True),), stream, copies=True)
    apart = run_launch(copy).makespan
    ends = run_launch(together((copy, product))).workgroup_ends[0]
    copied, multiplied = int(ends[:asked.blocks].max()), int(ends[asked.blocks:].max())
    done = own - max(0, multiplied - copied)
    total = lines * LINE * asked.blocks * 1e3
    return max(0.0, done / min(copied, multiplied)), total / copied, total / apart
