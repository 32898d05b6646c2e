"""Lower bounds of objectives, as expressions over the knobs of a space: no simulation falls below them.

The `makespan` of a single collective in the native rule book: every byte occupies ports, so no NPU sends more than its
bandwidth. Take the blocks of m NPUs inside the first d dims, B = N / m of them. Over the dims from d on, some block has
to send at least (S as nccl-tests counts it; the mean over blocks)

    all_reduce                  2 (B - 1) / B S        (Patarasuk and Yuan 2009, each block taken as one process)
    reduce_scatter, all_gather  (B - 1) / B S
    all_to_all                  m S (N - m) / N
    broadcast, reduce           (B - 1) / B S
    gather, scatter             (B - 1) / B S / B

at no more than m times an NPU's bandwidth in those dims (of an all_reduce through switches that compute S: each block
sends every byte once). The largest of these times over d is the bound; latencies,
reductions, chunks and algorithms only add to it. `network_cost` and `network_bandwidth` are exact, except for
the price of links whose technology is chosen: that of the cheapest one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from astrarium import catalog
from astrarium.cost import FIGURES
from astrarium.design import Design
from astrarium.errors import UnsupportedError
from astrarium.network.config import Ring, Switch
from astrarium.network.cost import LIBRA, link_price, tiers_of
from astrarium.network.needs import needs_dims
from astrarium.search.bounds.links import links_text, npu_bandwidth
from astrarium.search.evaluate import Judge
from astrarium.search.expression import Node, Op, Ref, bounds, make, names_in
from astrarium.workload.single import SingleCollective

__all__ = ["NATIVE", "SAFE", "bounded_dims", "collective_makespan", "objective_bound"]

SAFE = 1 - 1e-9      # bounds are floats, makespans are whole picoseconds
NEVER = 1e300
NATIVE: Mapping[str, bool] = {"none": True, "astra_sim": False}
"""Rule books in which every byte occupies ports."""

_SENT: Mapping[str, str] = {
    "all_reduce": "2 * {s} * ({b} - 1) / {b} / {m}", "reduce_scatter": "{s} * ({b} - 1) / {b} / {m}",
    "all_gather": "{s} * ({b} - 1) / {b} / {m}", "all_to_all": "{s} * ({n} - {m}) / {n}",
    "broadcast": "{s} * ({b} - 1) / {b} / {m}", "reduce": "{s} * ({b} - 1) / {b} / {m}",
    "gather": "{s} * ({b} - 1) / {b} / {b} / {m}", "scatter": "{s} * ({b} - 1) / {b} / {b} / {m}",
    "barrier": "0 * {s}",
}
"""Bytes that an NPU sends on average over the dims outside its block of {m} NPUs, {b} blocks, {n} NPUs, payload {s}."""


def bounded_dims(design: Design, judge: Judge) -> list[str]:
    """Paths of the dims. Raises UnsupportedError if no lower bound is known for dims of their kind."""
    needs_dims(design.network, "a lower bound", written=True)
    one_way = any(isinstance(dim, Ring) and dim.one_way for dim in design.network.dims)
    if one_way or any(path.endswith((".one_way", "network.dims", "]")) and path.startswith("network")
                      for path in judge.space.paths):
        raise UnsupportedError("network.dims", "one-way rings, and dims chosen as a whole, have no lower bound")
    if any(dim.tag == "torus" for dim in design.network.dims):
        raise UnsupportedError("network.dims", "a torus is one dim of several directions, which has no lower bound",
                               expected="its ring dims")
    return [f"network.dims[{index}]" for index in range(len(design.network.dims))]


def collective_makespan(design: Design, judge: Judge) -> str:
    """The lower bound of the makespan (ns) of one collective of all ranks, as text. Raises UnsupportedError if there is
    none."""
    if not isinstance(design.workload, SingleCollective):
        raise UnsupportedError("workload", "the makespan of this kind of workload has no lower bound",
                               expected="source: collective, or the option floor of the agent exact")
    native = NATIVE[design.compat]
    if "workload.op" in judge.space.paths or not native:
        raise UnsupportedError("workload.op", "the lower bound is of one operation in the native rule book")
    dims = bounded_dims(design, judge)
    rates = [f"({npu_bandwidth(design, judge.space.paths, dim)})" for dim in dims]
    times = []
    for first in range(len(dims)):
        inside = "product(" + ", ".join(["1", *(f"{dim}.npus" for dim in dims[:first])]) + ")"
        words = {"s": "workload.payload", "m": inside, "n": "network.npus", "b": f"(network.npus / {inside})"}
        sent = _SENT[design.workload.op].format(**words)
        if design.workload.op == "all_reduce" and _may_add(design, judge, dims[first:]):
            sent = f"min({sent}, workload.payload / {inside})"     # each block sends every byte once
        times.append(f"({sent}) / ({' + '.join(rates[first:])})")
    return f"max({', '.join(times)})"


def _may_add(design: Design, judge: Judge, dims: Sequence[str]) -> bool:
    """Whether one of these dims has, or may be given, switches that compute."""
    said = [path for path in judge.space.paths if ".in_switch" in path]
    return any(isinstance(each, Switch) and (each.in_switch is not None or any(path.startswith(dim) for path in said))
               for dim, each in zip(dims, design.network.dims[-len(dims):], strict=True))


def _cost(design: Design, judge: Judge) -> str:
    dims, terms = bounded_dims(design, judge), []
    for dim, tier in zip(dims, tiers_of(len(dims))):
        link = _link_price(design, judge, dim, tier)
        switch = 2 * link + LIBRA.switch[tier] + LIBRA.nic.get(tier, 0.0) if tier in LIBRA.switch else NEVER
        rate = f"({npu_bandwidth(design, judge.space.paths, dim)}) / {links_text(dim)}"
        factor = f"if({dim}.shape == 'ring', {2 * link!r}, if({dim}.shape == 'fully_connected', " \
                 f"{link!r} * ({dim}.npus - 1), if({dim}.shape == 'switch', {switch!r}, {NEVER!r})))"
        terms.append(f"{factor} * {rate} * network.npus")      # N / n blocks of n NPUs
    return " + ".join(terms)


def _link_price(design: Design, judge: Judge, dim: str, tier: str) -> float:
    """US dollars of a GB/s of the dim's links, one way, at least."""
    own = design.network.flat[int(dim[dim.index("[") + 1:-1])].link
    return min(link_price(name, tier) for name in (
        [None, *catalog.load("links")] if f"{dim}.link" in judge.space.paths else [own]))


