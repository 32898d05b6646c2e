"""MSCCL++ execution plans (the JSON that its DSL writes) as kernels.

A thread block is a workgroup, an operation with buffers a load of its sources and a store to its targets (added, if
there are several sources), `nop` a barrier of the block, `signal` a release that fences, `wait` an acquire. With
protocol LL, lines of the scratch buffer carry flags. Format: MSCCL++, documentation of its DSL ("Execution plan"), and
the list of operations of its executor. Memory channels only: no port channels (copy engines, RDMA), no switch channels
(NVLS), no pipelines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from astrarium.errors import InputError, UnsupportedError, nearest
from astrarium.vocab import CommOp

__all__ = ["DATA", "PlanBlock", "PlanGpu", "PlanStep", "PlannedKernels", "read_mscclpp"]

COLLECTIVES = {"allreduce": CommOp.ALL_REDUCE, "allgather": CommOp.ALL_GATHER,
               "reducescatter": CommOp.REDUCE_SCATTER}
DATA = frozenset({"copy", "put", "get", "pws", "cpkt", "upkt", "ppkt", "rppkt", "re", "res", "rre", "rres", "repkt",
                  "respkt", "recpkt", "recspkt"})
SIGNALS, WAITS = frozenset({"signal", "rlxsignal", "pws"}), frozenset({"wait", "rlxwait"})
_OTHER = frozenset({"nop", "barrier", "flush"})
_BEYOND = frozenset({"pwsf", "gstore", "glre", "glres", "pipeline", "sem_acquire", "sem_release"})
_KEYS = frozenset({"name", "src_buff", "dst_buff", "channel_ids", "channel_type", "reduce_op", "barrier_id",
                   "num_threadblocks", "tbg_info"})
Spot = tuple[int, str, int, int]        # rank, buffer (i, o or s), chunk, chunks


class PlanStep(Struct, frozen=True):
    """An operation: what it reads and writes, the channels (of its GPU) that it signals or waits on, the barrier.
    `share`: which part of how many this thread block does (a group of blocks shares an operation)."""

    name: str
    sources: tuple[Spot, ...] = ()
    targets: tuple[Spot, ...] = ()
    channels: tuple[int, ...] = ()
    barrier: tuple[int, int] = (0, 0)       # number, thread blocks
    share: tuple[int, int] = (0, 1)


class PlanBlock(Struct, frozen=True):
    """A thread block: its operations in order."""

    steps: tuple[PlanStep, ...]


class PlanGpu(Struct, frozen=True):
    """A GPU: chunks of its input, output and scratch; the rank at the other end of each channel; thread blocks."""

    chunks: Mapping[str, int]
    channels: tuple[int, ...]
    blocks: tuple[PlanBlock, ...]


class PlannedKernels(Struct, frozen=True):
    """A plan that was read; `path` names it in errors."""

    path: str
    name: str
    op: CommOp
    ll: bool
    in_place: bool
    threads: int
    gpus: tuple[PlanGpu, ...]


def read_mscclpp(source: str | os.PathLike[str]) -> PlannedKernels:
    """Read a plan's file. Raises InputError, which names rank, thread block and operation, for what is malformed, out
    of range or unknown, and UnsupportedError for what is beyond this model."""
    path = os.fspath(source)
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"is no JSON ({error})") from error
    return _Reader(path, data).plan()


class _Reader:
    """One plan while it is read; `where` names the place in errors."""

    def __init__(self, path: str, data: Any):
        self.path, self.data, self.where = path, data, ""

    def fail(self, message: str, expected: str | None = None, near: str | None = None) -> InputError:
        return InputError(self.path, f"{self.where}: {message}" if self.where else message, expected=expected,
                          did_you_mean=near)

    def beyond(self, what: str, expected: str) -> UnsupportedError:
        return UnsupportedError(self.path, f"{self.where}: {what}" if self.where else what, expected=expected)

    def field(self, holder: Any, name: str, kind: type, default: Any = None) -> Any:
        """A field of an object; a whole number is not below 0. None as default: it must be there."""
        value: Any = holder.get(name, default) if isinstance(holder, dict) else None
        good = isinstance(value, kind)
        if kind is int:
            good = type(value) is int and value in range(1 << 31)
        if not good:
            raise self.fail(f"{name} is {str(value)[:60]!r}", expected=_KINDS[kind])
        return value

    def plan(self) -> PlannedKernels:
        name, coll = self.field(self.data, "name", str), self.field(self.data, "collective", str)
        if coll not in COLLECTIVES:
            raise self.beyond(f"collective {coll[:40]!r}", "one of " + ", ".join(COLLECTIVES))
        protocol = self.field(self.data, "protocol", str)
        if protocol not in ("Simple", "LL"):
            raise self.beyond(f"protocol {protocol[:40]!r}", "Simple or LL")
        rows = self.field(self.data, "gpus", list)
        if [row.get("id") if isinstance(row, dict) else None for row in rows] != list(range(len(rows))) or not rows:
            raise self.fail("gpus are not numbered 0, 1, ... in order", expected="an id per GPU")
        self.gpus = rows
        return PlannedKernels(self.path, name, COLLECTIVES[coll], protocol == "LL",
                              self.field(self.data, "inplace", bool, False),
                              self.field(self.data, "num_threads_per_block", int),
                              tuple(self.gpu(rank, row) for rank, row in enumerate(rows)))

    def gpu(self, rank: int, row: Any) -> PlanGpu:
        self.where = f"rank {rank}"
        channels = self.channels(row)
        blocks = self.field(row, "threadblocks", list)
        return PlanGpu(self.chunks(row), channels, tuple(self.block(rank, i, channels, block)
                                                         for i, block in enumerate(blocks)))

    def chunks(self, row: Any) -> dict[str, int]:
        names = {"i": "input_chunks", "o": "output_chunks", "s": "scratch_chunks"}
        return {short: self.field(row, name, int) for short, name in names.items()}

    def channels(self, row: Any) -> tuple[int, ...]:
        found: tuple[Any, ...] = ()
        for each in self.field(row, "channels", list, []):
            if self.field(each, "channel_type", str) != "memory":
                raise self.beyond(f"a {each['channel_type'][:20]} channel", "memory channels")
            found += tuple(self.field(each, "connected_to", list))
        for peer in found:
            if not isinstance(peer, int) or not 0 <= peer < len(self.gpus):
                raise self.fail(f"a channel to rank {str(peer)[:20]}", expected=f"0 to {len(self.gpus) - 1}")
        return found

    def block(self, rank: int, number: int, channels: Sequence[int], block: Any) -> PlanBlock:
        self.where = f"rank {rank}, threadblock {number}"
        own = self.listed(block, "channels", "channel_type", "channel_ids", len(channels))
        remote = self.field(self.gpus[rank], "remote_buffers", list, [])
        buffers = self.listed(block, "remote_buffer_refs", "access_channel_type", "remote_buffer_ids", len(remote))
        steps = []
        for i, op in enumerate(self.field(block, "ops", list)):
            self.where = f"rank {rank}, threadblock {number}, operation {i}"
            name = self.field(op, "name", str)
            self.where += f" ({name[:20]})"
            steps.append(self.step(rank, name, op, own, [remote[at] for at in buffers]))
        return PlanBlock(tuple(steps))

    def listed(self, block: Any, name: str, kind: str, ids: str, most: int) -> list[int]:
        """Numbers of the GPU's channels or remote buffers that a thread block uses."""
        found: list[Any] = []
        for each in self.field(block, name, list, []):
            if self.field(each, kind, str) == "memory":
                found += self.field(each, ids, list)
        for at in found:
            if not isinstance(at, int) or not 0 <= at < most:
                raise self.fail(f"{ids} has {str(at)[:20]}", expected=_below(most))
        return found

    def step(self, rank: int, name: str, op: Any, own: Sequence[int], buffers: Sequence[Any]) -> PlanStep:
        for key in op.keys() - _KEYS:
            raise self.beyond(f"the field {str(key)[:40]!r}", "no other than " + ", ".join(sorted(_KEYS)))
        if name in _BEYOND or op.get("channel_type", "memory") not in ("memory", "none", None):
            raise self.beyond(f"{name} on {op.get('channel_type', 'memory')} channels", "operations of memory channels")
        if name not in DATA | SIGNALS | WAITS | _OTHER:
            known = sorted(DATA | SIGNALS | WAITS | _OTHER)
            raise self.fail("is not known", expected="one of " + ", ".join(known), near=nearest(name, known))
        if name == "barrier":
            return PlanStep(name, barrier=(self.field(op, "barrier_id", int), self.field(op, "num_threadblocks", int)))
        channels = ()
        if name in SIGNALS | WAITS:
            channels = tuple(self.pick(own, at, "channel_ids") for at in self.field(op, "channel_ids", list))
        if name not in DATA:
            return PlanStep(name, channels=channels)
        sources, targets = (tuple(self.spot(rank, each, buffers) for each in self.field(op, key, list))
                            for key in ("src_buff", "dst_buff"))
        if not sources or not targets or len({spot[3] for spot in (*sources, *targets)}) != 1:
            raise self.fail(f"{len(sources)} sources and {len(targets)} targets", expected="both, all of one size")
        return PlanStep(name, sources, targets, channels, share=self.share(op))

    def share(self, op: Any) -> tuple[int, int]:
        if "tbg_info" not in op:
            return 0, 1
        part, of = (self.field(op["tbg_info"], key, int) for key in ("tb_id", "tbg_size"))
        if part >= of:
            raise self.fail(f"part {part} of {of}", expected="less than tbg_size")
        return part, of

    def pick(self, of: Sequence[Any], at: Any, name: str) -> Any:
        if not isinstance(at, int) or not 0 <= at < len(of):
            raise self.fail(f"{name} has {str(at)[:20]}", expected=_below(len(of)))
        return of[at]

    def spot(self, rank: int, place: Any, buffers: Sequence[Any]) -> Spot:
        index, size = self.field(place, "index", int), self.field(place, "size", int)
        if "buffer_id" in place:
            there = self.pick(buffers, place["buffer_id"], "buffer_id")
            rank, kind = self.field(there, "rank", int), self.field(there, "type", str)
        else:
            kind = self.field(place, "type", str)
        if rank >= len(self.gpus) or kind not in ("i", "o", "s"):
            raise self.fail(f"buffer {kind[:20]!r} of rank {rank}", expected="i, o or s of a rank of the plan")
        most = self.chunks(self.gpus[rank])[kind]
        if size < 1 or index + size > most:
            raise self.fail(f"chunks {index} to {index + size} of buffer {kind!r} of rank {rank}",
                            expected=f"at least one, up to {most}")
        return rank, kind, index, size


def _below(most: int) -> str:
    return f"0 to {most - 1}" if most else "none: there are none"


_KINDS: Mapping[type, str] = {int: "a whole number from 0 on", str: "text", list: "a list", bool: "true or false"}
