"""A network section as the engine takes it: dims, the graph of a fabric, changes of links."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from astrarium.config import ConfigError, Problem
from astrarium.engine.media import find_medium
from astrarium.engine.plan import FIRST_LINK, Backend, Graph, NetworkPlan
from astrarium.engine.routes import Routes
from astrarium.errors import InputError
from astrarium.fabric.built import Built, build, laid_out, logical
from astrarium.fabric.config import Fabric
from astrarium.fabric.graph import graph_of
from astrarium.fabric.in_switch import InSwitch
from astrarium.fabric.ways import several_ways
from astrarium.network.as_dims import PORTS, no_closed_form, taken_as, without_congestion
from astrarium.network.change import Change, fails, gone, which
from astrarium.network.dims import config_dim, in_plan, plan_dims, sizes_of
from astrarium.network.routes import given_routes
from astrarium.network.section import Section
from astrarium.network.shapes import LinkDim

if TYPE_CHECKING:
    from astrarium.fabric.trees import Trees

__all__ = ["assumed", "built_of", "changes_of_links", "computing", "fabric_dims", "faults", "foreign_graph",
           "network_plan", "on_graph", "trees_of"]

LONGEST_NS = 2**62 / 1000
CUT_THROUGH = "contention"      # forwards heads where a design does not say otherwise
FORWARD = ("contention", "packets")     # back ends that a design tells what to forward (network.switching)
NS3 = "ns3"     # a plug-in that has links of a graph


def built_of(network: Section) -> Built:
    """The graph of a network's fabric. Raises InputError."""
    assert network.fabric is not None
    hint = in_plan(network.written) if network.dims else ()
    return build(network.fabric, hint, tuple([which(change) for change in network.changes if gone(change)]))


def fabric_dims(network: Section) -> tuple[LinkDim, ...]:
    """The dims of a fabric, or those on which its collectives are laid out: written ones, else one. Bandwidths and
    latencies are the fabric's where it is these dims, with or without congestion."""
    built = built_of(network)
    found = built.dims
    if found is None and (network.dims or network.backend == PORTS):
        free = without_congestion(built)
        found = None if isinstance(free, str) else free.dims
    if network.dims:
        return network.written if found is None else _numbered(network.written, tuple(map(config_dim, found)))
    return tuple(map(config_dim, logical(built) if found is None else found))


@lru_cache(maxsize=8)
def _numbered(dims: tuple[LinkDim, ...], found: tuple[LinkDim, ...]) -> tuple[LinkDim, ...]:
    """`dims` with the numbers of those that were found, if they have their shapes and sizes."""
    if sizes_of(dims) != sizes_of(found):
        return dims
    return tuple([dim if (dim.message_bandwidth, dim.hop_latency) == (each.message_bandwidth, each.hop_latency) else
                  replace(dim, bandwidth=each.bandwidth, bandwidth_per_npu=None, efficiency=1.0, latency=each.latency,
                          link=None, links=1, length=None)
                  for dim, each in zip(dims, found, strict=True)])


def on_graph(network: Section) -> bool:
    """Whether messages go over the fabric's graph: it is no dims, a seed chooses among its ways, ways are given, or
    its switches compute. With `closed_form`, which has no ways: it is no dims even without congestion, or its switches
    compute."""
    if network.fabric is not None and network.backend == PORTS:
        built = built_of(network)
        return bool(network.fabric.in_switch) or (built.dims is None and isinstance(without_congestion(built), str))
    return network.fabric is not None and (isinstance(network.ecmp, int) or bool(network.routes)
                                           or bool(network.fabric.in_switch) or built_of(network).dims is None)


def assumed(network: Section) -> Iterator[str]:
    """What a run of a fabric assumes: which devices are one, and which of equally fast ways messages take."""
    built = built_of(network)
    if built.planes:
        yield (f"{sum(map(len, built.planes)):,} parallel devices count as {len(built.planes):,}, over which messages "
               f"are striped: {', '.join(built.planes[0])}{' ...' if len(built.planes) > 1 else ''} "
               "(network.fabric.planes: apart)")
    if network.backend == PORTS and built.dims is None and not on_graph(network):
        yield taken_as(built)
    if not (on_graph(network) and several_ways(built.graph)):
        return
    if network.ecmp is None:
        yield "a hash of the two NPUs chooses among equally fast ways (network.ecmp: 0; off takes the first)"


def computing(network: Section) -> dict[int, InSwitch]:
    """What nodes of the fabric's graph can do with messages of a collective. Raises InputError for a name that is none,
    or of nothing on a way between NPUs."""
    found: dict[int, InSwitch] = {}
    for name, said in (network.fabric.in_switch.items() if network.fabric is not None else ()):
        path, built = f"network.fabric.in_switch.{name}", built_of(network)
        nodes = [int(node) for node in built.nodes(name, path) if node >= built.npus]
        if not nodes:
            raise InputError(path, "is no switch on a way between NPUs", expected="names of switches of the fabric")
        found.update(dict.fromkeys(nodes, said))
    return found


