"""Rules of an Inference as conditions over the paths of a design, for spaces: what the rules of `config` refuse, as far
as it takes nothing but numbers and names. Each entry is a condition, then others to take where a name of it means
nothing."""

from __future__ import annotations

__all__ = ["CONDITIONS"]

WHOLE = "workload.uneven != 'refuse' or"

CONDITIONS = (
    ("workload.dp % workload.ep == 0",),
    (f"{WHOLE} workload.model.heads % workload.tp == 0",),
    (f"{WHOLE} workload.model.ffn % workload.tp == 0",),
    (f"{WHOLE} workload.model.moe.experts % workload.ep == 0",),
    ("workload.batch % (workload.dp * workload.micro_batches) == 0",),
    ("system.placement != 'identity' or "
     "workload.dp * workload.tp * workload.sp * workload.pp == network.npus",),
)
