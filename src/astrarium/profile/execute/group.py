"""The processes of a replay: one per trace, joined in a process group on their devices."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.trace._torch import torch_module

__all__ = ["Group", "joined_group"]


class Group(Struct, frozen=True):
    """This process's `rank` of `ranks`, on `device` (cpu, cuda); `here`: how many of them share this machine."""

    rank: int
    ranks: int
    device: str
    backend: str
    here: int = 1

    def barrier(self) -> None:
        """Waits for all ranks."""
        torch_module("torch.distributed").barrier()

    def longest(self, seconds: float) -> float:
        """The greatest of all ranks' values."""
        torch, dist = torch_module(), torch_module("torch.distributed")
        value = torch.tensor([seconds], device="cuda" if self.backend == "nccl" else "cpu", dtype=torch.float64)
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return float(value)


@contextmanager
def joined_group(backend: str, device: str, ranks: int) -> Iterator[Group]:
    """Joins the process group that the environment describes (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: torchrun's);
    without one, and for one rank, a group of this process alone. Errors of communication become one InputError."""
    torch, dist = torch_module(), torch_module("torch.distributed")
    if backend == "nccl":
        if not torch.cuda.is_available():
            raise InputError("backend", "nccl needs a GPU, and PyTorch sees none", expected="gloo")
        device = "cuda"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if "RANK" in os.environ or ranks > 1:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        rank, found = dist.get_rank(), dist.get_world_size()
        if found != ranks:
            raise InputError("ranks", f"{found} processes for {ranks} traces", expected="one process per trace")
        yield Group(rank, ranks, device, backend, int(os.environ.get("LOCAL_WORLD_SIZE", ranks)))
    except RuntimeError as error:
        raise InputError(f"rank {os.environ.get('RANK', '0')}",
                         f"communication failed: {(str(error) or repr(error)).splitlines()[0]}",
                         expected="all ranks up, and traces whose messages fit each other") from None
    finally:
        dist.destroy_process_group()
