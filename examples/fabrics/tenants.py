"""Five jobs on one fabric, each of two NPUs that swap 64 MB: alone, on one leaf, and across a leaf's two links."""

from __future__ import annotations

import astrarium as ar

NUMBERS = {"bandwidth": "50 GB/s", "latency": "500 ns"}
FABRIC = ar.blueprint("clos", hosts=12, ports=8, oversubscription=3, links={"access": NUMBERS, "spine": NUMBERS})
LEAF = 6        # NPUs of a leaf


def slowdowns(pairs: list[list[int]], **more: object) -> list[float]:
    """Of each job: its time over its time alone."""
    jobs = [ar.Job(ar.SingleCollective("all_reduce", "64 MB"), npus=pair) for pair in pairs]
    network = ar.Network(fabric=FABRIC, **more)
    return [job.slowdown for job in ar.simulate(ar.Design(workload=ar.Jobs(jobs), network=network)).jobs]


def main() -> None:
    across = [[job, LEAF + job] for job in range(5)]
    beside = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    spray = {"backend": "packets", "packets": {"spray": True}}
    routes = [{"source": one, "destination": two, "via": [f"spine.{job % 2}"]}
              for job, pair in enumerate(across) for one, two in (pair, pair[::-1])]
    for name, pairs, more in (("within leaves", beside, spray), ("across leaves, sprayed", across, spray),
                              ("across leaves, routed 3 : 2", across, {"backend": "fluid", "routes": routes})):
        print(f"{name:28}", *(f"{each:.2f}x" for each in slowdowns(pairs, **more)))


if __name__ == "__main__":
    main()
