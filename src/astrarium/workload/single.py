"""One collective of all ranks: what nccl-tests runs, and how a network or an algorithm is judged."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from astrarium.config import Knob
from astrarium.units import Bytes
from astrarium.workload.config import Workload

__all__ = ["SingleCollective"]

Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather",
                    "scatter", "barrier"]


class SingleCollective(Workload, frozen=True):
    """All ranks run one collective."""

    tag: ClassVar[str] = "collective"
    op: Annotated[Operation, Knob("The operation.")]
    payload: Annotated[Bytes, Knob("Its payload S as nccl-tests counts it: of an all_gather or gather the bytes of all "
                                   "shards together, else one rank's buffer.")]

    def shard(self, ranks: int) -> int:
        """Bytes as a trace counts them: of an all_gather or gather one rank's shard, padded up."""
        whole = int(self.payload)
        return -(-whole // ranks) if self.op in ("all_gather", "gather") else whole
