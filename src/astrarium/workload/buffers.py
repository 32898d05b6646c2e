"""What data parallelism copies and holds around its collectives."""

from __future__ import annotations

from typing import Annotated, Literal

from astrarium.config import Config, Knob

__all__ = ["Buffers"]


class Buffers(Config, frozen=True, kw_only=True):
    """Buffers of data parallelism's collectives; the defaults are an ideal one, which has none."""

    gather: Annotated[Literal["in_place", "copied"],
                      Knob("Gathered weights (zero: 3). in_place: a collective writes them; copied: it fills a buffer, "
                           "from which a kernel copies them (FSDP2, DeepSpeed).")] = "in_place"
    reduce: Annotated[Literal["in_place", "group", "buckets", "fixed"],
                      Knob("Gradients on their way into a collective. in_place: none is copied; group: a kernel copies "
                           "those of a block into a buffer in the format of the reduction, one collective for a block "
                           "(FSDP2); buckets: into buffers of all gradients, which are always there, and back (DDP); "
                           "fixed: into `count` buffers of workload.bucket bytes each, which are always there "
                           "(DeepSpeed).")] = "in_place"
    count: Annotated[int, Knob("Buffers under reduce: fixed.", ge=1, lt=17)] = 1
    between: Annotated[Literal["reduced", "whole"],
                       Knob("Gradients between micro-batches under zero: 2 and 3. reduced: each micro-batch's are, and "
                            "a rank keeps its shard (torchtitan, DeepSpeed); whole: a rank adds all of them up, and "
                            "they are reduced with the last micro-batch (no_sync of FSDP).")
                       ] = "reduced"
    pools: Annotated[bool, Knob("Memory as PyTorch's allocator reserves it: what is allocated on the streams of "
                                "collectives (under zero: 3 gathers' buffers and shards of gradients) is not used for "
                                "anything else, and counts all the time.")] = False
    ends: Annotated[Literal["apart", "together"],
                    Knob("Embedding and head under zero: 3. apart: gathered and reduced as any block; together: one "
                         "group, gathered before the forward pass, freed and reduced behind the backward pass (the "
                         "root of FSDP).")] = "apart"
