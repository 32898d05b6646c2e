"""Modules that XLA partitions over devices by their shardings: their text is of the whole job, not of one device."""

from __future__ import annotations

import re

from astrarium.errors import UnsupportedError
from astrarium.trace.graphs.hlo_text import Operation

__all__ = ["MARK", "Partitions"]

MARK = "sdy.sharding_constraint"
_COUNT = re.compile(r"mhlo\.num_partitions\s*=\s*(\d+)")
_SHARDED = re.compile(r'sdy\.sharding[^\n]*?\{"|mhlo\.sharding\s*=\s*"[^"\n]*devices=')
_MESH = re.compile(r'sdy\.mesh\s+@([\w.$-]+)\s*=\s*<\[([^\]]*)\]')
_AXIS = re.compile(r'"([^"]+)"\s*=\s*(\d+)')
_MANUAL = re.compile(r"manual_axes=\{([^}]*)\}")
_OF = re.compile(r"<@([\w.$-]+)")
EXPECTED = "jax.shard_map over every axis of the mesh, whose body is what one device runs, or a module of one partition"


class Partitions:
    """How many devices a module is for, and whether the operation that is read is what one of them runs.

    `manual` counts the manual computations around it.
    """

    def __init__(self, text: str, where: str) -> None:
        found = _COUNT.search(text)
        self.where, self.manual = where, 0
        self.count = int(found[1]) if found is not None and _SHARDED.search(text) else 1
        self._meshes = {mesh[1]: {axis for axis, size in _AXIS.findall(mesh[2]) if int(size) > 1}
                        for mesh in _MESH.finditer(text)}

    def enter(self, operation: Operation) -> None:
        """A manual computation begins. Raises UnsupportedError where it leaves axes to XLA."""
        mesh, axes = _OF.search(operation.text), _MANUAL.search(operation.text)
        left = self._meshes.get(mesh[1] if mesh else "", set()) - set(re.findall(r'"([^"]+)"', axes[1] if axes else ""))
        if left:
            raise UnsupportedError(f"{self.where}: line {operation.line}", "a manual_computation that leaves the axes "
                                   + ", ".join(sorted(left)) + " of its mesh to XLA", expected=EXPECTED)
        self.manual += 1

    def check(self, operation: Operation) -> None:
        """Raises UnsupportedError for work of which each device gets a part that only XLA knows."""
        if self.count > 1 and not self.manual and any(each.elements > 1 for each in operation.outputs):
            raise UnsupportedError(
                f"{self.where}: line {operation.line}", f"{operation.name} outside a manual computation, in a module "
                f"that XLA partitions over {self.count} devices by its shardings", expected=EXPECTED)
