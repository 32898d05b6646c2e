"""MSCCL++ execution plans (the JSON that its DSL writes) as kernels.

A thread block is a workgroup, an operation with buffers a load of its sources and a store to its targets (added, if
it reduces; pair by pair, if it is a fused put or get), `nop` a barrier of the block, `signal` a release that fences,
`wait` an acquire. With protocol LL, lines of the scratch buffer carry flags. Format: MSCCL++, documentation of its DSL
("Execution plan"), and the operations of its executor. Memory, port and switch channels (NVLS); no pipelines.
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

__all__ = ["COLLECTIVES", "DATA", "FLUSHES", "INSIDE", "PACKETS", "PAIRED", "SIGNALS", "SWITCHED", "WAITS",
           "PlanBlock", "PlanGpu", "PlanStep", "PlannedKernels", "Spot", "read_mscclpp"]

COLLECTIVES = {"allreduce": CommOp.ALL_REDUCE, "allgather": CommOp.ALL_GATHER,
               "reducescatter": CommOp.REDUCE_SCATTER, "alltoall": CommOp.ALL_TO_ALL}
PAIRED = frozenset({"put", "pws", "pwsf", "get", "ppkt"})       # source i goes to target i
_MANY = 1 << 10
_ARITY = {"copy": (1, 1), "cpkt": (1, 1), "upkt": (1, 1), "rppkt": (1, _MANY), "re": (_MANY, 1), "rre": (_MANY, 1),
          "repkt": (_MANY, 1), "res": (_MANY, _MANY), "rres": (_MANY, _MANY), "respkt": (_MANY, _MANY),
          "recpkt": (_MANY, 2), "recspkt": (_MANY, _MANY), "gstore": (1, 1), "gstorepkt": (1, 1),
          "glres": (1, 1)}                                      # most sources and targets
DATA = PAIRED | _ARITY.keys()
SWITCHED = {"gstore": (False, True), "gstorepkt": (False, True), "glres": (True, True)}     # source, target on a switch
SIGNALS, WAITS = frozenset({"signal", "rlxsignal", "pws", "pwsf"}), frozenset({"wait", "rlxwait"})
FLUSHES = frozenset({"flush", "pwsf"})
ON_PORTS = frozenset({"put", "pws", "pwsf", "ppkt", "rppkt", "signal", "wait", "flush"})
INSIDE = frozenset({"sem_acquire", "sem_release"})              # semaphores inside a GPU
PACKETS = frozenset({"ppkt", "rppkt", "cpkt", "upkt", "repkt", "respkt", "recpkt", "recspkt", "gstorepkt"})
_OTHER = frozenset({"nop", "barrier", "flush"}) | INSIDE
_BEYOND = {"pipeline": ("a pipeline", "operations outside of one"),
           "glre": ("a sum that the switch makes for one GPU, which MSCCL++'s executor does not have", "glres")}
_KEYS = frozenset({"name", "src_buff", "dst_buff", "channel_ids", "channel_type", "reduce_op", "barrier_id",
                   "num_threadblocks", "tbg_info", "semaphore_ids"})
MOST_BYTES = 64 << 20
Spot = tuple[int, str, int, int]        # rank (the number of ranks: all of them), buffer (i, o or s), chunk, chunks


class PlanStep(Struct, frozen=True):
    """An operation: what it reads and writes, the channels (of its GPU) that it uses, the barrier, semaphores inside
    the GPU. `port`: the channels are port channels. `share`: which part of how many this thread block does (a group of
    blocks shares an operation)."""

    name: str
    sources: tuple[Spot, ...] = ()
    targets: tuple[Spot, ...] = ()
    channels: tuple[int, ...] = ()
    barrier: tuple[int, int] = (0, 0)       # number, thread blocks
    share: tuple[int, int] = (0, 1)
    port: bool = False
    semaphores: tuple[int, ...] = ()


class PlanBlock(Struct, frozen=True):
    """A thread block: its operations in order."""

    steps: tuple[PlanStep, ...]


class PlanGpu(Struct, frozen=True):
    """A GPU: chunks of its input, output and scratch; the rank at the other end of each memory and of each port
    channel; thread blocks; what semaphores inside it begin with."""

    chunks: Mapping[str, int]
    channels: tuple[int, ...]
    ports: tuple[int, ...]
    blocks: tuple[PlanBlock, ...]
    semaphores: tuple[int, ...] = ()


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
    size = Path(path).stat().st_size
    if size > MOST_BYTES:
        raise InputError(path, f"{size} bytes", expected=f"at most {MOST_BYTES}")
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
        self.gpus, self.ll = rows, protocol == "LL"
        return PlannedKernels(self.path, name, COLLECTIVES[coll], protocol == "LL",
                              self.field(self.data, "inplace", bool, False),
                              self.field(self.data, "num_threads_per_block", int),
                              tuple(self.gpu(rank, row) for rank, row in enumerate(rows)))

    def gpu(self, rank: int, row: Any) -> PlanGpu:
        self.where = f"rank {rank}"
        channels = self.channels(row)
        blocks = self.field(row, "threadblocks", list)
        begin = tuple(self.field(each, "init_value", int) for each in self.field(row, "semaphores", list, []))
        return PlanGpu(self.chunks(row), channels["memory"], channels["port"],
                       tuple(self.block(rank, i, channels, block) for i, block in enumerate(blocks)), begin)

    def chunks(self, row: Any) -> dict[str, int]:
        names = {"i": "input_chunks", "o": "output_chunks", "s": "scratch_chunks"}
        return {short: self.field(row, name, int) for short, name in names.items()}

    def channels(self, row: Any) -> dict[str, tuple[int, ...]]:
        """The rank at the other end of each memory and port channel of a GPU; the buffer of each switch channel."""
        found: dict[str, tuple[Any, ...]] = {"memory": (), "port": (), "switch": ()}
        for each in self.field(row, "channels", list, []):
            kind = self.field(each, "channel_type", str)
            if kind not in found:
                raise self.fail(f"channel_type {kind[:20]!r}", expected="one of " + ", ".join(found))
            found[kind] += self.switches(each) if kind == "switch" else tuple(self.field(each, "connected_to", list))
        for peer in (*found["memory"], *found["port"]):
            if type(peer) is not int or not 0 <= peer < len(self.gpus):
                raise self.fail(f"a channel to rank {str(peer)[:20]}", expected=f"0 to {len(self.gpus) - 1}")
        return found

    def switches(self, channel: Any) -> tuple[str, ...]:
        """The buffer (i, o or s) of each switch channel: there is one for each group of ranks."""
        kind = self.field(channel, "buffer_type", str)
        if kind not in ("i", "o", "s"):
            raise self.fail(f"buffer_type {kind[:20]!r}", expected="i, o or s")
        groups = self.field(channel, "rank_groups", list)
        for each in groups:
            ranks = self.field(each, "ranks", list)
            if any(type(at) is not int or not 0 <= at < len(self.gpus) for at in ranks) or len(set(ranks)) < len(ranks):
                raise self.fail(f"a switch channel of ranks {str(ranks)[:60]}",
                                expected=f"different ones from 0 to {len(self.gpus) - 1}")
            if len(ranks) < len(self.gpus):
                raise self.beyond(f"a switch channel of {len(ranks)} of {len(self.gpus)} ranks", "one of all: here the "
                                  "switch adds and copies for all GPUs")
        return (kind,) * len(groups)

    def block(self, rank: int, number: int, channels: Mapping[str, Sequence[int]], block: Any) -> PlanBlock:
        self.where = f"rank {rank}, threadblock {number}"
        remote = self.field(self.gpus[rank], "remote_buffers", list, [])
        own, buffers = dict[str, Sequence[Any]](), dict[str, Sequence[Any]]()
        for kind, mine in channels.items():
            own[kind] = self.listed(block, kind, "channels", "channel_type", "channel_ids", len(mine))
            if kind == "switch":
                buffers[kind] = [mine[at] for at in own[kind]]
                continue
            there = self.listed(block, kind, "remote_buffer_refs", "access_channel_type", "remote_buffer_ids",
                                len(remote))
            buffers[kind] = [remote[at] for at in there]
        steps = []
        for i, op in enumerate(self.field(block, "ops", list)):
            self.where = f"rank {rank}, threadblock {number}, operation {i}"
            name = self.field(op, "name", str)
            self.where += f" ({name[:20]})"
            steps.append(self.step(rank, name, op, own, buffers))
        return PlanBlock(tuple(steps))

    def listed(self, block: Any, kind: str, name: str, key: str, ids: str, most: int) -> list[int]:
        """Numbers of the GPU's channels or remote buffers that a thread block uses, of one kind of channel."""
        found: list[Any] = []
        for each in self.field(block, name, list, []):
            if self.field(each, key, str) == kind:
                found += self.field(each, ids, list)
        for at in found:
            if type(at) is not int or not 0 <= at < most:
                raise self.fail(f"{ids} has {str(at)[:20]}", expected=_below(most))
        return found

    def step(self, rank: int, name: str, op: Any, own: Mapping[str, Sequence[int]],
             buffers: Mapping[str, Sequence[Any]]) -> PlanStep:
        kind = self.kind(name, op)
        if name == "barrier":
            return PlanStep(name, barrier=(self.field(op, "barrier_id", int), self.field(op, "num_threadblocks", int)))
        if name in INSIDE:
            known = range(len(self.field(self.gpus[rank], "semaphores", list, [])))
            return PlanStep(name, semaphores=tuple(self.pick(known, at, "semaphore_ids")
                                                   for at in self.field(op, "semaphore_ids", list)))
        port, channels = kind == "port", ()
        if name in SIGNALS | WAITS or (port and name != "nop"):
            channels = tuple(self.pick(own[kind], at, "channel_ids") for at in self.field(op, "channel_ids", list))
        if name not in DATA:
            return PlanStep(name, channels=channels, port=port)
        sources, targets = (tuple(self.spot(rank, each, buffers[kind], switched) for each in self.field(op, key, list))
                            for key, switched in zip(("src_buff", "dst_buff"), SWITCHED.get(name, (False, False))))
        counts = len(sources), len(targets)
        most = (_MANY, counts[0]) if name in PAIRED else _ARITY[name]
        if not all(1 <= count <= top for count, top in zip(counts, most)) or (name in PAIRED and counts[1] < counts[0]):
            raise self.fail(f"{counts[0]} sources and {counts[1]} targets", expected="as many of both"
                            if name in PAIRED else f"{_most(most[0])} and {_most(most[1])}")
        if len({spot[3] for spot in (*sources, *targets)}) != 1:
            raise self.fail("sources and targets of different sizes", expected="one size")
        if port and len(channels) != len(targets):
            raise self.fail(f"{len(channels)} channel_ids for {len(targets)} targets", expected="a channel per target")
        if name in PACKETS and not self.ll:
            raise self.beyond("packets with protocol Simple", "protocol LL")
        return PlanStep(name, sources, targets, channels, share=self.share(op), port=port)

    def kind(self, name: str, op: Any) -> str:
        """The kind of channel of an operation: memory, where it says none."""
        for key in op.keys() - _KEYS if name not in _BEYOND else ():
            raise self.beyond(f"the field {str(key)[:40]!r}", "no other than " + ", ".join(sorted(_KEYS)))
        if name in _BEYOND:
            raise self.beyond(*_BEYOND[name])
        if name not in DATA | SIGNALS | WAITS | _OTHER:
            known = sorted(DATA | SIGNALS | WAITS | _OTHER)
            raise self.fail("is not known", expected="one of " + ", ".join(known), near=nearest(name, known))
        kind = op.get("channel_type", "memory")
        ways = (("switch",) if name in SWITCHED else ("port",) if name in FLUSHES else
                ("memory", "port") if name in ON_PORTS else ("memory",))
        if kind not in ways and not (kind in ("none", None) and "memory" in ways):
            raise self.fail(f"channel_type {str(kind)[:20]!r}", expected=", ".join(ways))
        return kind if kind in ways else "memory"

    def share(self, op: Any) -> tuple[int, int]:
        if "tbg_info" not in op:
            return 0, 1
        part, of = (self.field(op["tbg_info"], key, int) for key in ("tb_id", "tbg_size"))
        if part >= of:
            raise self.fail(f"part {part} of {of}", expected="less than tbg_size")
        return part, of

    def pick(self, of: Sequence[Any], at: Any, name: str) -> Any:
        if type(at) is not int or not 0 <= at < len(of):
            raise self.fail(f"{name} has {str(at)[:20]}", expected=_below(len(of)))
        return of[at]

    def spot(self, rank: int, place: Any, buffers: Sequence[Any], switched: bool) -> Spot:
        index, size = self.field(place, "index", int), self.field(place, "size", int)
        if ("switch_channel_id" in place) != switched:
            raise self.fail(f"a buffer {'without' if switched else 'with'} switch_channel_id", expected="one "
                            + ("with it" if switched else "of this or another rank"))
        if switched:
            rank, kind = len(self.gpus), self.pick(buffers, place["switch_channel_id"], "switch_channel_id")
        elif "buffer_id" in place:
            there = self.pick(buffers, place["buffer_id"], "buffer_id")
            rank, kind = self.field(there, "rank", int), self.field(there, "type", str)
        else:
            kind = self.field(place, "type", str)
        if rank >= len(self.gpus) + switched or kind not in ("i", "o", "s"):
            raise self.fail(f"buffer {kind[:20]!r} of rank {rank}", expected="i, o or s of a rank of the plan")
        most = min(self.chunks(gpu)[kind] for gpu in (self.gpus if switched else self.gpus[rank:rank + 1]))
        if size < 1 or index + size > most:
            raise self.fail(f"chunks {index} to {index + size} of buffer {kind!r} of "
                            f"{'all ranks' if switched else f'rank {rank}'}", expected=f"at least one, up to {most}")
        return rank, kind, index, size


def _most(count: int) -> str:
    return str(count) if count < _MANY else "1 or more"


def _below(most: int) -> str:
    return f"0 to {most - 1}" if most else "none: there are none"


_KINDS: Mapping[type, str] = {int: "a whole number from 0 on", str: "text", list: "a list", bool: "true or false"}
