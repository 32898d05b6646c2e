"""A network section as the modules below it see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from astrarium.fabric.config import Fabric
from astrarium.network.change import Change
from astrarium.network.routes import Route
from astrarium.network.shapes import Dim, LinkDim

__all__ = ["Section"]


class Section(Protocol):
    """What `network.config.Network` has; it uses the modules that take one."""

    @property
    def dims(self) -> Sequence[Dim]: ...
    @property
    def flat(self) -> tuple[LinkDim, ...]: ...
    @property
    def written(self) -> tuple[LinkDim, ...]: ...
    @property
    def npus(self) -> int: ...
    @property
    def fabric(self) -> Fabric | None: ...
    @property
    def backend(self) -> str: ...
    @property
    def switching(self) -> str | None: ...
    @property
    def ecmp(self) -> int | Literal["off"] | None: ...
    @property
    def changes(self) -> Sequence[Change]: ...
    @property
    def routes(self) -> Sequence[Route]: ...
