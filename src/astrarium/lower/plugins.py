"""Plug-ins of a design: those that it names are made for the run, and answer in place of its own models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from astrarium import registry
from astrarium.design import Design
from astrarium.engine.plan import Backend, Dim
from astrarium.errors import PluginError, UnsupportedError
from astrarium.lower.models import Models, own_models
from astrarium.lower.units import reserved_units
from astrarium.vocab import CommOp

if TYPE_CHECKING:
    from astrarium.engine.plugins import CollectiveChoice, Plugins

__all__ = ["chosen_algorithms", "has_medium", "models_of", "plugins_of"]

OWN = {"scheduling": ("lifo", "fifo", "priority"),
       "remote": ("none", "per_npu", "per_node", "pool"), "choice": ("auto", "none")}
FOREIGN = ("library", "ns3")      # back ends of ours that take part in a run as plug-ins do


def plugins_of(design: Design, given: Plugins | None = None) -> Plugins | None:
    """The plug-ins of one run: `given`, and for what it leaves open those that the design names; None: there are none.

    Raises InputError for a library that cannot be opened and for a plug-in that cannot be imported.
    """
    network, remote, policy = design.network.backend, design.memory.remote.kind, design.collective.scheduling
    named = {"network": not has_medium(design), "memory": remote not in OWN["remote"],
             "scheduling": policy not in OWN["scheduling"], "choice": design.collective.choice not in OWN["choice"]}
    if not any(named.values()):
        return given
    from astrarium.engine.plugins import Plugins, load
    from astrarium.engine.plugins.given import ask, checked

    found = given or Plugins()
    if named["network"] and found.network is None:
        settings = _ns3(design) if network == "ns3" else (design.network.options,)
        found = replace(found, network=load(design.network.library or "", design.network.options)
                        if network == "library" else _maker("backend", network, *settings))
    if named["memory"] and found.memory is None:
        found = replace(found, memory=_maker("remote", remote, design.memory.remote))
    if named["scheduling"] and found.scheduling is None:
        found = replace(found, scheduling=_maker("scheduling", policy))
    if named["choice"] and found.choice is None:
        choice = design.collective.choice
        who = f"collective choice plug-in {choice}"
        found = replace(found, choice=checked(who, ask(who, _maker("choice", choice)), ("algorithms",)))
    return found


def _ns3(design: Design) -> tuple[object, ...]:
    """What ns-3 is told in addition to the dims: its section, and the graph of a fabric with its routes."""
    from astrarium.network.planned import foreign_graph

    return design.network.ns3, *foreign_graph(design.network)


def has_medium(design: Design) -> bool:
    """Whether the engine itself moves the bytes: the back end is no plug-in."""
    name = design.network.backend
    return name in registry.built_ins("backend") and name not in FOREIGN


def models_of(design: Design, plugins: Plugins | None) -> Models:
    """What answers the questions of a lowering in a run with `plugins`."""
    own = own_models(design)
    if not has_medium(design):
        own = replace(own, backend=Backend.FOREIGN)
    if plugins is None:
        return own
    model = plugins.compute
    if model is not None and reserved_units(design):
        raise UnsupportedError("collective.kernels.units", "with a compute plug-in, whose times are of all units",
                               expected="units: 0")
    types = own.types if model is None else tuple([(model, memory) for _, memory in own.types])
    return replace(own, types=types, remote=own.remote or plugins.memory is not None, choice=plugins.choice)


def _maker(kind: str, name: str, *settings: object) -> Callable[..., Any]:
    """The registered factory, which is told the design's settings last."""
    factory: Callable[..., Any] = registry.load(kind, name)

    def make(*arguments: object) -> Any:
        return factory(*arguments, *settings)

    make.__qualname__ = name
    return make


def chosen_algorithms(choice: CollectiveChoice, op: CommOp, size: int, npus: Sequence[int],
                      dims: Sequence[Dim]) -> tuple[str, ...]:
    """What a choice of algorithms says for one collective: one entry per dim, or none. Raises PluginError."""
    who = f"collective choice plug-in {type(choice).__qualname__}"
    try:
        entries: tuple[object, ...] = tuple(choice.algorithms(op, size, npus, dims))
    except Exception as error:
        raise PluginError(who, f"raised {type(error).__name__}: {error}") from error
    from astrarium.collective.algorithms import has_op
    from astrarium.collective.config import parse_algorithm

    if len(entries) not in (0, 1, len(dims)):
        raise PluginError(who, f"algorithms() names {len(entries)} algorithms for {len(dims)} dims")
    known: list[str] = []
    for entry in entries:
        name = parse_algorithm(entry)[0] if isinstance(entry, str) else ""
        if name not in registry.Kind("algorithm") or not has_op(name, op):
            raise PluginError(who, f"algorithms() names {entry!r}, which has no {op.name.lower()}")
        known.append(str(entry))
    return tuple(known * len(dims) if len(known) == 1 else known)
