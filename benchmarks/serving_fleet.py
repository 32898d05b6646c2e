"""CPU time and memory of a long stream on a fleet.

    python benchmarks/serving_fleet.py [--requests N] [--instances N] [--rate R] [--routing fewest] [--mtbf HOURS]

Llama 3 8B on H100 (measured kernels), an instance a GPU; requests come at random with the lengths of Azure's
conversations (2023: mean 1,155 and 211 tokens).
"""

from __future__ import annotations

import argparse
import resource
import time

import astrarium as ar
from astrarium import catalog
from astrarium.compute.measured import Measured
from astrarium.serving import Buckets, Deployment, Failures, Lognormal, Member, Poisson, Policy, serve_deployed


def main() -> None:
    """One stream."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--rate", type=float, default=12.5, help="requests/s of an instance")
    parser.add_argument("--routing", default="fewest")
    parser.add_argument("--mtbf", help="hours between failures of a GPU; they last a minute")
    options = parser.parse_args()
    one = ar.Design(workload=ar.Inference("llama3-8b", phase="decode", context=1), compute=Measured(device="h100_sxm"),
                    memory=ar.Memory(**catalog.device("h100_sxm").memory),
                    network=ar.Network([ar.Switch(1, bandwidth="450 GB/s", latency="500 ns",
                                                  fabric="dgx_h100_nvswitch")]))
    stream = Poisson(rate=options.rate * options.instances, count=options.requests, seed=1,
                     prompt=Lognormal(mean=1155, cv=0.96, high=14_050), output=Lognormal(mean=211, cv=0.77, high=1000))
    failures = Failures() if options.mtbf is None else Failures(mtbf=f"{options.mtbf} h", repair="60 s", seed=1)
    member = Member(design="", count=options.instances, policy=Policy(routing=options.routing))
    deployment = Deployment((one,), (member,), Buckets(), ({},), failures=failures)
    start = time.process_time()
    served = serve_deployed(deployment, stream)
    spent, found = time.process_time() - start, served.summary()
    print(f"{options.requests:,} requests on {options.instances} instances, {served.steps:,} steps: {spent:.0f} CPU s, "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")
    failed = sum(part.failed for part in served.parts)
    print(f"TTFT mean {found['ttft_mean_ns'] / 1e6:.1f} ms, p99 {found['ttft_p99_ns'] / 1e6:.1f} ms; TPOT p99 "
          f"{found['tpot_p99_ns'] / 1e6:.2f} ms; {failed} failures, {served.wasted:,} tokens in vain")


if __name__ == "__main__":
    main()
