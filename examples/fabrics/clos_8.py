"""The all_reduce of clos_8.yaml on each back end, beside what ASTRA-sim 3.0 publishes for its ns-3 fork."""

from __future__ import annotations

import sys

import astrarium as ar

PUBLISHED_US = 165.98                               # arXiv 2606.10440, table 1
PUBLISHED_FLOWS_US = (11.250, 11.477, 14.552)       # least, mean, most
BYTES = 2 * 7 / 8 * 2**20                           # what busbw counts
PLAIN = {"network.packets": {}}
BACKENDS = {
    "published (ns-3, RDMA)": None,
    "packets, roce": {},
    "packets, credits": {"network.packets.transport": "credits"},
    "fluid": {"network.backend": "fluid", **PLAIN},
    "contention": {"network.backend": "contention", **PLAIN},
    "ns3, udp": {"network.backend": "ns3", "network.ns3.packet": "8192 B", **PLAIN},
    "ns3, tcp": {"network.backend": "ns3", "network.ns3.packet": "8192 B", "network.ns3.transport": "tcp", **PLAIN},
}


def row(name: str, us: float, flows: tuple[float, ...] = ()) -> None:
    least, mean, most = (f"{each:.2f}" for each in flows) if flows else ("", "", "")
    text = (f"{name:23} {us:8.2f} us {100 * (us / PUBLISHED_US - 1):+7.1f} %  {BYTES * 8 / us / 1000:6.2f} Gb/s  "
            f"{least:>6} {mean:>6} {most:>6}")
    print(text.rstrip())


def main() -> None:
    base = ar.load_design("examples/fabrics/clos_8.yaml")
    print(f"{'':23} {'all_reduce':>11} {'':9}  {'busbw':>11}  flows: least, mean, most (us)")
    for name, changes in BACKENDS.items():
        if changes is None:
            row(name, PUBLISHED_US, PUBLISHED_FLOWS_US)
        elif not name.startswith("ns3") or "--ns3" in sys.argv:     # a program that `make ns3` builds
            result = ar.simulate(ar.replace_all(base, changes))
            flows = result.flows
            row(name, float(result.makespan) / 1000, () if flows is None else (
                flows.time.min() / 1e6, flows.time.mean() / 1e6, flows.time.max() / 1e6))


if __name__ == "__main__":
    main()
