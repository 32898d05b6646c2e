"""Lower bounds of one collective, as trees over the knobs of the network and of `collective`.

A collective of C chunks walks phases p = 1..P, each at least t_p long for one chunk (`collective.estimate`). Chunk by
chunk, nobody enters phase p + 1 before t_p after the first entry to p, and the last to enter p + 1 does so no earlier
than t_p after the last to enter p; with one chunk in a phase at a time the same holds for the next chunk in the same
phase. So the time is at least that of a flow shop of equal jobs, sum(t_p) + (C - 1) max(t_p), and at least what a dim
that is passed twice has to carry. Where several chunks may be in a phase, max(sum(t_p), C * own bytes over a dim's
bandwidth).

What `collective.choice: auto` chooses may be any of its candidates, in any order of the dims: then a dim carries at
least what it would as the last one, by the algorithm that sends least.

Chunks differ by a byte, and every term of a step is rounded to a picosecond: bounds are taken a byte per chunk and two
picoseconds per step lower.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from astrarium.collective.algorithms import candidates
from astrarium.collective.choose import CHUNKS
from astrarium.collective.compose import Composition, Step, compose
from astrarium.collective.config import default_algorithm
from astrarium.collective.estimate import PhaseBound, lower_bound
from astrarium.collective.groups import FLAT, SubDim
from astrarium.design import Design
from astrarium.search.bounds.links import npu_bandwidth
from astrarium.search.evaluate import Judge
from astrarium.search.expression import Const, Node, Ref, bounds, make
from astrarium.vocab import CommOp

__all__ = ["CollectiveBounds"]

Time = Callable[[PhaseBound, Step], Node]

COMPOSED = (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER, CommOp.ALL_TO_ALL)
ROUNDED = 0.002      # ns per step
ZERO: Node = Const(0.0)
NEVER: Node = Const(1e300)


class CollectiveBounds(Struct):
    """Lower bounds (ns) of the collectives of designs that share `design`'s sizes of dims and memory rate (bytes/ns; 0:
    free reductions); everything else of the network and of `collective` may be a knob. `ascending`: every group lists
    its NPUs upwards, so that its neighbours on a ring are the ring's."""

    judge: Judge
    design: Design
    memory_rate: float
    ascending: bool
    _known: dict[tuple[object, ...], Node] = field(default_factory=dict)

    def least(self, op: CommOp, size: int, parts: Sequence[SubDim]) -> Node:
        """What a collective of a group of this shape takes at least, from the first member's start to the first one's
        end, and from the last one's start to the last one's end."""
        return self._kept("least", op, size, parts)

    def own(self, op: CommOp, size: int, parts: Sequence[SubDim]) -> Node:
        """What it takes at least at one member, however early the others are."""
        return self._kept("own", op, size, parts)

    def _kept(self, kind: str, op: CommOp, size: int, parts: Sequence[SubDim]) -> Node:
        key = (kind, op, size, tuple(parts))
        if key not in self._known:
            self._known[key] = self._tree(kind, op, size, parts)
        return self._known[key]

    def _tree(self, kind: str, op: CommOp, size: int, parts: Sequence[SubDim]) -> Node:
        if op not in COMPOSED or not parts or any(part.dim == FLAT for part in parts):
            return ZERO
        if self._auto and self._meaning("collective.composition") == Const(None):
            return self._any_order(op, size, parts)
        granule = 1 if op == CommOp.ALL_GATHER else math.prod(part.n for part in parts)
        chunks = make("min", (self._said("collective.chunks", 1), Const(max(1, size // granule))))
        size = max(0, size - self._most_chunks)
        walk = self._least if kind == "least" else self._own
        made = {name: walk(compose(op, size, parts, Composition(name)), op, chunks)
                for name in ("baseline", "blueconnect")}
        composition = self._said("collective.composition", "baseline")
        one = op != CommOp.ALL_REDUCE or len(parts) < 2
        found = made["baseline"] if one else _if(composition, "baseline", made["baseline"], made["blueconnect"])
        return _if(composition, "themis", ZERO, found)

    @property
    def _most_chunks(self) -> int:
        return math.ceil(bounds(self._said("collective.chunks", CHUNKS[-1]), self.judge.ranges())[1])

    @property
    def _auto(self) -> bool:
        """Whether algorithms, composition or chunks that the design does not name may be chosen."""
        return "auto" in self._texts(self._meaning("collective.choice"))

    def _said(self, path: str, otherwise: object) -> Node:
        """A field that may be left out."""
        node = self._meaning(path)
        return Const(otherwise) if node == Const(None) else node

    def _any_order(self, op: CommOp, size: int, parts: Sequence[SubDim]) -> Node:
        members = math.prod(part.n for part in parts)
        size = max(0, size - self._most_chunks)

        def least(part: SubDim) -> int:
            if op in (CommOp.ALL_TO_ALL, CommOp.ALL_GATHER):
                return size
            return size * part.n // members
        return self._own([Step(part, op, least(part)) for part in parts], op, Const(1))

    def _least(self, steps: Sequence[Step], op: CommOp, chunks: Node) -> Node:
        times = [self._choice(step, op, lambda bound, step: self._phase(bound, step, chunks)) for step in steps]
        total = _sum(times)
        active = self._meaning("collective.active_chunks")
        if self._auto and self._meaning("collective.chunks") == Const(None):
            return self._own(steps, op, chunks)
        shop = _sum([total, _times(make("+", (chunks, Const(-1))), _most(times))])
        one = shop if active == Const(None) else _if(active, 1, shop, total)
        return _most([one, self._own(steps, op, chunks)])

    def _own(self, steps: Sequence[Step], op: CommOp, _chunks: Node) -> Node:
        """The dim whose links carry most, all chunks together."""
        loads: dict[int, list[Node]] = {}
        for step in steps:
            load = self._choice(step, op, lambda bound, step: self._bytes(bound.own, step, bound, Const(1)))
            loads.setdefault(step.part.dim, []).append(load)
        return _most([_sum(each) for each in loads.values()])

    def _phase(self, bound: PhaseBound, step: Step, chunks: Node) -> Node:
        parts = [self._bytes(bound.blocks, step, bound, chunks), Const(-ROUNDED * bound.delays)]
        if bound.hops:
            parts.append(_times(bound.hops, self._meaning(f"network.dims[{step.part.dim}].latency")))
        if bound.delays:
            parts.append(_times(bound.delays, self._meaning("collective.endpoint_delay")))
        if bound.reduced and self.memory_rate:
            parts.append(make("/", (Const(3 * bound.reduced * _block(step, bound) / self.memory_rate), chunks)))
        return _sum(parts)

    def _bytes(self, blocks: float, step: Step, bound: PhaseBound, chunks: Node) -> Node:
        dim = f"network.dims[{step.part.dim}]"
        if (dim,) not in self._known:
            self._known[dim,] = self.judge.scope.node(
                npu_bandwidth(self.design, self.judge.space.paths, dim), f"bound of {dim}")
        return make("/", (Const(blocks * _block(step, bound)), _times(self._known[dim,], chunks)))

    def _choice(self, step: Step, op: CommOp, time: Time) -> Node:
        """`time` for each shape and algorithm, as a chain of ifs."""
        shape, found = self._meaning(f"network.dims[{step.part.dim}].shape"), ZERO
        for name in self._texts(shape):
            found = _if(shape, name, self._by_algorithm(step, op, name, time), found)
        return found

    def _by_algorithm(self, step: Step, op: CommOp, shape: str, time: Time) -> Node:
        """The bound of `step` in a dim of `shape`, by the design's algorithm for `op`. If that algorithm lacks the
        step's operation, the operation's own algorithm counts. Without one the bound exceeds any time, as the design is
        refused."""
        npus, alone = self.design.network.flat[step.part.dim].npus, self.design.network.backend == "closed_form"
        if self._auto and not self._named(op):
            known = [lower_bound(shape, entry, step.op, step.part.n, npus, False) for entry in candidates()]
            return make("min", [time(bound, step) for bound in known if bound is not None])
        algorithm, found = self._algorithm(op, step.part.dim, shape), ZERO
        for entry in self._texts(algorithm):
            bound = lower_bound(shape, entry, step.op, step.part.n, npus, alone and (shape != "ring" or self.ascending))
            if bound is not None:
                found = _if(algorithm, entry, time(bound, step), found)
            else:
                other = NEVER if op == step.op else self._by_algorithm(step, step.op, shape, time)
                found = _if(algorithm, entry, other, found)
        return found

    def _algorithm(self, op: CommOp, dim: int, shape: str) -> Node:
        name, entries = op.name.lower(), self._named(op)
        if not entries:
            return Const(default_algorithm(shape, name))
        return self._meaning(f"collective.{name}[{dim if len(entries) > 1 else 0}]")

    def _named(self, op: CommOp) -> Sequence[str]:
        """The algorithms of the base for an operation."""
        base = self.judge.space.base
        return () if base is None else tuple(getattr(base.collective, op.name.lower()))

    def _texts(self, node: Node) -> tuple[str, ...]:
        """Every text that a tree may be."""
        values = {axis.name: (*axis.values, *(() if axis.otherwise is None else (axis.otherwise,)))
                  for axis in self.judge.space.axes}
        return tuple(dict.fromkeys(text for text in _leaves(node, values) if isinstance(text, str)))

    def _meaning(self, path: str) -> Node:
        return self.judge.scope.meaning(path)[0]


def _leaves(node: Node, values: Mapping[str, Sequence[object]]) -> list[object]:
    """What a tree of names, texts and ifs may be."""
    if isinstance(node, Const):
        return [node.value]
    if isinstance(node, Ref):
        return list(values[node.name])
    return [leaf for arg in node.args[1:] for leaf in _leaves(arg, values)] if node.name == "if" else []


def _block(step: Step, bound: PhaseBound) -> float:
    """Bytes of a block of a step, not padded."""
    return step.size * (step.part.n if step.op == CommOp.ALL_GATHER else 1) / bound.count


def _if(node: Node, value: object, yes: Node, no: Node) -> Node:
    return make("if", (make("==", (node, Const(value))), yes, no))


def _sum(parts: Sequence[Node]) -> Node:
    return make("+", parts) if parts else ZERO


def _most(parts: Sequence[Node]) -> Node:
    return make("max", parts) if parts else ZERO


def _times(*parts: Node | float) -> Node:
    return make("*", [Const(part) if isinstance(part, (int, float)) else part for part in parts])
