"""How collectives of one operation run: what a design says of them, and what it leaves to be chosen."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import astuple, replace

from astrarium.collective.algorithms import Options
from astrarium.collective.compose import Composition
from astrarium.collective.groups import FLAT, SubDim
from astrarium.engine.plan import Dim
from astrarium.errors import InputError
from astrarium.vocab import CommOp

__all__ = ["Able", "Around", "Free", "Link", "Settings"]


class Around(NamedTuple):
    """The cost of a message in addition to the network: ns at an endpoint, bytes/ns of reductions (0: free)."""

    endpoint_delay: float
    reduce_rate: float


class Link(Struct, frozen=True):
    """A network dim as Themis sees it: `bandwidth` out of one NPU in bytes/ns, `latency` of one message in ns."""

    bandwidth: float
    latency: float


class Able(Struct, frozen=True):
    """What the switches of a dim can do for a collective: `rate` bytes/ns that one adds, `latency` ps to the sum,
    `payload` bytes of one operation at most (0: any), `algorithm` that may be chosen; and what each NPU's link to one
    has: `bandwidth` bytes/ns, `hop` ns. In a graph: the tree of a group, `up` [members and switches] the place above
    each, `nodes` [switches] of the graph."""

    rate: float
    latency: int
    payload: int
    algorithm: str
    bandwidth: float
    hop: float
    up: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()


class Free(Struct, frozen=True):
    """What a design leaves to `choice: auto`, and what the choice depends on: the network's dims, what messages cost
    beside it, `plain`: per dim, the default algorithms of reduce_scatter and of all_gather, and `active`:
    chunks in flight per phase where the design says how many. `in_switch`: per dim, the algorithm that its switches
    may run, or ""; none: nowhere."""

    algorithms: bool
    composition: bool
    chunks: bool
    dims: tuple[Dim, ...]
    around: Around
    plain: tuple[tuple[str, ...], tuple[str, ...]]
    active: int | None = None
    in_switch: tuple[str, ...] = ()


class Settings(Struct, frozen=True, dict=True):
    """How collectives of one operation run.

    `algorithms`: one per network dim, innermost first, or a single one for all dims (`direct:7`: window 7).
    `scatters` and `gathers` (none: `algorithms`) are for the reduce_scatter and all_gather steps of an all_reduce.
    `flat_algorithm` serves irregular groups. `links`: per network dim; `themis` needs it. `active_chunks`: chunks in
    flight per phase, with `themis` per dim, 0: all. `endpoint_delay`: ns, as the engine's policy has it. `free`: what
    is still to be chosen, and for what network (`choose`); none: nothing. `in_switch`: per network dim, what its
    switches can do; none: nothing anywhere.
    """

    algorithms: tuple[str, ...]
    composition: Composition = Composition.BLUECONNECT
    chunks: int = 1
    active_chunks: int = 1
    flat_algorithm: str = "ring"
    options: Options = field(default_factory=Options)
    links: tuple[Link, ...] = ()
    endpoint_delay: float = 0.0
    scatters: tuple[str, ...] = ()
    gathers: tuple[str, ...] = ()
    free: Free | None = None
    in_switch: tuple[Able | None, ...] = ()

    @cached_property
    def key(self) -> Hashable:
        """All settings as plain values, which hash quickly."""
        return (self.algorithms, self.scatters, self.gathers, self._rest)

    def on(self, shape: Sequence[SubDim]) -> Hashable:
        """The part of `key` that matters to a group of `shape`: only the algorithms of its dims."""
        dims = [part.dim for part in shape]
        return (*[names if len(names) < 2 else tuple([names[dim:dim + 1] for dim in dims])
                  for names in (self.algorithms, self.scatters, self.gathers)], self._rest)

    @cached_property
    def _rest(self) -> Hashable:
        return (self.composition.value, self.chunks, self.active_chunks, self.flat_algorithm, astuple(self.options),
                tuple([astuple(link) for link in self.links]), self.endpoint_delay, self.free, self.in_switch)

    def chosen(self) -> Settings:
        """These settings without open choices (`free` is None)."""
        return self if self.free is None else replace(self, free=None)

    def algorithm(self, op: CommOp, part: SubDim, path: str) -> str:
        """The algorithm of a step on `part`; InputError when the list is too short for its dim."""
        if part.dim == FLAT:
            return self.flat_algorithm
        chosen = (self.scatters if op == CommOp.REDUCE_SCATTER else self.gathers if op == CommOp.ALL_GATHER else ()) \
            or self.algorithms
        if len(chosen) == 1:
            return chosen[0]
        if part.dim >= len(chosen):
            raise InputError(path, f"{len(chosen)} algorithms, but the group reaches network dim {part.dim}",
                             expected=f"one algorithm, or at least {part.dim + 1}")
        return chosen[part.dim]
