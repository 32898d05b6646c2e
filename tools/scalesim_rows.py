"""Rows of SCALE-Sim 3.0.0 for tests/compute/scalesim_3_0_0.csv: random products on random arrays, one by one.

    python -m venv VENV && VENV/bin/pip install scalesim==3.0.0 'numpy<2'
    VENV/bin/python tools/scalesim_rows.py --rows 150 --seed 16 > free.csv
    VENV/bin/python tools/scalesim_rows.py --rows 106 --seed 17 --limited > limited.csv

`bandwidth` 0: InterfaceBandwidth CALC, SCALE-Sim's estimate, which never stalls; else USER, so many words a cycle for
each of the three operands. Buffers of equal size, words of one byte. It needs nothing of Astrarium.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import math
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ARRAYS = ((8, 8), (16, 8), (8, 32), (32, 16), (32, 32), (12, 20), (64, 16), (1, 24), (24, 1))
BUFFERS_KIB, BANDWIDTHS = (1, 2, 4, 8, 16, 64), (1, 2, 4, 8, 16, 32, 64)
COLUMNS = ("rows", "columns", "dataflow", "m", "n", "k", "buffer_kib", "bandwidth", "cycles_with_prefetch",
           "last_cycle", "stall_cycles", "utilisation", "sram_ifmap_reads", "sram_filter_reads", "sram_ofmap_writes",
           "dram_ifmap_reads", "dram_filter_reads", "dram_ofmap_writes", "cpu_s")
LARGEST = 3_000_000     # cycles times edge of the array: some seconds of SCALE-Sim


def cases(seed: int, count: int, limited: bool) -> list[tuple[Any, ...]]:
    """The first eight columns of each row."""
    draw, found = random.Random(seed), list[tuple[Any, ...]]()
    while len(found) < count:
        rows, columns = draw.choice(ARRAYS)
        flow = ("os", "ws", "is")[len(found) % 3]
        m, n, k = (round(2 ** draw.uniform(2, 8.2)) for _ in range(3))
        sr, sc, t = {"os": (m, n, k), "ws": (k, n, m), "is": (k, m, n)}[flow]
        tiles = math.ceil(sr / rows) * math.ceil(sc / columns)
        if tiles * (2 * rows + columns + t) * (rows + columns) <= LARGEST:
            buffer, bandwidth = draw.choice(BUFFERS_KIB), draw.choice(BANDWIDTHS) if limited else 0
            found.append((rows, columns, flow, m, n, k, buffer, bandwidth))
    return found


def settings(case: tuple[Any, ...]) -> dict[str, dict[str, object]]:
    """SCALE-Sim's configuration file."""
    rows, columns, flow, _, _, _, buffer, bandwidth = case
    words = bandwidth or 10
    return {
        "general": {"run_name": "row"},
        "architecture_presets": {
            "ArrayHeight": rows, "ArrayWidth": columns, "IfmapSramSzkB": buffer, "FilterSramSzkB": buffer,
            "OfmapSramSzkB": buffer, "IfmapOffset": 0, "FilterOffset": 10_000_000, "OfmapOffset": 20_000_000,
            "Bandwidth": words, "Dataflow": flow, "ReadRequestBuffer": 32, "WriteRequestBuffer": 32},
        "layout": {
            "IfmapCustomLayout": False, "FilterCustomLayout": False, "IfmapSRAMBankBandwidth": words,
            "IfmapSRAMBankNum": 1, "IfmapSRAMBankPort": 1, "FilterSRAMBankBandwidth": words, "FilterSRAMBankNum": 1,
            "FilterSRAMBankPort": 1},
        "sparsity": {"SparsitySupport": False},
        "run_presets": {"InterfaceBandwidth": "USER" if bandwidth else "CALC", "UseRamulatorTrace": False},
    }


def run(case: tuple[Any, ...], folder: Path) -> list[object]:
    """A whole row: what SCALE-Sim's reports say of one product."""
    part = lambda name: importlib.import_module(f"scalesim.{name}")     # noqa: E731
    text = "".join(f"[{name}]\n" + "".join(f"{key}: {value}\n" for key, value in keys.items())
                   for name, keys in settings(case).items())
    (folder / "row.cfg").write_text(text)
    (folder / "row.csv").write_text("Layer,M,N,K,\nrow,{},{},{},\n".format(*case[3:6]))
    config, topology = part("scale_config").scale_config(), part("topology_utils").topologies()
    config.read_conf_file(str(folder / "row.cfg"))
    topology.load_arrays(str(folder / "row.csv"), mnk_inputs=True)
    layer, start = part("single_layer_sim").single_layer_sim(), time.process_time()
    layer.set_params(layer_id=0, config_obj=config, topology_obj=topology,
                     layout_obj=part("layout_utils").layouts(), verbose=False)
    layer.run()
    compute, detail = layer.get_compute_report_items(), layer.get_detail_report_items()
    seconds = time.process_time() - start
    return [*case, *compute[:3], round(compute[3], 4), *detail[2::3], round(seconds, 3)]


def main() -> None:
    """Writes rows to standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--limited", action="store_true", help="with a bandwidth of its own for each operand")
    options = parser.parse_args()
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(options.seed, options.rows, options.limited):
            writer.writerow(run(case, Path(folder)))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
