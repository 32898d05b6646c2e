"""Many recordings of a small DDP job: `python tests/profile/collect/soak.py RUNS`; one line per run that does not end.

Two ranks a run, forked from a process that has imported PyTorch already: a run costs a second or two of CPU time. A
rank that is still there after LIMIT seconds prints where its threads are and is killed.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

RANKS, LIMIT = 2, 240.0
SCRIPT = """
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)]), bucket_cap_mb=0.02)
optimizer, x = torch.optim.SGD(model.parameters(), lr=0.01), torch.randn(8, 64)
for _ in range(3):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""
ENDS = ("", "dist.barrier()\n", "dist.barrier()\ndist.destroy_process_group()\n")      # taken in turn


def rank_process(rank: int, port: int, folder: Path) -> None:
    """One rank, in a process of its own: `astrarium trace collect`, then its exit code."""
    from astrarium.cli.dispatch import dispatch

    code = 99
    try:
        log = os.open(folder / f"log.{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(port), OMP_NUM_THREADS="1")
        code = dispatch(["trace", "collect", "-o", str(folder / "out"), str(folder / "script.py")])
    finally:
        os._exit(code)


def run(folder: Path) -> list[str]:
    """One recording; what went wrong, a text per rank."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = int(found.getsockname()[1])
    left: dict[int, int] = {}
    for rank in range(RANKS):
        process = os.fork()
        if not process:
            rank_process(rank, port, folder)
        left[process] = rank
    end, faults = time.monotonic() + LIMIT, []
    while left and time.monotonic() < end:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            time.sleep(0.01)
        elif status:
            rank = left.pop(process)
            faults.append(f"rank {rank} ended with {status}: {(folder / f'log.{rank}').read_text()[-2000:]}")
        else:
            left.pop(process)
    for process, rank in left.items():
        os.kill(process, signal.SIGUSR1)
        time.sleep(1)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        faults.append(f"rank {rank} stalled: {(folder / f'log.{rank}').read_text()[-4000:]}")
    return faults


def soak(runs: int) -> list[str]:
    """What went wrong in `runs` recordings."""

    import astrarium.cli.trace_collect
    import astrarium.profile.link.linker  # noqa: F401

    gc.collect()
    gc.freeze()
    faults = []
    for number in range(runs):
        folder = Path(tempfile.mkdtemp(prefix="soak"))
        (folder / "script.py").write_text(SCRIPT + ENDS[number % len(ENDS)])
        faults += [f"run {number}: {each}" for each in run(folder)]
        if len(list(folder.glob("out/trace.*.et"))) != RANKS:
            faults.append(f"run {number}: not every rank's trace is there")
        shutil.rmtree(folder)
    return faults


if __name__ == "__main__":
    told = soak(int(sys.argv[1]))
    print("\n".join([*told, f"{len(told)} faults in {sys.argv[1]} runs"]))
    sys.exit(bool(told))
