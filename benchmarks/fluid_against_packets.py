"""`fluid` against `packets` on drawn designs: times that both give, and CPU seconds that both take.

usage: fluid_against_packets.py [--seed 1] [--count 200] [--npus 256] [--switching store_and_forward] [--all]

A design is one collective (any operation, any algorithm of the registry that can be laid out) of all NPUs of a fabric:
one to three dims (switch, ring, mesh, fully connected), a Clos network of two or three tiers, rails of DGX hosts, a
dragonfly or a torus, 2 to 32 hosts, ECMP of a drawn seed. The CPU time is that of the engine, the better of two runs.

Prints every design that differs by more than 3 % (--all: every design), then by fabric and by algorithm.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from typing import Any

from _measure import median

import astrarium as ar
from astrarium.engine import execute
from astrarium.errors import AstrariumError
from astrarium.lower import lower
from astrarium.network.packets import Packets
from astrarium.registry import names

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter")
RATES, LATENCIES = (12.5, 25.0, 50.0, 100.0, 450.0), (150.0, 500.0, 1000.0)     # GB/s, ns
WITHIN = 0.03
Row = tuple[str, str, str, float, float, float, float]


def speed(rng: random.Random) -> dict[str, Any]:
    return {"bandwidth": f"{rng.choice(RATES)} GB/s", "latency": f"{rng.choice(LATENCIES)} ns"}


def dims(rng: random.Random) -> tuple[str, dict[str, Any]]:
    shapes = [rng.choice((ar.Switch, ar.Switch, ar.Ring, ar.Mesh, ar.FullyConnected)) for _ in range(rng.randint(1, 3))]
    made = [shape(rng.choice((2, 3, 4, 8)), **speed(rng)) for shape in shapes]
    return "dims " + " x ".join(f"{shape.__name__} {dim.npus}" for shape, dim in zip(shapes, made, strict=True)), {
        "dims": made}


def clos(rng: random.Random) -> tuple[str, dict[str, Any]]:
    tiers, hosts, xpus = rng.choice((2, 3)), rng.randint(2, 32), rng.choice((1, 1, 8))
    ports = rng.choice((4, 8, 16)) if tiers == 2 else 8
    links = ["access", "spine"] + ["core"] * (tiers == 3) + ["scale_up"] * (xpus > 1)
    return fabric("clos", links, rng, hosts=hosts, xpus=xpus, tiers=tiers, ports=ports,
                  oversubscription=rng.choice((1, 1, 3)) if ports % 4 == 0 else 1)


def rails(rng: random.Random) -> tuple[str, dict[str, Any]]:
    name = rng.choice(("dgx_h100_rail", "dgx_a100_rail", "dgx_h100_rail_only", "dgx_a100_rail_only"))
    links = {"pcie": "free", "rail": {"latency": f"{rng.choice(LATENCIES)} ns"}}
    if not name.endswith("only"):
        links["spine"] = {"latency": f"{rng.choice(LATENCIES)} ns"}
    hosts = rng.randint(2, 32)
    return f"{name} {hosts}", {"fabric": ar.blueprint(name, hosts=hosts, links=links)}


def dragonfly(rng: random.Random) -> tuple[str, dict[str, Any]]:
    return fabric("dragonfly", ("access", "local", "global"), rng, routers=rng.choice((2, 4)), xpus=rng.choice((1, 2)),
                  global_links=rng.choice((1, 2)), groups=rng.randint(2, 3))


def torus(rng: random.Random) -> tuple[str, dict[str, Any]]:
    sides = [rng.randint(2, 5) for _ in range(rng.choice((1, 2, 3)))]
    return fabric(rng.choice(("torus", "mesh")), [f"dim{k}" for k in range(len(sides))], rng, sides=sides)


def fabric(name: str, links: Any, rng: random.Random, **sizes: Any) -> tuple[str, dict[str, Any]]:
    made = ar.blueprint(name, links={link: speed(rng) for link in links}, **sizes)
    return " ".join([name, *(f"{key} {value}" for key, value in sizes.items())]), {"fabric": made}


KINDS: tuple[Callable[[random.Random], tuple[str, dict[str, Any]]], ...] = (dims, clos, rails, dragonfly, torus)


def drawn(rng: random.Random, most: int, switching: str) -> Row | None:
    """One design under both back ends; None for one that cannot be laid out."""
    op, size = rng.choice(OPERATIONS), round(10 ** rng.uniform(6, 8))
    algorithm, ecmp = rng.choice(names("algorithm")), rng.randrange(9)
    found: list[float] = []
    try:
        name, network = rng.choice(KINDS)(rng)
        if "dims" not in network:
            network["ecmp"] = ecmp
        for backend in "packets", "fluid":
            made = ar.Network(**network, backend=backend, **({"switching": switching} if backend == "packets" else {}))
            design = ar.Design(workload=ar.SingleCollective(op, f"{size} B"), network=made,
                               collective=ar.Collective(choice="none", **{op: [algorithm]}))
            plan = lower(design)
            if len(plan.program_of) > most:
                return None
            taken = []
            for _ in range(2):
                begin = time.process_time()
                outcome = execute(plan)
                taken.append(time.process_time() - begin)
            found += [outcome.makespan / 1e6, min(taken)]
    except AstrariumError:      # sizes that do not fit, algorithms that do not have the operation
        return None
    return name, algorithm, f"{op} {size / 1e6:.1f} MB ecmp {ecmp}", found[0], found[2], found[1], found[3]


def line(row: Row) -> str:
    name, algorithm, what, packets, fluid, first, second = row
    return (f"{fluid / packets - 1:+8.1%} {second / max(first, 1e-9):6.2f}x {packets:9.1f} {fluid:9.1f} us "
            f"{1e3 * first:8.1f} {1e3 * second:8.1f} ms  {name}, {algorithm}, {what}")


def summary(title: str, rows: list[Row]) -> None:
    off = [abs(row[4] / row[3] - 1) for row in rows]
    costs = [row[6] / max(row[5], 1e-9) for row in rows]
    print(f"{title:22} {len(rows):4} designs, within 3 %: {sum(each <= WITHIN for each in off):4}, median "
          f"{median(off):6.2%}, worst {max(off):7.1%}; CPU packets {sum(row[5] for row in rows):7.2f} s, fluid "
          f"{sum(row[6] for row in rows):7.2f} s, ratio median {median(costs):.2f}, worst {max(costs):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--npus", type=int, default=256, help="larger designs are left out")
    parser.add_argument("--switching", default="store_and_forward", help="of packets")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    rng, rows = random.Random(args.seed), []
    while len(rows) < args.count:
        row = drawn(random.Random(rng.randrange(1 << 40)), args.npus, args.switching)
        if row is not None:
            rows.append(row)
            if args.all or abs(row[4] / row[3] - 1) > WITHIN or row[6] > 1.2 * row[5] + 1e-3:
                print(line(row), flush=True)
    for key in 0, 1:
        for kind in sorted({row[key].split()[0] for row in rows}):
            summary(kind, [row for row in rows if row[key].split()[0] == kind])
    summary("all", rows)


if __name__ == "__main__":
    main()