def _bandwidth(design: Design, judge: Judge) -> str:
    return " + ".join(npu_bandwidth(design, judge.space.paths, dim) for dim in bounded_dims(design, judge))


_FIGURES = {"network_cost": _cost, "network_bandwidth": _bandwidth}


def objective_bound(judge: Judge, makespan: Callable[[Design, Judge], Node], place: int = 0) -> Node:
    """An objective (`place`: which of the goal's) with every figure replaced by its lower bound (that of the makespan
    in ns by `makespan`): a tree over the axes alone. Raises UnsupportedError if the objective could fall although a
    figure rises, or a figure has no lower bound."""
    tree = judge.objectives[place]
    design = judge.space.base
    if callable(tree) or design is None:
        raise UnsupportedError("minimize", "a Python function has no lower bound", expected="an expression")
    if judge.goal.objectives[place].maximize or not _rises(tree, judge.ranges()):
        raise UnsupportedError("minimize", f"{judge.goal.objectives[place].name!r} may fall where a figure rises",
                               expected="minimize: sums and products of figures and of what is not negative")
    if judge.goal.cases:
        raise UnsupportedError("cases", "the exact agent takes one workload")
    found: dict[str, Node] = {}
    for name in (name for name in names_in(tree) if name in judge.subject.figures):
        if name != "makespan" and name not in _FIGURES:
            raise UnsupportedError("minimize", f"{name} has no lower bound",
                                   expected="one of " + ", ".join(("makespan", *_FIGURES)))
        found[name] = makespan(design, judge) if name == "makespan" else judge.scope.node(
            _FIGURES[name](design, judge), f"lower bound of {name}")
    return _swapped(tree, found)


def _swapped(node: Node, new: Mapping[str, Node]) -> Node:
    if isinstance(node, Ref):
        return new.get(node.name, node)
    return make(node.name, [_swapped(arg, new) for arg in node.args]) if isinstance(node, Op) else node


def _rises(node: Node, ranges: Mapping[str, tuple[float, float]]) -> bool:
    """Whether a tree can only rise when a figure in it does."""
    if not isinstance(node, Op) or not any(name in FIGURES for name in names_in(node)):
        return True
    if node.name == "*":
        return all(bounds(arg, ranges)[0] >= 0 and _rises(arg, ranges) for arg in node.args)
    if node.name == "/":
        return _free(node.args[1:]) and bounds(node.args[1], ranges)[0] > 0 and _rises(node.args[0], ranges)
    return node.name in ("+", "min", "max", "sqrt", "ceil", "floor") and all(_rises(arg, ranges) for arg in node.args)


def _free(nodes: Sequence[Node]) -> bool:
    return not any(name in FIGURES for node in nodes for name in names_in(node))
