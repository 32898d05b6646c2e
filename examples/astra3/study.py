"""ASTRA-sim 3.0's figures about GPU kernels, on its generic GPU (gpu.yaml). Prints tables; expected.txt has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from astrarium import CommOp, load
from astrarium.gpu import Gpu, Kernels, Launch, Workgroup, kernel_launch, kernel_time, run_launch

GPU = load(Gpu, Path(__file__).with_name("gpu.yaml"))
MIB = 1 << 20
ONE_WAY, ROUND_TRIP = ("0.5 us", "5 us"), ("0.25 us", "2.5 us")      # of a link, where 0.5 and 5 us are one or both
SIZES = [1 << power for power in range(16, 27)]      # 64 KiB to 64 MiB


def us(op: CommOp, size: int, gpus: int, gpu: Gpu, kernels: Kernels) -> float:
    """Time of a collective, in us."""
    return kernel_time(op, size, gpus, gpu, kernels).makespan / 1e6


def crossover(gpu: Gpu, sizes: Sequence[int] = SIZES, *, acknowledged: bool = True) -> int:
    """The smallest of `sizes`, in bytes, from which on Simple is faster than LL: all_gather on 8 GPUs. `acknowledged`:
    Simple's semaphores wait until its stores are acknowledged, and for the fence."""
    low, high = 0, len(sizes) - 1
    while low < high:
        middle = (low + high) // 2
        simple, ll = (kernel_launch(CommOp.ALL_GATHER, sizes[middle], 8, gpu, Kernels(
            protocol=protocol, workgroups=128, wavefronts=4)) for protocol in ("simple", "ll"))
        if not acknowledged:
            simple = unfenced(simple)
        faster = run_launch(simple).makespan < run_launch(ll).makespan
        low, high = (low, middle) if faster else (middle + 1, high)
    return sizes[low]


def unfenced(launch: Launch) -> Launch:
    """The same without fences: no hardware promises that its result is right."""
    return replace(launch, grids=tuple(tuple(Workgroup(tuple(replace(op, fence=False) for op in group.operations))
                                             for group in grid) for grid in launch.grids))


def protocols() -> Iterator[str]:
    """Where Simple overtakes LL, over bandwidth, latency and what a fence costs, which the paper does not print."""
    yield "Simple overtakes LL at (all_gather, 8 GPUs, 128 workgroups), KiB"
    yield "  fence   bandwidth    0.5 us    5 us    paper"
    for fence in ("100 ns", "2 us"):
        for rate, name, paper in (("8 GiB/s", "256 GiB/s", "512 to 2048"), ("32 GiB/s", "1 TiB/s", "4096 to 16384")):
            found = [crossover(replace(GPU, port_bandwidth=rate, link_latency=latency, fence=fence)) // 1024
                     for latency in ("0.5 us", "5 us")]
            yield f"  {fence:7} {name:9} {found[0]:9} {found[1]:7}    {paper}"


