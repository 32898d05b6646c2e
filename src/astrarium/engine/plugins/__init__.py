"""Plug-ins: networks, compute models, remote memory, workloads and scheduling from outside, each with its exam.

The protocols are plain (typing.Protocol): an object with those methods is a plug-in, nothing is inherited. Register one
through the entry-point group `astrarium.plugins`, or hand it to a run: `simulate(design, plugins=Plugins(...))`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astrarium.engine.plugins.clockwork import EventQueue, Mailbox
    from astrarium.engine.plugins.compute import ComputeModel, ComputeNode, ComputeNodes, LocalMemory, PerNode
    from astrarium.engine.plugins.delays import DelayNetwork
    from astrarium.engine.plugins.desk import Desk
    from astrarium.engine.plugins.given import Plugins
    from astrarium.engine.plugins.library import Library, load
    from astrarium.engine.plugins.memory import RemoteMemory
    from astrarium.engine.plugins.network import NEVER, Callback, Network
    from astrarium.engine.plugins.system import CollectiveChoice, Scheduling

__all__ = ["NEVER", "Callback", "CollectiveChoice", "ComputeModel", "ComputeNode", "ComputeNodes", "DelayNetwork",
           "Desk", "EventQueue", "Library", "LocalMemory", "Mailbox", "Network", "PerNode", "Plugins", "RemoteMemory",
           "Scheduling", "load"]

_WHERE = {
    "clockwork": ("EventQueue", "Mailbox"),
    "compute": ("ComputeModel", "ComputeNode", "ComputeNodes", "LocalMemory", "PerNode"),
    "delays": ("DelayNetwork",),
    "desk": ("Desk",),
    "given": ("Plugins",),
    "library": ("Library", "load"),
    "memory": ("RemoteMemory",),
    "network": ("NEVER", "Callback", "Network"),
    "system": ("CollectiveChoice", "Scheduling"),
}
_MODULE = {name: module for module, names in _WHERE.items() for name in names}


def __getattr__(name: str) -> Any:
    """What is asked for, and no more: most runs need the compute protocol alone."""
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE[name]}"), name)
