"""Rules of a Transformer as conditions over the paths of a design, for spaces: whoever breaks one is refused.

They say the same as the rules of `transformer`, which name the field and the nearest legal values, about those that
need nothing but numbers and names. Each entry is a condition, then others to take where a name of those before it means
nothing (a field that is not set).
"""

from __future__ import annotations

__all__ = ["CONDITIONS"]

SPLIT = "(workload.schedule == 'zero_bubble' or workload.schedule == 'dualpipe')"
BATCHES = "ceil(workload.global_batch / (workload.dp * workload.micro_batch))"
WHOLE = "workload.uneven != 'refuse' or"
PARTS = "(workload.sp * workload.cp * if(workload.tp_sequence, workload.tp, 1))"

CONDITIONS = (
    ("workload.cp == 1 or workload.cp_attention != 'ring' or workload.attention == 'flash'",),
    ("workload.dp % workload.ep == 0",),
    (f"{WHOLE} workload.model.moe.experts % workload.ep == 0",),
    (f"{WHOLE} workload.model.heads % workload.tp == 0",),
    (f"{WHOLE} workload.sp_attention != 'all_to_all' or workload.model.heads % (workload.tp * workload.sp) == 0",),
    (f"{WHOLE} workload.seq % {PARTS} == 0", f"{WHOLE} workload.model.seq % {PARTS} == 0"),
    (f"{WHOLE} workload.global_batch % workload.dp == 0",),
    (f"{WHOLE} workload.global_batch // workload.dp % workload.micro_batch == 0",),
    ("workload.schedule != 'interleaved' or workload.pp > 1",),
    ("workload.schedule == 'interleaved' or workload.virtual_stages == 1",),
    (f"workload.schedule != 'interleaved' or {BATCHES} % workload.pp == 0",),
    ("workload.schedule != 'dualpipe' or workload.pp % 2 == 0",),
    (f"workload.schedule != 'dualpipe' or {BATCHES} % 2 == 0 and {BATCHES} >= 2 * workload.pp",),
    (f"workload.recompute != 'full' or not {SPLIT}",),
    (f"workload.offload != 'activations' or not {SPLIT}",),
    ("system.placement != 'identity' or "
     "workload.dp * workload.tp * workload.sp * workload.cp * workload.pp == network.npus",),
)