@lru_cache(maxsize=8)
def trees_of(fabric: Fabric, graph: Graph, nodes: tuple[int, ...]) -> Trees:
    """The trees of switches of a fabric's graph, whose `nodes` compute."""
    from astrarium.fabric.trees import Trees

    del fabric
    return Trees(graph, nodes)


def faults(network: Section) -> Iterator[Problem]:
    """Problems of a fabric, and of the rest of the section with it."""
    assert network.fabric is not None
    try:
        npus, given = laid_out(network.fabric).npus.size, math.prod([dim.npus for dim in network.written])
        if network.dims and given != npus:
            yield Problem("dims", f"have {given} NPUs", f"the {npus} of the fabric")
            return
        built, in_switch = built_of(network), bool(network.fabric.in_switch)
        if network.backend == PORTS and (problems := list(no_closed_form(built, network.written, _able(), in_switch))):
            yield from problems
            return
        for place, change in enumerate(network.changes):
            _known(network, change, f"network.changes[{place}]")
        given_routes(network.routes, built_of(network))
        computing(network)
        graph = on_graph(network)
        yield from _too_long(network)
    except ConfigError as error:
        yield from [_here(problem) for problem in error.problems]
        return
    except InputError as error:
        yield _here(Problem(error.path, error.message, error.expected, error.did_you_mean))
        return
    if network.fabric.in_switch and network.backend == NS3:
        yield Problem("fabric.in_switch", "has no effect with ns3, whose switches forward only", "no in_switch")
    if graph and not _takes_graph(network.backend):
        yield Problem("backend", f"{network.backend} has no links of a graph, and the fabric "
                      + ("has network.ecmp" if isinstance(network.ecmp, int) else "has network.routes" if network.routes
                         else "has in_switch" if network.fabric.in_switch else "is no dims"), _able())


def _known(network: Section, change: Change, path: str) -> None:
    """Raise InputError for links of the fabric that a change names and that there are not."""
    if change.dim is not None:
        raise InputError(f"{path}.dim", "has no effect on a fabric", expected="link, nic, or tier")
    if change.npu is None and not gone(change):
        built_of(network).links(which(change), path)


def changes_of_links(network: Section) -> Iterator[Problem]:
    """Problems of links that change while a design runs, with a back end that has no links of its own."""
    kind = find_medium(network.backend)
    if kind is not None and kind.takes_graph:
        return
    for place, change in enumerate(network.changes):
        if change.npu is None and not (network.fabric is not None and gone(change)):
            yield Problem(f"changes[{place}]", f"changes links while the design runs, and {network.backend} has no "
                          "links that change", "backend: contention or fluid or packets")


def _too_long(network: Section) -> Iterator[Problem]:
    """The clock counts 2^63 ps, and a way may cross all nodes."""
    graph = built_of(network).graph
    if graph.latency.size and float(graph.latency.max()) >= LONGEST_NS / graph.nodes:
        yield Problem("fabric.links", f"a latency of {float(graph.latency.max()):g} ns is too long for ways of up to "
                      f"{graph.nodes} links", f"less than {LONGEST_NS / graph.nodes:g} ns")


def _here(problem: Problem) -> Problem:
    """A problem with its path within this section."""
    path = problem.path.removeprefix("network.")
    return Problem(path if path != problem.path else f"fabric: {path}", problem.message, problem.expected,
                   problem.did_you_mean)


def _takes_graph(backend: str) -> bool:
    if backend == NS3:
        return True
    kind = find_medium(backend)
    return kind is not None and kind.takes_graph


def _able() -> str:
    from astrarium.registry import names

    return "backend: " + " or ".join(name for name in names("backend") if _takes_graph(name))


def network_plan(network: Section, backend: str) -> NetworkPlan:
    """The engine's network. `backend`: what moves the bytes there. A plug-in has its graph (`foreign_graph`) itself.
    Dims whose links fail are their graph, which has other ways."""
    dims, cut = plan_dims(network), network.switching == "cut_through" and backend in FORWARD
    cut |= network.switching is None and backend == CUT_THROUGH
    if not on_graph(network) or backend == Backend.FOREIGN:
        rerouted = graph_of(dims) if any(map(fails, network.changes)) and _takes_graph(backend) else None
        return NetworkPlan(backend, dims, cut_through=cut, graph=rerouted, ecmp=0 if rerouted is None else FIRST_LINK)
    return NetworkPlan(backend, dims, cut_through=cut, graph=built_of(network).graph, ecmp=_seed(network),
                       routes=given_routes(network.routes, built_of(network)))


def foreign_graph(network: Section) -> tuple[Graph, Routes] | tuple[()]:
    """The graph over which ns-3 sends, and its routes; nothing where dims say it all."""
    if not on_graph(network):
        return ()
    built = built_of(network)
    return built.graph, Routes(built.graph, _seed(network), given_routes(network.routes, built))


def _seed(network: Section) -> int:
    return FIRST_LINK if network.ecmp == "off" else network.ecmp or 0
