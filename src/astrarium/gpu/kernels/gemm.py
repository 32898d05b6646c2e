"""A matrix product as workgroups: one per output tile, which loads panels of A and B, multiplies and stores its tile.

Panels. A panel is as many rows of A (or columns of B) as divide both sides of a tile, with all of k, contiguous in
memory. A wavefront loads a step of the tile's panels, waits, and then the unit's matrix pipe takes the step; other
wavefronts load meanwhile, so that their number is the number of stages of the software pipeline.

Which bytes go to HBM. Tiles that run at once (a wave: as many as have places on the units) read a panel from HBM once:
the first of them in order of dispatch; the others find it in L2. Between waves nothing stays in L2. C goes to HBM once.
`group` rows of tiles are walked column by column, which makes waves compact (Triton's GROUP_SIZE_M,
https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html, "L2 Cache Optimizations").
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Annotated, Literal

from msgspec import Struct

from astrarium.config import Config, Knob
from astrarium.errors import UnsupportedError
from astrarium.gpu.engine import Buffer, Launch, Machine, Operation, OpKind, Place, Stream, Workgroup
from astrarium.gpu.engine.check import MOST
from astrarium.gpu.kernels.device import Gpu
from astrarium.units import Bytes, FlopRate

__all__ = ["Gemm", "Tiles", "gemm_launch"]

ELEMENT = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
"""Bytes of an element of A, B and C, by number format."""
A, B, A_IN_L2, B_IN_L2, C = range(5)
MOST_PANELS = 4096      # of a tile


class Gemm(Config, frozen=True, kw_only=True):
    """C [m, n] = A [m, k] x B [k, n] as GPU kernel."""

    m: Annotated[int, Knob("Rows of A and C.", ge=1)]
    n: Annotated[int, Knob("Columns of B and C.", ge=1)]
    k: Annotated[int, Knob("Columns of A and rows of B.", ge=1)]
    precision: Annotated[Literal["fp32", "tf32", "bf16", "fp16", "fp8", "int8"], Knob("Number format of A, B, C.")
                         ] = "bf16"
    peak: Annotated[FlopRate, Knob("Dense rate of matrix products of the whole GPU; a unit has an equal share.", gt=0)]
    efficiency: Annotated[float, Knob("Share of `peak` at which a matrix pipe multiplies while it has data: 1 leaves "
                                      "only what is simulated (filling, waves, memory).", gt=0)] = 1.0
    tile_m: Annotated[int, Knob("Rows of an output tile.", ge=1)] = 128
    tile_n: Annotated[int, Knob("Columns of an output tile.", ge=1)] = 256
    group: Annotated[int, Knob("Rows of tiles that are walked together.", ge=1)] = 8
    wavefronts: Annotated[int, Knob("Wavefronts of a tile's workgroup; one at a time multiplies.", ge=1)] = 8
    unroll: Annotated[int, Knob("Instructions of a wavefront in a step.", ge=1)] = 4
    persistent: Annotated[bool, Knob(
        "As many workgroups as have places at once; each multiplies tile after tile, its share of them fixed when the "
        "kernel starts (cuBLAS on Hopper). Else a workgroup per tile.")] = False
    cluster: Annotated[int, Knob("Workgroups that get their places at once, on all units of a port; a cluster begins "
                                 "when all of these are free. 1: each by itself.", ge=1)] = 1
    places: Annotated[int | None, Knob(
        "Of a unit's places for workgroups, those that a tile's workgroup takes (its share of registers and shared "
        "memory); none, or more than there are: all, so that nothing else runs on the unit.", ge=1)] = None

    @property
    def flops(self) -> int:
        """FLOPs of the product."""
        return 2 * self.m * self.n * self.k


class Tiles(Struct, frozen=True):
    """A product in tiles. `rows`, `columns`: of tiles; `panel`: rows (columns) of a panel; `high`, `wide`: panels of a
    tile; `size`: requests of a panel; `stored`: of a tile of C; `step`: ps of the pipe per request of each panel."""

    gemm: Gemm
    rows: int
    columns: int
    panel: int
    size: int
    stored: int
    step: int

    @staticmethod
    def of(gemm: Gemm, gpu: Gpu) -> Tiles:
        """Tiles of a product on a GPU; panels and tiles of C are rounded up to whole requests."""
        line, element, panel = int(Bytes.of(gpu.request)), ELEMENT[gemm.precision], gcd(gemm.tile_m, gemm.tile_n)
        size = -(-panel * gemm.k * element // line)
        flops = 2 * gemm.tile_m * gemm.tile_n * gemm.k / size
        step = max(1, round(flops / (float(gemm.peak) * gemm.efficiency / gpu.units) * 1000))
        stored = -(-gemm.tile_m * gemm.tile_n * element // line)
        return Tiles(gemm, -(-gemm.m // gemm.tile_m), -(-gemm.n // gemm.tile_n), panel, size, stored, step)

    def panels(self, row: int, column: int) -> tuple[range, range]:
        """Panels of A and of B that a tile reads: at the edge, those that are there."""
        high, wide = self.gemm.tile_m // self.panel, self.gemm.tile_n // self.panel
        return (range(row * high, min((row + 1) * high, self.count_a)),
                range(column * wide, min((column + 1) * wide, self.count_b)))

    @property
    def count_a(self) -> int:
        """Panels of A."""
        return -(-self.gemm.m // self.panel)

    @property
    def count_b(self) -> int:
        """Panels of B."""
        return -(-self.gemm.n // self.panel)

    def order(self) -> Iterator[tuple[int, int]]:
        """(row, column) of tiles in their order of dispatch."""
        for first in range(0, self.rows, self.gemm.group):
            last = min(first + self.gemm.group, self.rows)
            yield from ((row, column) for column in range(self.columns) for row in range(first, last))

    @property
    def time(self) -> int:
        """Time of the matrix pipe for a tile, ps."""
        return self.size * self.step


def gemm_launch(gemm: Gemm, gpu: Gpu, gpus: int = 1, *, units: int | None = None) -> Launch:
    """The launch of a product on each of `gpus` GPUs, on the last `units` of their compute units (none: all).

    Raises UnsupportedError where the product has more tiles than a launch has workgroups, or a tile too many panels.
    """
    machine, tiles = gpu.machine(gpus), Tiles.of(gemm, gpu)
    _check_size(tiles)
    on = tuple(range(machine.computes))[-units if units else 0:]
    stream = Stream(gemm.wavefronts, gemm.unroll, on, min(gemm.places or machine.workgroups_per_unit,
                                                          machine.workgroups_per_unit), cluster=gemm.cluster)
    wave = len(on) * _at_once(machine, stream)
    groups = tuple(_workgroups(tiles, wave))
    if gemm.persistent:
        groups = tuple(Workgroup(tuple(op for group in groups[first::wave] for op in group.operations))
                       for first in range(min(wave, len(groups))))
    groups += (Workgroup(()),) * (-len(groups) % gemm.cluster)
    return Launch(machine, gpus, (groups,), (
        Buffer("A", tiles.count_a * tiles.size, hbm=True), Buffer("B", tiles.count_b * tiles.size, hbm=True),
        Buffer("A in L2", tiles.count_a * tiles.size), Buffer("B in L2", tiles.count_b * tiles.size),
        Buffer("C", tiles.rows * tiles.columns * tiles.stored, hbm=True)), (), (stream,))


def _check_size(tiles: Tiles) -> None:
    count, panels = tiles.rows * tiles.columns, sum(map(len, tiles.panels(0, 0)))
    if count > MOST["workgroups"]:
        raise UnsupportedError("gemm", f"{count:,} output tiles", expected=f"at most {MOST['workgroups']:,}: a smaller "
                               "product, or larger tiles (tile_m, tile_n)")
    if panels > MOST_PANELS:
        raise UnsupportedError("gemm", f"{panels:,} panels of {tiles.panel} rows in a tile", expected=f"at most "
                               f"{MOST_PANELS:,}: tile_m and tile_n with a larger common divisor, or smaller tiles")


def _at_once(machine: Machine, stream: Stream) -> int:
    """Workgroups that a unit runs at once."""
    return max(1, min(machine.workgroups_per_unit // stream.places, machine.wavefronts_per_unit // stream.wavefronts))


def _workgroups(tiles: Tiles, wave: int) -> Iterator[Workgroup]:
    """One per tile, in waves."""
    read = set[tuple[int, int]]()
    for number, (row, column) in enumerate(tiles.order()):
        if number % wave == 0:
            read.clear()
        sources = []
        for buffer, panels in zip((A, B), tiles.panels(row, column), strict=True):
            for panel in panels:
                where = buffer + A_IN_L2 if (buffer, panel) in read else buffer
                read.add((buffer, panel))
                sources.append(Place(where, panel * tiles.size))
        yield Workgroup((
            Operation(OpKind.MULTIPLY, tiles.size, tuple(sources), time=tiles.step), Operation(OpKind.BARRIER),
            Operation(OpKind.STORE, tiles.stored, (), (Place(C, (row * tiles.columns + column) * tiles.stored),))))
