"""Requests per CPU second of GPU kernels, every GPU simulated (no folding), and the memory of the process.

usage: gpu_requests.py [--gpus 8 128] [--payload 16] [--repeat 3] [--threads 1 2]

An all_to_all (put, Simple) of so many MiB per GPU on GPUs of 128 units, 32 channels and 32 ports, 4 TB/s of memory and
1 TB/s of scale-up, 1 us a link. Half of the requests are local loads, half remote stores, as in any put. A request
counts once, at its issue. Seconds are the best of `repeat`: of the CPU, of all threads of this process, and of the
clock on the wall, which says what threads gain on idle cores. Results of all thread counts must agree.

Targets: on one core 4 million requests/s at 8 and at 128 GPUs, 128 GPUs under 1 GB; two threads 1.7 times as fast.
"""

from __future__ import annotations

import argparse
import resource
import time

from _measure import machine

from astrarium.gpu import Gpu, Kernels, kernel_launch
from astrarium.gpu.engine import Finished, Launch, run_launch
from astrarium.vocab import CommOp

GPU = Gpu(units=128, workgroups_per_unit=1, wavefronts_per_unit=16, instruction="1 KiB", outstanding_wavefront=64,
          outstanding_workgroup=512, outstanding_unit=512, unit_bandwidth="128 GB/s", issue="0.5 ns",
          reduce_bandwidth="128 GB/s", dispatch="1 us", barrier="20 ns", fence="200 ns", network_latency="40 ns",
          channels=32, interleave="512 B", l2_bandwidth="8 TB/s", l2_latency="100 ns", hbm_bandwidth="4 TB/s",
          hbm_latency="200 ns", ports=32, port_interleave="256 B", port_bandwidth="32 GB/s", header="16 B",
          control="16 B", link_latency="1 us")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, nargs="+", default=[8, 128])
    parser.add_argument("--payload", type=float, default=16, help="MiB per GPU")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    asked = parser.parse_args()
    print(machine())
    kernels = Kernels(workgroups=64, wavefronts=8, unroll=4)
    for gpus in asked.gpus:
        launch = kernel_launch(CommOp.ALL_TO_ALL, asked.payload * 2**20, gpus, GPU, kernels)
        first, alone = None, 0.0
        for threads in asked.threads:
            ran, cpu, wall = best(launch, threads, asked.repeat)
            first, alone = first or ran, alone or wall
            assert (first.workgroup_ends == ran.workgroup_ends).all()
            assert (first.latency == ran.latency).all()
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            requests = ran.total_requests
            print(f"{gpus:4} GPUs, {threads} threads: {requests / 1e6:8.2f} M requests, {ran.events / requests:.2f} "
                  f"events each, {cpu:6.2f} CPU s: {requests / cpu / 1e6:.2f} M requests/s, "
                  f"{ran.events / cpu / 1e6:.1f} M events/s; {wall:6.2f} s on the wall: {alone / wall:.2f}x; "
                  f"simulated {ran.makespan / 1e6:.1f} us; {memory:.2f} GiB")


def best(launch: Launch, threads: int, repeat: int) -> tuple[Finished, float, float]:
    """(outcome, least CPU seconds, least seconds on the wall) of several runs."""
    cpus, walls = [], []
    for _ in range(repeat):
        cpu, wall = time.process_time(), time.perf_counter()
        ran = run_launch(launch, fold=False, threads=threads)
        cpus.append(time.process_time() - cpu)
        walls.append(time.perf_counter() - wall)
    return ran, min(cpus), min(walls)


if __name__ == "__main__":
    main()
