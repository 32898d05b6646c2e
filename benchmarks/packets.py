"""Packet-hops per CPU second of `network.backend: packets`, on fat trees of two levels; and one large all_to_all.

usage: packets.py [--npus 128 1024 8192] [--transport credits roce] [--threads 1] [--all-to-all NPUS]
       packets.py --drawn SEED COUNT [--npus 128 1024 8192] [--transport credits]

A permutation drawn from a seed (every NPU sends 8, 1 and 1 MiB at 128, 1,024 and 8,192 NPUs to another), ECMP, links of
50 GB/s and 500 ns, packets of 4,096 B; credits: buffers of 256 KiB a link, roce: its defaults for the links. The run is
taken whole: reading the plan, the engine, the packets. A packet-hop is one packet over one link. --all-to-all: a direct
all_to_all of 1 MiB sent per NPU, and the memory of its process.

--drawn: so many cases per size, each a fabric of a blueprint (Clos of two and three tiers, rails, dragonfly, torus),
speeds of its links and traffic (permutation, incast of 32 to 1, ring, all_to_all) drawn from a seed; median and worst.
The better of two runs; cases of few packet-hops are those of reading the plan.

Targets on one core: credits 7, 5 and 4 million packet-hops/s, roce half of that; 8,192 NPUs: 5 minutes and 4 GB.
"""

from __future__ import annotations

import argparse
import random
import resource
import time

import numpy as np
from _drawn_fabrics import TRAFFIC, fabric_of, sends_of
from _measure import machine, median
from msgspec.structs import replace

import astrarium as ar
from astrarium.collective.algorithms import Options, build
from astrarium.engine import Outcome, execute
from astrarium.engine.plan import (
    Algorithm,
    Chunk,
    CollectivePlan,
    Dim,
    Graph,
    Kind,
    Lane,
    NetworkPlan,
    PacketRules,
    Phase,
    Plan,
    Program,
    Shape,
    TransportRules,
)
from astrarium.lower import lower
from astrarium.network.roce import Roce, of_rates
from astrarium.vocab import CommOp

LEAF = {128: 16, 1024: 32, 8192: 64}      # NPUs of a leaf, and spines
TARGETS = {128: 7.0, 1024: 5.0, 8192: 4.0}      # million packet-hops/s of credits
MOST_ALL_TO_ALL = 4096      # NPUs: on a torus of 8,192 it takes 10^9 packet-hops
MESSAGE = {128: 8 << 20, 1024: 1 << 20, 8192: 1 << 20}


