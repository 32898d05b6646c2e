"""Plug-ins: networks, compute models, remote memory, workloads and scheduling from outside, each with its exam.

The protocols are plain (typing.Protocol): an object with those methods is a plug-in, nothing is inherited. Register one
through the entry-point group `astrarium.plugins`, or hand it to a run: `simulate(design, plugins=Plugins(...))`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.lazy import lazy

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
__getattr__ = lazy(__name__)
