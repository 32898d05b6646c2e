"""One rank's part of a replay: joins the process group, executes, says what it measured and writes it as a trace."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence

from msgspec.structs import replace

from astrarium.errors import InputError
from astrarium.profile.execute.comm import Wire
from astrarium.profile.execute.loop import Loop, Measured, Settings
from astrarium.profile.execute.program import program
from astrarium.trace._torch import torch_module
from astrarium.trace.columns import Traces
from astrarium.trace.node import Node, attribute, decode_metadata, decode_node
from astrarium.trace.write import node_messages, write_trace

__all__ = ["measured_trace", "replay_rank"]


def replay_rank(traces: Traces, settings: Settings, *, repeat: int = 3) -> tuple[int, list[Measured]]:
    """Executes this process's rank `repeat` times after one that is not counted; every time begins with a barrier.

    The environment says which rank this is (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: torchrun's), and it must be
    one of as many as there are traces. Returns the rank and what it measured; `makespan` is the longest of all ranks'.
    """
    torch, dist = torch_module(), torch_module("torch.distributed")
    device = "cpu"
    if settings.backend == "nccl":
        if not torch.cuda.is_available():
            raise InputError("backend", "nccl needs a GPU, and PyTorch sees none", expected="gloo")
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        device = "cuda"
    dist.init_process_group(settings.backend)
    try:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        if ranks != traces.ranks:
            raise InputError("ranks", f"{ranks} processes for {traces.ranks} traces", expected="one process per trace")
        mine = program(traces, rank)
        loop = Loop(mine, settings, Wire(mine, device))
        runs = []
        for number in range(repeat + 1):
            dist.barrier()
            found = loop.run()
            longest = torch.tensor([found.makespan], device=device, dtype=torch.float64)
            dist.all_reduce(longest, op=dist.ReduceOp.MAX)
            if number:
                runs.append(Measured(float(longest), found.taken))
        return rank, runs
    except RuntimeError as error:
        raise InputError(f"rank {os.environ.get('RANK', '0')}", f"communication failed: {str(error).splitlines()[0]}",
                         expected="all ranks up, and traces whose messages fit each other") from None
    finally:
        dist.destroy_process_group()


def measured_trace(traces: Traces, rank: int, runs: Sequence[Measured], settings: Settings,
                   prefix: str | os.PathLike[str]) -> str:
    """Writes `<prefix>.<rank>.et`: measured nodes with the median of their times, whole us and at least 1; the rest as
    it was. The metadata say `replayed_on`. Returns the path."""
    metadata, *messages = node_messages(traces.file_bytes(rank))
    nodes: list[Node | bytes] = list(messages)
    for index in sorted({node for run in runs for node in run.taken}):
        micros = statistics.median(run.taken[index] for run in runs) * 1e6
        nodes[index] = replace(decode_node(messages[index]), duration=max(round(micros), 1))
    first = decode_metadata(metadata)
    said = attribute("replayed_on", f"{settings.backend}, compute as {settings.compute}")
    kept = tuple(each for each in first.attrs if each.name != "replayed_on")
    path = f"{os.fspath(prefix)}.{rank}.et"
    write_trace(path, replace(first, attrs=(*kept, said)), nodes)
    return path
