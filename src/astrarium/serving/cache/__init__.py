"""The key-value cache of one server in blocks: what requests hold, prefixes for others to share, tiers behind it."""

from __future__ import annotations

from astrarium.serving.cache.blocks import Blocks, Held
from astrarium.serving.cache.tiers import Store

__all__ = ["Blocks", "Held", "Store"]
