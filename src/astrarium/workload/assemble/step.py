"""The optimizer's step: on the NPU, or by a processor next to the memory that holds the states."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from astrarium.vocab import NodeKind
from astrarium.workload.assemble.builder import Builder, Held, What
from astrarium.workload.assemble.holdings import Holdings
from astrarium.workload.assemble.pool import Pool
from astrarium.workload.assemble.recipe import Recipe
from astrarium.workload.pieces import Sketch

__all__ = ["STEP", "step"]

STEP = Sketch("optimizer", "fp32", op="adamw_fused")
NAMES: dict[What, str] = {"states": "optimizer", "gradients": "gradients", "weights": "weights"}    # of nodes


def step(recipe: Recipe, pool: Pool, build: Builder, owned: Holdings, ready: Sequence[int]) -> list[int]:
    """Adds the step over this rank's states behind `ready`, with what moves between memories; returns the node after
    which the new weights are there.

    On the NPU: it loads what other memories hold, and stores what it changes. In the tier of the states (`Placed.step`;
    ZeRO-Offload, arXiv 2101.06840): the tier takes the gradients and gives the new weights.
    """
    moves = _Moves(recipe, pool, build, owned)
    return moves.in_tier(list(ready)) if recipe.placed.step else moves.on_npu(list(ready))


class _Moves(Struct):
    recipe: Recipe
    pool: Pool
    build: Builder
    owned: Holdings
    here: dict[What, int] = field(default_factory=dict)     # the node from which on a kind is in the local memory

    def on_npu(self, ready: list[int]) -> list[int]:
        """Load, step, store: of tiers with a name in pieces, of which `Holdings.buffers` are here at once."""
        pieces, placed = self.owned.pieces, self.recipe.placed
        stored: list[list[int]] = []
        before: list[int] = []
        for piece in range(pieces):
            late = stored[piece - self.owned.buffers] if piece >= self.owned.buffers else []
            here = self._load("gradients", placed.gradients, [*ready, *late], pieces)
            here = self._load("states", placed.states, here, pieces)
            done = self.here["weights"] = self.build.node(self._step(pieces), [*here, *before])
            if self.recipe.sizes.step_held:
                size = self.owned.own / pieces * self.recipe.sizes.step_held
                self.build.held.append(Held("states", size, done, (done,)))
            self._leave("gradients", done, pieces)
            stored.append([*self._store("states", placed.states, [done], pieces),
                           *self._store("weights", placed.parameters, [done], pieces)])
            before = [done]
        return before

    def _step(self, pieces: int) -> int:
        sizes, own = self.recipe.sizes, self.owned.own / pieces
        kernel = STEP._replace(shape=(own, 1.0))
        return self.pool.compute("optimizer.step", own * sizes.step_flops, own * sizes.step_bytes, kernel)

    def in_tier(self, ready: list[int]) -> list[int]:
        """Gradients go there, unless they are there; weights come back, unless they stay there."""
        placed, tier = self.recipe.placed, self.recipe.placed.states
        if placed.gradients != tier:
            ready = self._load("gradients", placed.gradients, ready)
            ready = self._store("gradients", tier, ready)
        row = self.pool.beside("optimizer.step", self.owned.own * self.recipe.sizes.step_bytes, tier or "")
        ready = [self.build.node(row, ready)]
        if placed.parameters != tier:
            ready = self._load("weights", tier, ready)
            ready = self._store("weights", placed.parameters, ready)
        return ready

    def _size(self, kind: What, pieces: int) -> float:
        sizes, own = self.recipe.sizes, self.owned.own / pieces
        return own * {"states": sizes.states, "gradients": sizes.gradients, "weights": sizes.weights}[kind]

    def _load(self, kind: What, tier: str | None, after: list[int], pieces: int = 1) -> list[int]:
        if tier is None or self._size(kind, pieces) <= 0:
            return after
        row = self.pool.memory(f"{NAMES[kind]}.load", NodeKind.MEM_LOAD, self._size(kind, pieces), tier)
        self.here[kind] = self.build.node(row, after)
        return [self.here[kind]]

    def _store(self, kind: What, tier: str | None, after: list[int], pieces: int = 1) -> list[int]:
        if tier is None or self._size(kind, pieces) <= 0:
            return after
        row = self.pool.memory(f"{NAMES[kind]}.store", NodeKind.MEM_STORE, self._size(kind, pieces), tier)
        done = self.build.node(row, after)
        self._leave(kind, done, pieces)
        return [done]

    def _leave(self, kind: What, node: int, pieces: int) -> None:
        """What had come to the local memory for the step is there until this node ends."""
        if kind in self.here and kind in self.owned.fetched:
            self.build.held.append(Held(kind, self._size(kind, pieces), self.here[kind], (node,)))
