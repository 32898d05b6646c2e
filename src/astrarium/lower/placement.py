"""Where the tensors of a design's training are: what `memory.placement` says, and what its `auto` means here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.lower.work import rank_count
from astrarium.memory.config import AUTO, LOCAL, PLACED, Memory
from astrarium.trace.work import Generated
from astrarium.units import format_bytes
from astrarium.vocab import Placed
from astrarium.workload.generate import generate

if TYPE_CHECKING:
    from astrarium.lower.kept import Kept
    from astrarium.workload.footprint import Footprint
    from astrarium.workload.graph import Forms
    from astrarium.workload.transformer import Transformer

__all__ = ["generated", "placed_of"]

LEAST_MOVED_FIRST = ("states", "gradients", "activations", "parameters")
KINDS = {"states": "states", "gradients": "gradients", "activations": "activations", "parameters": "weights"}


def generated(design: Design) -> Generated:
    """What the generator of a design's workload makes, with tensors placed as its memory says."""
    return generate(design.workload, rank_count(design), placed=placed_of(design))


def placed_of(design: Design, kept: Kept | None = None) -> Placed | None:
    """Which tier holds what; None where all is local or the workload says itself. Raises InputError where `auto` finds
    no room."""
    memory = design.memory
    if not memory.placement.away:
        return None
    from astrarium.workload.transformer import Transformer  # loaded: the design's rules refuse others

    work = design.workload
    assert isinstance(work, Transformer)
    said = {what: getattr(memory.placement, what) for what in PLACED}
    fixed = {what: where for what, where in said.items() if where not in (LOCAL, AUTO)}
    automatic = memory.placement.automatic
    forms = None if kept is None or not automatic else kept.forms
    return _Places(memory, work, forms).placed(fixed, automatic)


class _Places(Struct):
    memory: Memory
    work: Transformer
    forms: Forms | None

    def placed(self, where: dict[str, str], automatic: tuple[str, ...]) -> Placed:
        """`where` by kind, and what `auto` adds to it: kinds leave the local memory in order, each for the nearest tier
        with room, until the rest fits."""
        found = self._of(where)
        if not automatic:
            return found
        from astrarium.workload.transformer import unplaceable  # only `auto` needs it

        room = {tier.name: tier.share for tier in self.memory.tiers}
        every = self._stages(self._of({}))
        for what, tier in where.items():
            room[tier] -= _most(every, what)
        for what in LEAST_MOVED_FIRST:
            if self._fits(found):
                return found
            if what in automatic and unplaceable(self.work, what) is None:
                where[what] = self._nearest(what, _most(every, what), room)
                found = self._of(where)
        if not self._fits(found):
            most = max(stage.total for stage in self._stages(found))
            raise InputError("memory.placement", f"auto leaves {format_bytes(most)} in the local memory",
                             expected=f"at most {format_bytes(float(self.memory.capacity or 0))}, its capacity")
        return found

    def _of(self, where: dict[str, str]) -> Placed:
        steps = {tier.name for tier in self.memory.tiers if tier.step_rate is not None}
        return Placed(**where, prefetch=self.memory.placement.prefetch, step=where.get("states") in steps)

    def _stages(self, placed: Placed) -> tuple[Footprint, ...]:
        from astrarium.workload.footprint import training_footprint  # only `auto` needs it

        return training_footprint(self.work, self.forms, placed)

    def _fits(self, placed: Placed) -> bool:
        return all(stage.total <= float(self.memory.capacity or 0) for stage in self._stages(placed))

    def _nearest(self, what: str, size: float, room: dict[str, float]) -> str:
        for name, left in room.items():
            if size <= left:
                room[name] = left - size
                return name
        raise InputError(f"memory.placement.{what}", f"auto finds no room for {format_bytes(size)} per NPU",
                         expected="a tier with as much left: " + ", ".join(
                             f"{name} has {format_bytes(max(left, 0.0))}" for name, left in room.items()))


def _most(stages: tuple[Footprint, ...], what: str) -> float:
    """Bytes of a kind on the rank that has most of it."""
    return max(float(getattr(stage, KINDS[what])) for stage in stages)
