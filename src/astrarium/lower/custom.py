"""Custom collectives that a design names: Chakra traces, one per participant, or an MSCCL XML file."""

from __future__ import annotations

import os

from msgspec import Struct

from astrarium.collective.config import OPERATIONS
from astrarium.collective.custom import from_traces
from astrarium.collective.msccl import msccl_program
from astrarium.design import Design
from astrarium.engine.plan import CustomProgram
from astrarium.errors import InputError
from astrarium.gpu.msccl.xml import Algo, msccl_op, parse_msccl
from astrarium.vocab import CommOp

__all__ = ["CustomSource", "custom_sources"]

MAX_FILE = 64 << 20


class CustomSource(Struct, frozen=True, eq=False):
    """One custom algorithm: `fixed` carries its own sizes, `algorithm` is scaled to each payload."""

    path: str
    positions: int
    fixed: CustomProgram | None
    algorithm: Algo | None
    local_bandwidth: float   # bytes/s

    def program(self, size: int, members: int) -> CustomProgram:
        """The programs for a group of `members` and a payload of `size` bytes (counted as a trace counts it)."""
        if members != self.positions:
            raise InputError(self.path, f"{self.positions} participants, but a group has {members} ranks",
                             expected="one program per rank of the group")
        if self.algorithm is not None:
            return msccl_program(self.algorithm, size, local_bandwidth=self.local_bandwidth, path=self.path)
        assert self.fixed is not None
        return self.fixed


def custom_sources(design: Design) -> dict[CommOp, CustomSource]:
    """The custom algorithm of each operation that has one. Raises InputError and TraceError naming the file."""
    bandwidth = 0.0 if design.memory.bandwidth is None else float(design.memory.bandwidth) * 1e9
    found = {}
    for name in OPERATIONS:
        path = getattr(design.collective.custom, name)
        if path is not None:
            found[CommOp[name.upper()]] = _source(CommOp[name.upper()], path, bandwidth)
    return found


def _source(op: CommOp, path: str, bandwidth: float) -> CustomSource:
    if not path.endswith(".xml"):
        from astrarium.trace.read import read_traces  # rarely needed

        fixed = from_traces(read_traces(path))
        return CustomSource(path, len(fixed.program_of), fixed, None, bandwidth)
    try:
        if os.path.getsize(path) > MAX_FILE:
            raise InputError(path, "larger than 64 MiB")
        with open(path, "rb") as file:
            algorithm = parse_msccl(file.read(), path=path)
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from error
    does = msccl_op(algorithm, path=path)
    if does != op:
        raise InputError(path, f"holds an algorithm for {does.name.lower()}", expected=f"one for {op.name.lower()}")
    return CustomSource(path, len(algorithm.gpus), None, algorithm, bandwidth)
