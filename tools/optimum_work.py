"""Floors of runs of generated workloads, for check_optimum.py; what it states is proved in design/0006.

Written for whoever does not trust the search: numpy arrays over designs, from the plan that the simulator runs. It
knows one compute node at a time per NPU and any number of collectives in flight, rings (both ways), switches, fully
connected dims, the algorithms ring, direct and halving_doubling (any other one takes no time here), baseline and
blueconnect. A collective in which ranks of several programs meet takes no time here either.
"""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np

import astrarium as ar
from astrarium.engine.plan import Kind, Lane
from astrarium.lower import lower
from astrarium.workload.generate import generate

PLAIN = {"collective.chunks": 1, "collective.composition": "baseline", "collective.all_reduce": (),
         "collective.all_gather": (), "collective.reduce_scatter": ()}
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = 0, 2, 7
NAMES = {ALL_REDUCE: "all_reduce", ALL_GATHER: "all_gather", REDUCE_SCATTER: "reduce_scatter"}


class Run:
    """The nodes of some ranks of a design: rank 0 and whoever it exchanges messages with, directly or not."""

    def __init__(self, design: Any):
        self.plan = plan = lower(ar.replace_all(design, PLAIN), generate(design.workload, design.network.npus))
        if plan.lanes[Lane.COMPUTE] != 1:
            raise SystemExit("this checker knows one compute stream")
        if any((np.diff(plan.npu_of[group]) <= 0).any() for group in (slice(None), *plan.groups)):
            raise SystemExit("this checker knows groups that list their NPUs upwards")
        self.ns: list[float] = []
        self.collective: list[int] = []       # its number, -1: none
        self.lane: list[tuple[int, int]] = []
        self.parents: list[list[int]] = []
        ranks, meetings = [0], ({}, {})
        for rank in ranks:
            self._add(rank, ranks, meetings)
        for key, receives in meetings[1].items():
            for receive, send in zip(receives, meetings[0].get(key, [])):
                self.parents[receive].append(send)
        self.timed = set(self.collective) - {-1} - self._mixed() if self._even() else set[int]()
        self.order = self._topological()

    def _even(self) -> bool:
        """Whether ranks of one program send to, and receive from, ranks of one program in each of its nodes: then all
        of them have the same chains."""
        plan = self.plan
        for number, program in enumerate(plan.programs):
            ranks = np.flatnonzero(plan.program_of == number)
            for node in np.flatnonzero((program.kind == Kind.SEND) | (program.kind == Kind.RECV)).tolist():
                peers = plan.slot_a[plan.slot_ptr[ranks] + int(program.slot[node])]
                if np.unique(plan.program_of[peers]).size > 1:
                    return False
        return True

    def _mixed(self) -> set[int]:
        """Collectives in which ranks of several programs meet, which may be there at different times."""
        plan, found = self.plan, set[int]()
        whole = len(plan.programs) == 1
        uniform = [np.unique(plan.program_of[group]).size == 1 for group in plan.groups]
        for number, program in enumerate(plan.programs):
            ranks = np.flatnonzero(plan.program_of == number)
            for slot in np.unique(program.slot[program.kind == Kind.COLLECTIVE]).tolist():
                for place in (plan.slot_ptr[ranks] + slot).tolist():
                    group = int(plan.slot_b[place])
                    if not (whole if group < 0 else uniform[group]):
                        found.add(int(plan.slot_a[place]))
        return found

    def _add(self, rank: int, ranks: list[int], meetings: Any) -> None:
        plan, base = self.plan, len(self.ns)
        program = plan.programs[int(plan.program_of[rank])]
        self.parents += [[] for _ in program.kind]
        for node, kind in enumerate(program.kind.tolist()):
            self.ns.append(int(program.duration[node]) / 1000 if kind == Kind.DELAY else 0.0)
            self.lane.append((rank, int(program.lane[node])))
            place = int(plan.slot_ptr[rank]) + int(program.slot[node])
            self.collective.append(int(plan.slot_a[place]) if kind == Kind.COLLECTIVE else -1)
            for child in program.child[program.child_ptr[node]:program.child_ptr[node + 1]].tolist():
                self.parents[base + child].append(base + node)
            if kind in (Kind.SEND, Kind.RECV):
                peer, tag = int(plan.slot_a[place]), int(plan.slot_b[place])
                way = (rank, peer) if kind == Kind.SEND else (peer, rank)
                meetings[kind == Kind.RECV].setdefault((*way, tag, int(program.size[node])), []).append(base + node)
                if peer not in ranks:
                    ranks.append(peer)

    def _topological(self) -> list[int]:
        children: list[list[int]] = [[] for _ in self.ns]
        for node, parents in enumerate(self.parents):
            for parent in parents:
                children[parent].append(node)
        left, order = [len(parents) for parents in self.parents], []
        free = [node for node, count in enumerate(left) if not count]
        while free:
            order.append(heapq.heappop(free))
            for child in children[order[-1]]:
                left[child] -= 1
                if not left[child]:
                    heapq.heappush(free, child)
        return order

    def keep_order(self) -> None:
        """The compute lane takes the first of its free nodes: one whose parents are all in front of a later one, and
        that comes before it in the program, runs before it."""
        before, lately = [0] * len(self.ns), list[int]()
        for node in self.order:
            for parent in self.parents[node]:
                before[node] |= before[parent] | 1 << parent
            if self.lane[node][1] == Lane.COMPUTE:
                for other in lately[:-9:-1]:
                    if other < node and all(before[node] >> parent & 1 for parent in self.parents[other]):
                        self.parents[node].append(other)
                        before[node] |= before[other] | 1 << other
                lately.append(node)

    def least(self) -> float:
        """What the run takes at least if collectives take no time, ns."""
        head: list[float] = [0.0] * len(self.ns)
        for node in self.order:
            head[node] = max([head[parent] + self.ns[parent] for parent in self.parents[node]], default=0.0)
        busy: dict[tuple[int, int], float] = {}
        for lane, ns in zip(self.lane, self.ns):
            busy[lane] = busy.get(lane, 0.0) + (ns if lane[1] == Lane.COMPUTE else 0.0)
        return max([*(a + b for a, b in zip(head, self.ns)), *busy.values()])

    def floors(self, cost: dict[int, Any], size: int) -> Any:
        """What the run takes at least in each of `size` designs, in which collective k takes cost[k] (arrays, ns)."""
        head, tail = self._chains(cost)
        found = np.zeros(size)
        for node, number in enumerate(self.collective):
            found = np.maximum(found, head[node] + (self.ns[node] if number < 0 else cost[number]) + tail[node])
        time = [self.ns[node] if number < 0 else cost[number] for node, number in enumerate(self.collective)]
        for chosen in self.chosen:
            found = np.maximum(found, self._lane(chosen, time, head, tail))
        return found

    def _chains(self, cost: dict[int, Any]) -> tuple[list[Any], list[Any]]:
        """The longest chain in front of each node, and behind it."""
        time = [self.ns[node] if number < 0 else cost[number] for node, number in enumerate(self.collective)]
        larger: Any = max if all(isinstance(each, float) for each in cost.values()) else np.maximum
        head: list[Any] = [0.0] * len(time)
        tail: list[Any] = [0.0] * len(time)
        for node in self.order:
            for parent in self.parents[node]:
                head[node] = larger(head[node], head[parent] + time[parent])
        for node in reversed(self.order):
            for parent in self.parents[node]:
                tail[parent] = larger(tail[parent], tail[node] + time[node])
        return head, tail

    def choose(self, cost: dict[int, float]) -> None:
        """Takes the nodes of each of rank 0's lanes with one slot whose bound is highest where collectives take
        `cost`."""
        self.chosen: list[list[int]] = []
        head, tail = self._chains(cost)
        time = [self.ns[node] if number < 0 else cost[number] for node, number in enumerate(self.collective)]
        for lane in (Lane.COMPUTE, Lane.COMM):
            if self.plan.lanes[lane] == 1:
                nodes = [node for node, own in enumerate(self.lane) if own == (0, lane) and time[node] > 0]
                self.chosen.append(self._highest(nodes, time, head, tail))

    def _highest(self, nodes: list[int], time: list[float], head: list[float], tail: list[float]) -> list[int]:
        """The nodes of one lane, among those that start late or end early, whose bound is highest."""
        chosen: list[int] = []
        ranked = np.array(sorted(nodes, key=lambda node: -tail[node]), dtype=int)
        early, late, spent = (np.array([each[node] for node in ranked]) for each in (head, tail, time))
        best = -1.0
        for low in np.unique(early):
            inside = early >= low
            sums = np.where(inside, low + np.cumsum(spent * inside) + late, -1.0)
            if sums.max() > best:
                last = int(sums.argmax()) + 1
                best, chosen = float(sums.max()), ranked[:last][inside[:last]].tolist()
        return chosen

    @staticmethod
    def _lane(chosen: list[int], time: list[Any], head: list[Any], tail: list[Any]) -> Any:
        """One node at a time: the earliest start of a set of a lane's nodes, their sum, the least chain behind one."""
        if not chosen:
            return 0.0
        start, end = math.inf, math.inf
        for node in chosen:
            start, end = np.minimum(start, head[node]), np.minimum(end, tail[node])
        return start + sum(time[node] for node in chosen) + end