def fat_tree(npus: int, leaf: int, buffer: int) -> Graph:
    """Leaves of so many NPUs, and as many spines."""
    leaves = npus // leaf
    npu, spine = np.arange(npus), np.tile(np.arange(leaf), leaves)
    up = [npu, npus + npu // leaf], [npus + np.repeat(np.arange(leaves), leaf), npus + leaves + spine]
    source = np.concatenate([up[0][0], up[0][1], up[1][0], up[1][1]]).astype(np.int32)
    target = np.concatenate([up[0][1], up[0][0], up[1][1], up[1][0]]).astype(np.int32)
    links = source.size
    return Graph(npus + leaves + leaf, source, target, np.full(links, 50.0), np.full(links, 500.0),
                 np.full(links, buffer), np.ones(links, np.int32))


def transport_of(name: str, network: NetworkPlan) -> TransportRules | None:
    """The rules of `credits` or `roce`."""
    rates = {dim.bandwidth for dim in network.dims} if network.graph is None else set(network.graph.bandwidth.tolist())
    return of_rates(Roce(), sorted(rates)) if name == "roce" else None


def network(npus: int, transport: str, buffer: int = 1 << 18, threads: int = 1) -> NetworkPlan:
    fabric = NetworkPlan("packets", (Dim(Shape.SWITCH, npus, 50.0, 500.0),), ecmp=7,
                         graph=fat_tree(npus, LEAF[npus], buffer))
    return replace(fabric, packets=PacketRules(transport=transport_of(transport, fabric), threads=threads))


def plan_of(npus: int, program: Program, slots: np.ndarray, collectives: tuple[CollectivePlan, ...],
            fabric: NetworkPlan) -> Plan:
    """Every rank runs the program; its arguments are a row of `slots` [npus, slots, 2]."""
    each = slots.shape[1]
    columns = [np.ascontiguousarray(slots[:, :, k].reshape(-1), np.int32) for k in (0, 1)]
    return Plan(npus, (program,), np.zeros(npus, np.int32), np.arange(npus, dtype=np.int32),
                np.arange(npus + 1, dtype=np.int64) * each, *columns, np.zeros(npus * each, np.int32), (), collectives,
                fabric)


def program_of(kinds: list[Kind], size: int) -> Program:
    count = len(kinds)
    none = np.zeros(count, np.int64)
    return Program(np.arange(count, dtype=np.uint64), np.array(kinds, np.uint8), np.full(count, Lane.COMM, np.int16),
                   none, none, np.full(count, size, np.int64), np.arange(count, dtype=np.int32),
                   np.zeros(count, np.int32), np.zeros(count + 1, np.int32), np.zeros(0, np.int32))


def permutation(npus: int, fabric: NetworkPlan) -> Plan:
    """Every NPU sends one message, and receives one."""
    order = list(range(npus))
    random.Random(17).shuffle(order)
    to = np.empty(npus, np.int64)
    to[order] = order[1:] + order[:1]
    back = np.argsort(to)
    slots = np.zeros((npus, 2, 2), np.int64)
    slots[:, 0, 0], slots[:, 1, 0] = to, back
    program = program_of([Kind.SEND, Kind.RECV], MESSAGE[npus])
    lanes = program.lane.copy()
    lanes[1] = -1
    return plan_of(npus, replace(program, lane=lanes), slots, (), fabric)


def all_to_all(npus: int, fabric: NetworkPlan) -> Plan:
    """One direct all_to_all of 1 MiB sent per NPU."""
    size = 1 << 20
    schedule = build("direct", CommOp.ALL_TO_ALL, npus, Options())
    phase = Phase(0, CommOp.ALL_TO_ALL, Algorithm.SCHEDULE, size, npus, 1, schedule=schedule,
                  block_size=size // schedule.blocks)
    collective = CollectivePlan(CommOp.ALL_TO_ALL, size, (Chunk(1, (phase,)),))
    slots = np.zeros((npus, 1, 2), np.int64)
    slots[:, 0, 1] = -1
    return plan_of(npus, program_of([Kind.COLLECTIVE], 0), slots, (collective,), fabric)


def sends_plan(sends: np.ndarray, npus: int, size: int, fabric: NetworkPlan) -> Plan:
    """A program per NPU: its sends and receives, all at once."""
    programs, slots = [], []
    order = np.argsort(sends[:, 1], kind="stable")
    first_in = np.searchsorted(sends[order, 1], np.arange(npus + 1))
    to = dict(sends.tolist())
    shapes: dict[tuple[int, int], int] = {}
    of, pointer = [], [0]
    for npu in range(npus):
        sources = sends[order[first_in[npu]:first_in[npu + 1]], 0].tolist()
        shape = (int(npu in to), len(sources))
        if shape not in shapes:
            shapes[shape] = len(programs)
            program = program_of([Kind.SEND] * shape[0] + [Kind.RECV] * shape[1], size)
            lanes = program.lane.copy()
            lanes[shape[0]:] = -1
            programs.append(replace(program, lane=lanes))
        of.append(shapes[shape])
        slots += [to[npu], *sources] if npu in to else sources
        pointer.append(len(slots))
    none = np.zeros(len(slots), np.int32)
    return Plan(npus, tuple(programs), np.array(of, np.int32), np.arange(npus, dtype=np.int32),
                np.array(pointer, np.int64), np.array(slots, np.int32), none, none, (), (), fabric)


def drawn_plan(seed: int, npus: int, transport: str, threads: int) -> tuple[str, Plan]:
    """(the case in words, its plan)."""
    rng = random.Random(seed)
    words, network = fabric_of(rng, npus)
    traffic = rng.choice(TRAFFIC[:3] if npus > MOST_ALL_TO_ALL else TRAFFIC)
    design = ar.Design(workload=ar.SingleCollective("all_to_all", f"{rng.choice((64, 256)) * network.npus} B"),
                       network=network)
    plan = lower(design)
    rules = PacketRules(transport=transport_of(transport, plan.network), threads=threads)
    fabric = replace(plan.network, packets=rules)
    if traffic == "all_to_all":
        return f"{words}, {traffic}", replace(plan, network=fabric)
    size = rng.choice((64 << 10, 1 << 20, 4 << 20)) // (8 if npus > 4096 else 1)
    sends = sends_of(rng, traffic, plan.npus)
    return f"{words}, {traffic} of {size >> 10} KiB", sends_plan(sends, plan.npus, size, fabric)


def drawn(first: int, count: int, npus: int, transport: str, threads: int) -> None:
    rates = []
    for seed in range(first, first + count):
        words, plan = drawn_plan(seed, npus, transport, threads)
        outcome, seconds = min((measured(plan) for _ in range(2)), key=lambda run: run[1])
        assert outcome.packets is not None
        rates.append(outcome.packets.hops / seconds / 1e6)
        print(f"{seed:5} {plan.npus:5} NPUs {transport:8} {outcome.packets.hops:9} packet-hops {seconds:7.3f} CPU s "
              f"{rates[-1]:6.2f} M/s  {words}", flush=True)
    print(f"about {npus} NPUs, {transport}: median {median(rates):.2f}, worst {min(rates):.2f} M packet-hops/s",
          flush=True)


def measured(plan: Plan) -> tuple[Outcome, float]:
    before = time.process_time()
    outcome = execute(plan, fold=False)
    return outcome, time.process_time() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npus", type=int, nargs="*", default=[128, 1024, 8192], choices=list(LEAF))
    parser.add_argument("--transport", nargs="*", default=["credits", "roce"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--all-to-all", type=int, default=0, choices=[0, *LEAF])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--drawn", type=int, nargs=2, metavar=("SEED", "COUNT"))
    options = parser.parse_args()
    print(machine())
    if options.drawn:
        for npus in options.npus:
            for transport in options.transport:
                drawn(*options.drawn, npus, transport, options.threads)
        return
    for npus in options.npus:
        for transport in options.transport:
            fabric = network(npus, transport, threads=options.threads)
            runs = [measured(permutation(npus, fabric)) for _ in range(options.runs)]
            outcome, seconds = min(runs, key=lambda run: run[1])
            assert outcome.packets is not None
            rate, target = outcome.packets.hops / seconds / 1e6, TARGETS[npus] / (2 if transport == "roce" else 1)
            print(f"{npus:5} NPUs, permutation, {transport:8} {outcome.packets.hops:9} packet-hops {seconds:6.2f} CPU s"
                  f" {rate:6.2f} M/s  >= {target:.1f} {'ok' if rate >= target else 'MISSED'}"
                  f"  makespan {outcome.makespan / 1e6:.1f} us", flush=True)
    if options.all_to_all:
        fabric = network(options.all_to_all, "credits", threads=options.threads)
        outcome, seconds = measured(all_to_all(options.all_to_all, fabric))
        assert outcome.packets is not None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{options.all_to_all:5} NPUs, all_to_all of 1 MiB, credits {outcome.packets.hops:9} packet-hops "
              f"{seconds:6.1f} CPU s, {peak:.2f} GB  makespan {outcome.makespan / 1e6:.1f} us")


if __name__ == "__main__":
    main()
