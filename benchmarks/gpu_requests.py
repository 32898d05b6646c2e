"""Requests per CPU second of GPU kernels, every GPU simulated (no folding), and the memory of the process.

usage: gpu_requests.py [--gpus 8 128] [--payload 16] [--repeat 3]

An all_to_all (put, Simple) of so many MiB per GPU on GPUs of 128 units, 32 channels and 32 ports, 4 TB/s of memory and
1 TB/s of scale-up, 1 us a link. Half of the requests are local loads, half remote stores, as in any put. A request
counts once, at its issue. CPU seconds of this process, the best of `repeat`.

Targets on one core: 4 million requests/s at 8 and at 128 GPUs; 128 GPUs under 1 GB.
"""

from __future__ import annotations

import argparse
import resource
import time

from _measure import machine

from astrarium.collective.kernels import Gpu, Kernels, kernel_launch
from astrarium.engine.gpu import run_launch
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
    asked = parser.parse_args()
    print(machine())
    kernels = Kernels(workgroups=64, wavefronts=8, unroll=4)
    for gpus in asked.gpus:
        launch = kernel_launch(CommOp.ALL_TO_ALL, asked.payload * 2**20, gpus, GPU, kernels)
        best = float("inf")
        for _ in range(asked.repeat):
            begin = time.process_time()
            ran = run_launch(launch, fold=False)
            best = min(best, time.process_time() - begin)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        requests = ran.total_requests
        print(f"{gpus:4} GPUs: {requests / 1e6:8.2f} M requests, {ran.events / requests:.2f} events each, {best:6.2f} "
              f"CPU s: {requests / best / 1e6:.2f} M requests/s, {ran.events / best / 1e6:.1f} M events/s; "
              f"simulated {ran.makespan / 1e6:.1f} us; {memory:.2f} GiB")


if __name__ == "__main__":
    main()
