"""A way to run the command line in this process; the fixture `run` of tests/conftest.py does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Said:
    """What one command returned and printed."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]
PlugIn = Callable[[Mapping[str, str]], None]      # the fixture `plug_in`: entry point -> module:target


RING = """workload: {source: trace, path: et/w.*.et}
network:
  dims:
    - {shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 500 ns}
"""


def write_design(folder: Path) -> Path:
    """A native design file for the traces et/w.RANK.et of four ranks beside it."""
    path = folder / "design.yaml"
    path.write_text(RING)
    return path
