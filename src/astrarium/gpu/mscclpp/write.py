"""Built-in kernels as MSCCL++ execution plans (JSON).

A workgroup becomes a thread block with its part of every chunk (`tbg_info`), chunks by distance become chunks by rank,
buffers beside input and output become scratch. What has no operation in a plan takes the nearest ones, and is noted:

- a sum that only goes to peers is also stored in the output, where the final sum replaces it;
- a packet that is stored and passed on is read twice;
- a sum loads what is no packet first.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from astrarium.errors import UnsupportedError
from astrarium.gpu.engine import Operation, OpKind, Place
from astrarium.gpu.kernels.build import kernel_algorithm, write_kernel
from astrarium.gpu.kernels.settings import Kernels
from astrarium.gpu.kernels.writer import Writer
from astrarium.gpu.mscclpp.read import COLLECTIVES
from astrarium.vocab import CommOp

__all__ = ["MscclppPlan", "mscclpp_plan"]

Json = dict[str, Any]
STORED = "sums that only go to peers are also stored in the output, which costs a store per line"
ORDER = "sums load their own part first"
APART = "copies to several peers are made one after another"
FENCES = "one fence goes before the signals to all peers"
TWICE = "packets that are stored and passed on are read twice"
MOST_STEPS, MOST_CHANNELS, MOST_SOURCES = 64, 8, 10     # room in MSCCL++'s executor: of a block; of an operation
_ROOM = ": MSCCL++'s executor has room for "
PROTOCOLS = {"simple": "Simple", "ll": "LL"}
LANES = 32
_INPUT, _OUTPUT = 0, 1


class MscclppPlan(Struct, frozen=True):
    """A plan as a document, and in words what of the kernel it does not carry, or what MSCCL++ has no room for."""

    document: Json
    notes: tuple[str, ...]

    def encode(self) -> bytes:
        """The file."""
        return json.dumps(self.document, indent=1).encode() + b"\n"


def mscclpp_plan(op: CommOp, gpus: int, kernels: Kernels | None = None, *, threads: int | None = None,
                 path: str = "kernels") -> MscclppPlan:
    """The plan of a built-in kernel on `gpus` GPUs, for any payload of at least `workgroups` requests per chunk.

    `threads` of a block; none: 32 per wavefront. A plan has no place for `unroll`. Raises InputError and
    UnsupportedError at `path` for a kernel that does not exist, or that a plan cannot express.
    """
    kernels = Kernels() if kernels is None else kernels
    if kernels.protocol not in PROTOCOLS:
        raise UnsupportedError(f"{path}.protocol", kernels.protocol, expected=" or ".join(PROTOCOLS)
                               + ", which MSCCL++ plans have")
    if kernel_algorithm(kernels.algorithm).engines:
        raise UnsupportedError(path, f"{kernels.name}, which runs on copy engines", expected="a kernel of units")
    ll = kernels.protocol == "ll"
    writer = write_kernel(op, gpus, kernels.workgroups, kernels, path=path)
    made = _Plan(writer, whole=kernel_algorithm(kernels.algorithm).whole, path=path)
    words = {each: word for word, each in COLLECTIVES.items()}
    document = {"name": kernels.name, "collective": words[op], "protocol": PROTOCOLS[kernels.protocol],
                "inplace": False, "reuse_resources": False, "gpus": [made.gpu(rank) for rank in range(gpus)],
                "num_threads_per_block": kernels.wavefronts * LANES if threads is None else threads,
                "use_double_scratch_buffer": ll, "buffer_alignment": 16, "min_message_size": 0,
                "max_message_size": (1 << 64) - 1}
    return MscclppPlan(document, tuple(sorted(made.notes)))


class _Plan:
    """One plan while it is written: `ways` are the distances that signals go and come."""

    def __init__(self, writer: Writer, *, whole: bool, path: str):
        self.writer, self.n, self.whole, self.path = writer, writer.shape.gpus, whole, path
        self.parts = len(writer.groups)
        self.chunks = [buffer.size // self.parts for buffer in writer.buffers]
        self.releases: dict[int, list[Operation]] = {}
        for group in writer.groups:
            for op in group.operations:
                if op.kind == OpKind.RELEASE:
                    self.releases.setdefault(op.semaphore, []).append(op)
        ways = {op.peer for ops in self.releases.values() for op in ops}
        self.ways = sorted(ways | {self.n - way for way in ways})
        self.switches = [] if writer.shape.gpus < 2 else sorted({
            place.buffer for op in writer.groups[0].operations for place in (*op.sources, *op.targets)
            if place.peer == writer.shape.gpus})        # buffers for which the switch adds and copies
        self.notes: set[str] = set()

    def gpu(self, rank: int) -> Json:
        """A rank's entry."""
        blocks = [_Block(self, rank, part) for part in range(self.parts)]
        remote = list(dict.fromkeys(each for block in blocks for each in block.remote))
        peers = [(rank + way) % self.n for _ in range(self.parts) for way in self.ways]
        return {"id": rank, "input_chunks": self.chunks[_INPUT], "output_chunks": self.chunks[_OUTPUT],
                "scratch_chunks": sum(self.chunks[_OUTPUT + 1:]),
                "threadblocks": [block.entry(remote) for block in blocks],
                "channels": [*([{"channel_type": "memory", "connected_to": peers}] if peers else []),
                             *({"channel_type": "switch", "buffer_type": "io"[buffer], "rank_groups": [
                                 {"size": self.n, "ranks": list(range(self.n))}]} for buffer in self.switches)],
                "remote_buffers": [{"rank": peer, "type": kind, "access_channel_types": ["memory"]}
                                   for peer, kind in remote], "semaphores": []}

    def spot(self, rank: int, place: Place) -> tuple[int, str, int]:
        """(rank, buffer, chunk) of a place."""
        owner, position = (rank + place.peer) % self.n, place.offset // self.parts
        if place.buffer > _OUTPUT:
            return owner, "s", sum(self.chunks[_OUTPUT + 1:place.buffer]) + position
        spread = self.chunks[place.buffer] == self.n and not self.whole
        return owner, "io"[place.buffer], (owner + position) % self.n if spread else position