def fences() -> Iterator[str]:
    """The same at 256 GiB/s in steps of a quarter of a power of two: what a fence costs, what it waits for, and what
    the latency is of."""
    yield "the same at 256 GiB/s, finer, KiB"
    yield "  Simple's semaphore waits for                  0.5 us    5 us    paper"
    sizes = [round(2 ** (step / 4)) for step in range(4 * 13, 4 * 24 + 1)]
    for fence, latencies in (("100 ns", ONE_WAY), ("1 us", ONE_WAY), ("2 us", ONE_WAY), ("2 us", ROUND_TRIP),
                             ("", ONE_WAY)):
        gpus = [replace(GPU, port_bandwidth="8 GiB/s", link_latency=latency, fence=fence or GPU.fence)
                for latency in latencies]
        found = [crossover(gpu, sizes, acknowledged=bool(fence)) // 1024 for gpu in gpus]
        waits = f"acknowledgements and {fence}" if fence else "nothing"
        waits += "; both ways" if latencies is ROUND_TRIP else ""
        yield f"  {waits:42} {found[0]:9} {found[1]:7}    512 to 2048"


def formula() -> Iterator[str]:
    """Where Simple overtakes LL by latency and bandwidth alone: LL takes a latency and twice the bytes, Simple the
    bytes and `latencies`; so at (latencies - 1) x latency x bandwidth."""
    yield "the same by a formula: LL = latency + 2 S / bandwidth, Simple = n latencies + S / bandwidth, KiB"
    yield "  Simple's latencies                         bandwidth    0.5 us    5 us    paper"
    for latencies, what in ((2, "data, signal"), (3, "data, acknowledgement, signal"),
                            (4, "ready, data, acknowledgement, signal")):
        for rate, name, paper in ((256, "256 GiB/s", "512 to 2048"), (1024, "1 TiB/s", "4096 to 16384")):
            found = [round((latencies - 1) * latency * 1e-6 * rate * 2 ** 20) for latency in (0.5, 5)]
            yield f"  {latencies}: {what:39} {name:9} {found[0]:9} {found[1]:7}    {paper}"


def directions(sizes: Sequence[int] = (16, 128)) -> Iterator[str]:
    """Reading from peers or writing to them, at ports that serve in order of arrival, or control and data in turn, for
    several numbers of instructions in a step of the loop. `sizes`: MiB."""
    yield "put or get, us"
    yield "  collective       GPUs  workgroups   MiB  unrolled  arbitration      put      get   gap   paper"
    for op, gpus, workgroups, unrolled, paper in (
            (CommOp.REDUCE_SCATTER, 32, 32, (4,), ("get better", "")),
            (CommOp.ALL_GATHER, 16, 60, (4, 8, 16), ("put better", "narrower gap"))):
        for size, unroll in ((size, unroll) for size in sizes for unroll in unrolled):
            for arbitration, says in zip(("fifo", "round_robin"), paper, strict=True):
                put, get = (us(op, size * MIB, gpus, replace(GPU, arbitration=arbitration), Kernels(
                    direction=direction, workgroups=workgroups, wavefronts=4, unroll=unroll))
                    for direction in ("put", "get"))
                gap = 100 * (max(put, get) / min(put, get) - 1)
                yield (f"  {op.name.lower():15} {gpus:5} {workgroups:11} {size:5} {unroll:9}  {arbitration:11} "
                       f"{put:8.1f} {get:8.1f} {gap:4.0f}%   {says}").rstrip()


def saturation() -> Iterator[str]:
    """What more requests in flight bring."""
    yield "all_to_all on 16 GPUs, 60 workgroups, get, us: loop unrolled"
    yield "  size            1       2       4       8      16      32"
    for size in (MIB // 8, 8 * MIB, 128 * MIB):
        times = [us(CommOp.ALL_TO_ALL, size, 16, GPU, Kernels(direction="get", workgroups=60, wavefronts=4,
                                                                  unroll=unroll))
                 for unroll in (1, 2, 4, 8, 16, 32)]
        yield f"  {size / MIB:7.3f} MiB" + "".join(f"{time:8.1f}" for time in times)
    yield "all_gather on 32 GPUs, 32 workgroups, us: outstanding requests of a unit"
    yield "  size           32      64     128     256     512"
    for size in (MIB // 8, 32 * MIB):
        row = [us(CommOp.ALL_GATHER, size, 32, replace(GPU, outstanding_unit=most), Kernels(workgroups=32,
                                                                                           wavefronts=4))
               for most in (32, 64, 128, 256, 512)]
        yield f"  {size / MIB:5.3f} MiB " + "".join(f"{time:8.1f}" for time in row)


def scaling() -> Iterator[str]:
    """More GPUs: time and GB/s that leave a GPU."""
    yield "all_gather of 16 MiB, put"
    yield "  GPUs       us    GB/s out of a GPU"
    for gpus in (2, 8, 32, 128):
        time = us(CommOp.ALL_GATHER, 16 * MIB, gpus, GPU, Kernels(workgroups=64, wavefronts=4))
        yield f"  {gpus:4} {time:8.1f} {16 * MIB * (gpus - 1) / gpus / time / 1000:8.0f}"


def main() -> None:
    """Print all of them."""
    for part in (protocols, fences, formula, directions, saturation, scaling):
        print("\n".join(part()), end="\n\n")


if __name__ == "__main__":
    main()
