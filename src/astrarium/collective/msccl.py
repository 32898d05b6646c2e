"""MSCCL algorithms as custom collectives.

A step starts when the step before it in its thread block and the step that it depends on have ended; a send ends when
it is delivered. Receive-reduce steps add a delay of three passes over the bytes at the local bandwidth, copies two,
as far as a bandwidth is given. Messages between two GPUs meet in order of issue per channel. A fused step (rcs, rrs,
rrcs) stores what it receives before it sends. The payload is done in one loop: a chunk is payload / nchunksperloop,
padded up.

Thread blocks run at once, so the messages of several that are ready together have no order. They are issued in the
order of the thread blocks. A file in which every GPU lists its peers by rank says nothing by that order, in which all
GPUs would send to GPU 0, then to GPU 1: there they are issued to the next GPU first, then to the one after it, as
`direct` issues its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.collective.bandwidth import payload
from astrarium.collective.custom import CustomNode, custom_program
from astrarium.engine.plan import CustomProgram, Kind
from astrarium.errors import InputError
from astrarium.gpu.msccl.xml import RECEIVES, SENDS, Algo, Block, Gpu, Step, check_blocks, msccl_op

__all__ = ["msccl_program"]

_REDUCES = frozenset({"rrc", "rrs", "rrcs", "re"})
_PASSES = {"cpy": 2} | dict.fromkeys(_REDUCES, 3)


def msccl_program(algo: Algo, size: int, *, local_bandwidth: float = 0.0, path: str = "msccl") -> CustomProgram:
    """`algo` on `size` bytes, counted as traces do (all_gather: the shard; else one GPU's full buffer).

    `local_bandwidth`: bytes/s of reductions and copies, 0: they take no time. Raises InputError for a malformed
    algorithm, TraceError for one that cannot finish.
    """
    n = len(algo.gpus)
    chunk = -(-payload(msccl_op(algo, path=path), size, n) // algo.chunks)
    rate = 1e12 / local_bandwidth if local_bandwidth > 0 else 0.0  # ps per byte and pass
    by_rank = all(peers == sorted(peers) for peers in
                  ([block.send for block in gpu.blocks if block.send >= 0] for gpu in algo.gpus))
    positions = [_gpu_nodes(gpu, _turned(gpu, n) if by_rank else gpu.blocks, chunk, rate, path) for gpu in algo.gpus]
    return custom_program(positions, path=path, sources=[f"{path}, gpu {gpu.id}" for gpu in algo.gpus])


def _turned(gpu: Gpu, n: int) -> list[Block]:
    """The thread blocks, those that send to the next GPU first."""
    return sorted(gpu.blocks, key=lambda block: (block.send - gpu.id) % n if block.send >= 0 else n)


def _gpu_nodes(gpu: Gpu, blocks: Sequence[Block], chunk: int, rate: float, path: str) -> list[CustomNode]:
    check_blocks(gpu, path)
    last: dict[tuple[int, int], int] = {}   # (thread block, step) -> its last node
    number = 0
    for block in blocks:
        for place, step in enumerate(block.steps):
            number += len(_kinds(step))
            last[block.id, place] = number - 1
    nodes: list[CustomNode] = []
    for block in blocks:
        for place, step in enumerate(block.steps):
            before = [last[block.id, place - 1]] if place else []
            if step.depends is not None:
                if step.depends not in last:
                    raise InputError(f"{path}:{step.line}", f"depends on step {step.depends[1]} of thread block "
                                     f"{step.depends[0]} of GPU {gpu.id}, which does not exist")
                before.append(last[step.depends])
            _step_nodes(nodes, block, step, place, tuple(sorted(set(before))), chunk, rate)
    return nodes


def _kinds(step: Step) -> list[Kind]:
    """The nodes of a step, in order: receive, local work, send; a nop is one empty node."""
    kinds = [Kind.RECV] if step.type in RECEIVES else []
    kinds += [Kind.DELAY] if step.type in _PASSES else []
    kinds += [Kind.SEND] if step.type in SENDS else []
    return kinds or [Kind.SKIP]


def _step_nodes(nodes: list[CustomNode], block: Block, step: Step, place: int, before: tuple[int, ...], chunk: int,
                rate: float) -> None:
    size = step.count * chunk
    for kind in _kinds(step):
        peer = {Kind.SEND: block.send, Kind.RECV: block.recv}.get(kind, -1)
        work = round(_PASSES.get(step.type, 0) * size * rate) if kind == Kind.DELAY else 0
        nodes.append(CustomNode(len(nodes), kind, before, size if peer >= 0 else 0, peer, block.channel, work,
                                f"tb{block.id}_step{place}_{step.type}"))
        before = (len(nodes) - 1,)