class _Block:
    """One thread block of one rank."""

    def __init__(self, plan: _Plan, rank: int, part: int):
        self.plan, self.rank, self.part = plan, rank, part
        self.steps: list[Json] = []
        self.remote: dict[tuple[int, str], int] = {}        # (rank, buffer) -> its number in this thread block
        self._walk(plan.writer.groups[part].operations)
        if len(self.steps) > MOST_STEPS:
            plan.notes.add(f"{len(self.steps)} operations in a thread block{_ROOM}{MOST_STEPS}")

    def _walk(self, operations: tuple[Operation, ...]) -> None:
        signalled: list[Operation] = []
        for op in operations:
            if signalled and (op.kind != OpKind.RELEASE or op.semaphore != signalled[0].semaphore):
                self._signal(signalled)
                signalled = []
            if op.kind == OpKind.RELEASE:
                signalled.append(op)
            elif op.kind == OpKind.ACQUIRE:
                self._wait(op)
            elif op.kind in (OpKind.MEMCPY, OpKind.REDUCE):
                self._data(op)
            else:
                raise UnsupportedError(self.plan.path, f"{op.kind.name.lower()} operations", expected="a kernel of "
                                       "copies, sums and semaphores: MSCCL++ plans have no others here")
        if signalled:
            self._signal(signalled)

    def _add(self, step: Json, *, data: bool) -> None:
        """An operation, after a `nop` (all threads of the block come together) between data and semaphores."""
        if self.steps and ("src_buff" in self.steps[-1]) != data and self.steps[-1]["name"] != "nop":
            self.steps.append({"name": "nop"})
        self.steps.append(step)

    def _signal(self, ops: list[Operation]) -> None:
        if any(op.fence for op in ops[1:]):
            self.plan.notes.add(FENCES)
        self._sync("signal" if ops[0].fence else "rlxsignal", [op.peer for op in ops])

    def _wait(self, op: Operation) -> None:
        releases = self.plan.releases[op.semaphore]
        if op.value != len(releases):
            raise UnsupportedError(self.plan.path, f"a wait for {op.value} of {len(releases)} signals", expected="all")
        self._sync("wait" if releases[0].fence else "rlxwait", [self.plan.n - each.peer for each in releases])

    def _sync(self, name: str, ways: list[int]) -> None:
        if len(ways) > MOST_CHANNELS:
            self.plan.notes.add(f"{len(ways)} channels in an operation{_ROOM}{MOST_CHANNELS}")
        ids = sorted(self.plan.ways.index(way) for way in ways)
        self._add({"name": name, "channel_ids": ids, "channel_type": "memory"}, data=False)

    def _data(self, op: Operation) -> None:
        buffers = self.plan.writer.buffers
        if any(place.peer == self.plan.n for place in (*op.sources, *op.targets)):
            self._switch(op)
            return
        if op.kind == OpKind.MEMCPY and len(op.targets) > 1 and (len(op.sources) > 1 or (
                all(each.peer for each in op.targets) and not buffers[op.sources[0].buffer].flagged)):
            self.plan.notes.add(APART)
            for source, target in zip(op.sources * (1 + len(op.targets) - len(op.sources)), op.targets):
                self._data(replace(op, sources=(source,), targets=(target,)))
            return
        sources = sorted(op.sources, key=lambda each: (each.peer > 0, buffers[each.buffer].flagged))
        targets = sorted(op.targets, key=lambda each: each.peer > 0)
        if sources != list(op.sources):
            self.plan.notes.add(ORDER)
        packets = buffers[sources[-1].buffer].flagged, buffers[targets[-1].buffer].flagged
        if len(sources) == 1 and packets[0]:
            self._pass_on(sources, targets)
        elif len(sources) == 1 and len(targets) == 1:
            far = sources[0].peer > 0, targets[0].peer > 0
            name = ("get", "get") if far[0] else ("put", "ppkt") if far[1] else ("copy", "cpkt")
            self._move(name[packets[1]], sources, targets)
        else:
            self._reduce(sources, targets, packets=any(packets))

    def _switch(self, op: Operation) -> None:
        """The switch adds what all have and stores the sum to all, or copies to all."""
        if any(place.peer != self.plan.n for place in op.targets):
            raise UnsupportedError(self.plan.path, "sums of the switch for one GPU", expected="sums that go to all: "
                                   "MSCCL++'s executor has no others")
        added = op.sources[0].peer == self.plan.n
        self._move("glres" if added else "gstore", list(op.sources), list(op.targets))
        self.steps[-1].update({"channel_type": "switch"} | ({"reduce_op": "sum"} if added else {}))

    def _pass_on(self, sources: list[Place], targets: list[Place]) -> None:
        """Packets: stored in a buffer, passed on, or both."""
        far = [each for each in targets if each.peer]
        if far and len(far) < len(targets):
            self.plan.notes.add(TWICE)
        if far:
            self._move("rppkt", sources, far)
        for each in targets:
            if not each.peer:
                self._move("upkt", sources, [each])

    def _reduce(self, sources: list[Place], targets: list[Place], *, packets: bool) -> None:
        if targets[0].peer:
            self.plan.notes.add(STORED)
            targets = [Place(_OUTPUT, self.part), *targets]
        read, send = any(each.peer for each in sources), len(targets) > 1
        name = ("rre" if read else "re") + ("s" if send else "") + ("pkt" if packets else "")
        if len(sources) > MOST_SOURCES:
            self.plan.notes.add(f"{len(sources)} sources of an operation{_ROOM}{MOST_SOURCES}")
        self._move(name, sources, targets)
        self.steps[-1]["reduce_op"] = "sum"

    def _move(self, name: str, sources: list[Place], targets: list[Place]) -> None:
        step: Json = {"name": name, "src_buff": [self._spot(each) for each in sources],
                      "dst_buff": [self._spot(each) for each in targets]}
        if any(each.peer for each in (*sources, *targets)):
            step["channel_type"] = "memory"
        if self.plan.parts > 1:
            step["tbg_info"] = {"tb_id": self.part, "tbg_size": self.plan.parts}
        self._add(step, data=True)

    def _spot(self, place: Place) -> Json:
        owner, kind, chunk = self.plan.spot(self.rank, place)
        if place.peer == self.plan.n:
            return {"switch_channel_id": self.plan.switches.index(place.buffer), "index": chunk, "size": 1}
        if owner == self.rank:
            return {"type": kind, "index": chunk, "size": 1}
        number = self.remote.setdefault((owner, kind), len(self.remote))
        return {"buffer_id": number, "index": chunk, "size": 1}

    def entry(self, remote: list[tuple[int, str]]) -> Json:
        """Its entry, where the GPU's remote buffers are known."""
        ways = len(self.plan.ways)
        channels = [{"channel_type": "memory", "channel_ids": list(range(self.part * ways, (self.part + 1) * ways))}]
        refs = [{"access_channel_type": "memory", "remote_buffer_ids": [remote.index(each) for each in self.remote]}]
        switch = [{"channel_type": "switch", "channel_ids": list(range(len(self.plan.switches)))}]
        return {"id": self.part, "ops": self.steps,
                "channels": (channels if ways else []) + (switch if self.plan.switches else []),
                "remote_buffer_refs": refs if self.remote else []}
