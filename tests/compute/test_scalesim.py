"""Systolic arrays against SCALE-Sim 3.0.0.

`scalesim_3_0_0.csv` holds what its reports say of random products: 150 with a memory that never stalls, then 106 with a
bandwidth of its own for each operand (`tools/scalesim_rows.py` has the configuration and draws both). Its words are
bytes of every operand alike, each tile writes its own partial sums, and half of a buffer, of 100 equal sets, is in use.
"""

from __future__ import annotations

import csv
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from astrarium.compute.arrays import Arrays, Dataflow, Words, accesses, cycles, traffic

WORDS = Words(1.0, 1.0, 1.0)
FLOWS: dict[str, Dataflow] = {"os": "output_stationary", "ws": "weight_stationary", "is": "input_stationary"}


class Row(NamedTuple):
    """A row's numbers, the arrays that it describes, and its product."""

    given: dict[str, float]
    arrays: Arrays
    m: int
    n: int
    k: int

    @property
    def half(self) -> float:
        """Words of half a buffer, in whole sets."""
        return 50.0 * (int(self.given["buffer_kib"]) * 1024 // 100)


def _rows() -> list[Row]:
    found = []
    with Path(__file__).with_name("scalesim_3_0_0.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            flow = FLOWS[row.pop("dataflow")]
            given = {name: float(value) for name, value in row.items()}
            m, n, k = (int(given[each]) for each in "mnk")
            half = 50.0 * (int(given["buffer_kib"]) * 1024 // 100)
            # An operand of exactly half a buffer is thrown out once it is complete, hence one word less.
            size = 2 * half - 1
            arrays = Arrays(int(given["rows"]), int(given["columns"]), 1, flow, size, size, size, kept=False)
            found.append(Row(given, arrays, m, n, k))
    return found


ROWS = _rows()
FREE = [row for row in ROWS if not row.given["bandwidth"]]
LIMITED = [row for row in ROWS if row.given["bandwidth"]]


def test_there_are_a_hundred_of_each_on_several_arrays_and_all_dataflows() -> None:
    assert min(len(FREE), len(LIMITED)) >= 100
    assert len({(row.arrays.rows, row.arrays.columns) for row in FREE}) >= 8
    assert {row.arrays.dataflow for row in FREE} == set(FLOWS.values())
    assert all(row.given["stall_cycles"] == 0 for row in FREE)


def test_cycles_without_stalls_are_equal() -> None:
    for row in FREE:
        assert cycles(row.arrays, row.m, row.n, row.k)[0] - 1 == row.given["last_cycle"]    # it counts from 0


def test_accesses_to_the_buffers_are_equal() -> None:
    """Reads are. Of writes an output-stationary array of SCALE-Sim has R + C more for each tile, beside its R * C."""
    for row in ROWS:
        ours, out = accesses(row.arrays, row.m, row.n, row.k), row.arrays.dataflow == "output_stationary"
        tiles = ceil(row.m / row.arrays.rows) * ceil(row.n / row.arrays.columns) if out else 0
        assert ours.ifmap[0] == row.given["sram_ifmap_reads"]
        assert ours.filter[0] == row.given["sram_filter_reads"]
        assert ours.ofmap_writes[0] + tiles * (row.arrays.rows + row.arrays.columns) == row.given["sram_ofmap_writes"]


def test_memory_traffic_is_equal_but_for_whole_lines_and_panels_that_straddle_a_flush() -> None:
    """SCALE-Sim writes whole lines of C words. It empties a read buffer whenever half of it is full, in the middle of a
    filter panel that is read again, so that panels which fit are partly read twice."""
    panels = []
    for row in FREE:
        ours = traffic(row.arrays, row.m, row.n, row.k, WORDS)
        assert ours.ifmap[0] == row.given["dram_ifmap_reads"]
        assert 0 <= row.given["dram_ofmap_writes"] - ours.ofmap_writes[0] < row.arrays.columns
        if row.arrays.dataflow == "output_stationary":
            assert _read_until_full(row) == row.given["dram_filter_reads"]
            panels.append(ours.filter[0] / row.given["dram_filter_reads"] - 1)
        else:
            assert ours.filter[0] == row.given["dram_filter_reads"]
    errors = np.abs(panels)
    assert np.sum(errors > 0) == 6
    assert np.percentile(errors, 90) < 0.02


def _read_until_full(row: Row) -> int:
    """Words of the filter that an output-stationary array reads where the buffer is emptied whenever half of it is
    full: where that comes in the middle of a panel, the next pass reads again what came before."""
    size, passes, total, held = int(row.half), ceil(row.m / row.arrays.rows), 0, 0
    for column in range(0, row.n, row.arrays.columns):
        panel = row.k * min(row.arrays.columns, row.n - column)
        if panel >= size:
            total, held = total + passes * panel, (held + passes * panel) % size
        elif held + panel < size:
            total, held = total + panel, held + panel
        else:
            again = size - held if passes > 1 else 0
            total, held = total + panel + again, held + panel - size + again
    return total


def bound(row: Row, ifmap: float, filters: float) -> float:
    """Cycles that a channel of its own for each operand allows, where half a buffer was full before cycle 0."""
    late = max(ifmap - min(ifmap, row.half), filters - min(filters, row.half))
    return max(float(cycles(row.arrays, row.m, row.n, row.k)[0]), late / row.given["bandwidth"])


def test_with_a_limited_bandwidth_the_difference_is_what_scalesim_reads_again() -> None:
    """A miss in its USER mode moves the buffer forward through the whole matrix until the word comes round again, so it
    reads up to 53 times what the loops need. With its own reads the bound of traffic is near; with what the loops need
    it is below in most rows that stall (docs/background/systolic.md has the table)."""
    needed, own, stalled = [], [], []
    for row in LIMITED:
        ours, taken = traffic(row.arrays, row.m, row.n, row.k, WORDS), row.given["last_cycle"] + 1
        assert taken >= cycles(row.arrays, row.m, row.n, row.k)[0]
        needed.append(bound(row, float(ours.ifmap[0]), float(ours.filter[0])) / taken - 1)
        own.append(bound(row, row.given["dram_ifmap_reads"], row.given["dram_filter_reads"]) / taken - 1)
        stalled.append(row.given["stall_cycles"] > 0)
    errors, explained = np.abs(np.array(needed)), np.abs(np.array(own))
    assert np.median(errors) == np.median(explained) == 0
    assert np.percentile(explained, 90) < 0.25 < np.percentile(errors, 90)
    assert np.array(needed)[stalled].max() < 0.25
