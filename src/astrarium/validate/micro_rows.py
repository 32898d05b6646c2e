"""Rows of microbenchmarks of one GPU: what each ran.

Columns: what, memory, blocks, threads, unroll, bytes, us.

- `read`, `copy`: a grid-stride kernel over `bytes` of hbm or l2, each thread with `unroll` accesses of 16 B at a time
- `chase`: `unroll` dependent loads; `launch`: an empty kernel
- `overlap`: `memory` is the shape (m x n x k) of a bf16 product, `bytes` how often it ran, `us` its mean time beside
  copies of `blocks` blocks (0: alone); an eighth cell has the us of the copies
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from astrarium.errors import InputError, nearest

__all__ = ["COPIES", "NEEDED", "NUMBERS", "Asked", "asked_of", "identity", "stated"]

Value = int | float | str
NEEDED = ("what", "memory", "blocks", "threads", "unroll", "bytes", "us")
COPIES = "copies_us"        # name of the eighth cell
NUMBERS = frozenset({"blocks", "threads", "unroll", "bytes", "us", COPIES})
KINDS = ("read", "copy", "chase", "launch", "overlap")
MEMORIES = ("hbm", "l2")
WARP, MOST_THREADS = 32, 1024
GROUPS: Mapping[str, str] = MappingProxyType({
    "chase": "chases", "launch": "launches", "overlap": "products beside copies"})


class Asked(Struct, frozen=True):
    """What a row ran. `shape`: of a product (m, n, k); `group`: the rows that it is judged with."""

    what: str
    group: str
    hbm: bool = False
    blocks: int = 0
    threads: int = 0
    unroll: int = 0
    size: int = 0
    shape: tuple[int, ...] = ()


def stated(values: Mapping[str, Value], file: str) -> Mapping[str, Value]:
    """The columns of a row with its source, device (both the name of the file's folder) and case."""
    folder = Path(file).resolve().parent.name
    case = " ".join(str(values.get(name, "")) for name in ("what", "memory"))
    case += " " + " x ".join(f"{int(values.get(name, 0))}" for name in ("blocks", "threads", "unroll"))
    return MappingProxyType({"source": folder, "gpu": folder, **values, "case": case})


def identity(values: Mapping[str, Value]) -> int:
    """A number of 32 bits for a row's case: even ones are the half on which a device is fitted, odd ones judge."""
    return zlib.crc32(str(values["case"]).encode())


def asked_of(values: Mapping[str, Value]) -> Asked:
    """What a row ran. Raises InputError for what no kernel of the program is."""
    what, memory = str(values.get("what", "")), str(values.get("memory", ""))
    if what not in KINDS:
        raise InputError("what", f"{what[:60]!r} is not known", expected="one of " + ", ".join(KINDS),
                         did_you_mean=nearest(what, KINDS))
    if not values.get("us"):
        raise InputError("us", "is not stated", expected="a time above 0")
    blocks, threads, unroll, size = (int(values.get(name, 0)) for name in ("blocks", "threads", "unroll", "bytes"))
    if what == "launch":
        return Asked(what, GROUPS[what], blocks=blocks, threads=threads)
    if what == "chase":
        return Asked(what, GROUPS[what], unroll=_above("unroll", unroll))
    for name, value in (("unroll", unroll), ("bytes", size), *((("blocks", blocks),) if what != "overlap" else ())):
        _above(name, value)
    if not threads or threads % WARP or threads > MOST_THREADS:
        raise InputError("threads", str(threads), expected=f"a multiple of {WARP}, at most {MOST_THREADS}")
    if what == "overlap":
        if not (found := re.fullmatch(r"([1-9]\d*)x([1-9]\d*)x([1-9]\d*)", memory)):
            raise InputError("memory", f"{memory[:60]!r} is no shape", expected="m x n x k, such as 4096x4096x1024")
        group = GROUPS[what] if blocks else "products alone"
        return Asked(what, group, True, blocks, threads, unroll, size, tuple(int(each) for each in found.groups()))
    if memory not in MEMORIES:
        raise InputError("memory", f"{memory[:60]!r} is not known", expected="one of " + ", ".join(MEMORIES))
    group = f"{'reads' if what == 'read' else 'copies'} {memory}"
    return Asked(what, group, memory == "hbm", blocks, threads, unroll, size)


def _above(name: str, value: int) -> int:
    if value < 1:
        raise InputError(name, str(value), expected="at least 1")
    return value
