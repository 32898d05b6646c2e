"""What is trained: a model, its samples, and everything else about a step that no layout changes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct

from astrarium.compute.config import Roofline
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.memory.config import Memory
from astrarium.network.config import Network, Switch
from astrarium.system.config import System
from astrarium.workload.model.base import with_layers
from astrarium.workload.transformer import Transformer

__all__ = ["ENDS", "Job", "job_of"]

ENDS = 2        # embedding and head, which Megatron-LM can count as a layer each


class Job(Struct, frozen=True, dict=True):
    """`base` holds the model, the samples and all settings that are the same in every layout; its own layout is one
    rank. `assumed`: sentences about what the caller left open."""

    base: Transformer
    assumed: tuple[str, ...] = ()

    @property
    def seq(self) -> int:
        """Tokens of a sample."""
        return int(self.base.seq or getattr(self.base.model, "seq", None) or 1)

    @property
    def global_batch(self) -> int:
        """Samples of a step."""
        return self.base.global_batch

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.seq * self.global_batch

    @property
    def layers(self) -> int:
        """Layers of the model."""
        model = with_layers(self.base.model)
        return model.layers if model is not None else 1

    @property
    def experts(self) -> int:
        """Routed experts of a layer; 0 where there are none."""
        return self.base.model.ep_units() or 0

    def even(self, parts: int) -> bool:
        """Whether the layers divide evenly over `parts` parts, with the two ends counted as layers or not."""
        return self.layers % parts == 0 or self.with_ends(parts)

    def with_ends(self, parts: int) -> bool:
        """Whether they do so only with the embedding and the head counted as a layer each."""
        whole = self.layers + ENDS
        return self.layers % parts != 0 and whole % parts == 0 and whole // parts > 1

    def stage_layers(self, parts: int) -> list[int] | None:
        """Layers of every part where the ends count; None where the parts are plainly equal, or balanced by cost (which
        counts the ends by itself)."""
        if self.base.stage_balance == "cost" or not self.with_ends(parts):
            return None
        each = (self.layers + ENDS) // parts
        return [each - 1, *[each] * (parts - 2), each - 1]

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Every field of the base."""
        return {name: getattr(self.base, name) for name in msgspec.structs.asdict(self.base)}

    def workload(self, **fields: Any) -> Transformer:
        """The base with other fields. Raises InputError where the rules of a workload refuse them."""
        return Transformer(**{**self.settings, **fields})

    @cached_property
    def unplaced(self) -> Design:
        """A design of the base on one NPU, without a check of its rank count: the base of spaces of layouts."""
        return Design(workload=self.base, network=Network([Switch(1, latency="1 ns", bandwidth="1 GB/s")]),
                      compute=Roofline(peak="1 TFLOP/s"), memory=Memory(bandwidth="1 GB/s"),
                      system=System(placement=[0]))


def job_of(model: Any, *, seq: int | None = None, global_batch: int | None = None, **settings: Any) -> Job:
    """A job of a model (catalog name, Hugging Face config.json, or a Model). Raises InputError.

    Left out, `seq` is the model's, and `global_batch` gives a step of 4 Mi tokens.
    """
    assumed = []
    try:
        known = Transformer(model, global_batch=1, **{**settings, "seq": seq or 1}).model
    except InputError as error:
        raise InputError(error.path.removeprefix("Transformer."), error.message, expected=error.expected,
                         did_you_mean=error.did_you_mean) from None
    if with_layers(known) is None:
        raise InputError("model", f"a {known.tag} has no layers to divide over stages", expected="a transformer")
    if seq is None:
        seq = getattr(known, "seq", None)
        if not isinstance(seq, int):
            raise InputError("seq", "is missing, and the model does not say",
                             expected="tokens of a sample, such as --seq 8192")
        assumed.append(f"samples of {seq:,} tokens (the model's)")
    if global_batch is None:
        global_batch = max(1, TOKENS // seq)
        assumed.append(f"{global_batch:,} samples a step ({global_batch * seq:,} tokens)")
    return Job(Transformer(model, global_batch=global_batch, seq=seq, **settings), tuple(assumed))


TOKENS = 1 << 22