class Times:
    """Floors of collectives (ns) in designs given as columns: `value(path)` is a column."""

    def __init__(self, run: Run, dims: int, value: Any, per_npu: Any):
        self.run, self.dims, self.value, self.per_npu = run, dims, value, per_npu
        rates = run.plan.reduce_bandwidth if run.plan.reduce_bandwidth.size else [run.plan.policy.reduce_bandwidth]
        self.memory = 0.0 if min(rates) == 0 else max(rates) / 1e9
        self.most = int(np.max(value("collective.chunks")))
        self.same: dict[tuple[str, str], Any] = {}

    def cost(self, number: int) -> Any:
        """One collective of the plan."""
        made = self.run.plan.collectives[number]
        parts = sorted((phase.stride, phase.dim, phase.n) for phase in made.chunks[0].phases if phase.n > 1)
        if made.op not in NAMES or not parts or any(dim < 0 for _, dim, _ in parts):
            return 0.0
        dims = [(dim, n) for _, dim, n in parts]
        granule = 1 if made.op == ALL_GATHER else math.prod(n for _, n in dims)
        chunks = np.minimum(self.value("collective.chunks"), max(1, made.size // granule))
        size = max(0, made.size - self.most)
        found = {name: self._shop(steps, chunks, made.op) for name, steps in self._walks(made.op, size, dims).items()}
        composition = self.value("collective.composition")
        if not np.all((composition == "baseline") | (composition == "blueconnect")):
            raise SystemExit("collective.composition: this checker knows baseline and blueconnect")
        active = self.value("collective.active_chunks")
        if active is not None and not np.all(active == 1):
            raise SystemExit("collective.active_chunks: this checker knows 1")
        return np.where(composition == "baseline", found["baseline"], found["blueconnect"])

    def _walks(self, op: int, size: float, dims: list[tuple[int, int]]) -> dict[str, list[tuple[int, int, int, float]]]:
        """Per composition the phases: (dim, participants, operation, bytes of a block)."""
        if op == ALL_GATHER:
            steps, shard = [], size
            for dim, n in reversed(dims):
                steps.append((dim, n, ALL_GATHER, shard))
                shard *= n
            return {"baseline": steps, "blueconnect": steps}
        down, left = [], size
        for dim, n in dims:
            down.append((dim, n, REDUCE_SCATTER, left / n))
            left /= n
        if op == REDUCE_SCATTER:
            return {"baseline": down, "blueconnect": down}
        back = [(dim, n, ALL_GATHER, block) for dim, n, _, block in reversed(down[:-1])]
        last, n, _, block = down[-1]
        return {"baseline": [(dim, n, ALL_REDUCE, size / n) for dim, n in dims],
                "blueconnect": [*down[:-1], (last, n, ALL_REDUCE, block), *back]}

    def _shop(self, steps: list[tuple[int, int, int, float]], chunks: Any, op: int) -> Any:
        """Equal chunks, one at a time in a phase; at least what all of them send over the links in one dim."""
        times = [self._phase(dim, n, kind, block / chunks, op) for dim, n, kind, block in steps]
        carried: dict[int, Any] = {}
        for dim, n, kind, block in steps:
            carried[dim] = carried.get(dim, 0.0) + self._phase(dim, n, kind, block, op, alone=True)
        shop = sum(times) + (chunks - 1) * np.maximum.reduce(np.broadcast_arrays(*times))
        return np.maximum.reduce(np.broadcast_arrays(shop, *carried.values()))

    def _phase(self, dim: int, n: int, kind: int, block: Any, op: int, alone: bool = False) -> Any:
        """ns of one chunk in one dim; `alone`: of what an NPU sends, on the links to those that it sends to."""
        path = f"network.dims[{dim}]"
        chosen = f"collective.{NAMES[op]}[{dim}]"
        rate, latency, delay = self.per_npu(dim), self.value(f"{path}.latency"), self.value("collective.endpoint_delay")
        found: Any = 0.0
        rounds = 2 if kind == ALL_REDUCE else 1
        npus = self.run.plan.network.dims[dim].npus
        for name, steps in (("ring", n - 1), ("direct", 1), ("halving_doubling", int(math.log2(n)))):
            for where, links in (("ring", 2), ("switch", 1), ("fully_connected", npus - 1)):
                others = 1 if name == "ring" else n - 1 if name == "direct" or n & (n - 1) else steps
                time = rounds * (n - 1) * block / rate * (links / min(links, others))     # over a link to each of them
                if not alone and not n & (n - 1) and (where != "ring" or n == npus):      # else they meet on links
                    hops, blocks = self._way(where, name, n)
                    reduced = 0.0 if kind == ALL_GATHER else (1.0 if name == "direct" else n - 1.0)
                    time = (rounds * links * blocks * block / rate + rounds * hops * latency
                            + (1 + rounds * steps) * (delay - 0.002))
                    if self.memory:
                        time = time + 3 * reduced * block / self.memory
                found = np.where(self._is(f"{path}.shape", where) & self._is(chosen, name), time, found)
        return found

    def _is(self, path: str, word: str) -> Any:
        if (path, word) not in self.same:
            self.same[path, word] = self.value(path) == word
        return self.same[path, word]

    @staticmethod
    def _way(shape: str, name: str, n: int) -> tuple[int, float]:
        """(hops, blocks over one link) one after the other in half an all_reduce."""
        levels, far = int(math.log2(n)), n // 2
        return {"ring": {"ring": (n - 1, n - 1.0), "direct": (far, far * (far + 1) / 2),
                         "halving_doubling": (n - 1, n / 2 * levels)},
                "switch": {"ring": (2 * (n - 1), n - 1.0), "direct": (2, n - 1.0),
                           "halving_doubling": (2 * levels, n - 1.0)},
                "fully_connected": {"ring": (n - 1, n - 1.0), "direct": (1, 1.0),
                                    "halving_doubling": (levels, n - 1.0)}}[shape][name]
