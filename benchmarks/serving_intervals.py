"""Print catalog/serving_intervals.toml from rows of the judging half that `serving_rows.py --half odd --csv` predicted.

usage: serving_intervals.py FILES

FILES: CSV files, joined by commas. Aggregated rows count, without models that hide multi-token prediction. A stack with
fewer than ten cells (model, system) takes those of all stacks.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator

from _serving_errors import OWN, of_cells

from astrarium.validate.serving.deployment import numbers_of
from astrarium.validate.serving.silicon import AHEAD, HIDES_MTP, MODELS, STACKS

HEAD = """\
# Measured over predicted TPOT of serving stacks: 80 % of the judging rows lay between low and high; their cells (model,
# system) weigh the same (benchmarks/serving_intervals.py). devices: of the stack's rows. A stack with fewer than ten
# cells has the interval of all stacks (borrowed). models: of the catalog, those of the stack's rows."""
Cells = dict[tuple[str, str], list[float]]


def ratios(paths: str) -> Iterator[tuple[str, str, str, float]]:
    """(stack, model, system, measured over predicted TPOT) of each row."""
    for path in paths.split(","):
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                model, stack, version = row["model_path"], STACKS[row["backend"]], row["backend_version"]
                if not row["tpot_made"] or row["mode"] != "agg" or any(word in model for word in HIDES_MTP):
                    continue
                if stack == "vllm" and version[:1].isdigit() and numbers_of(version) < AHEAD:
                    stack = "vllm-sync"
                yield stack, model, row["system"], float(row["tpot_real"]) / float(row["tpot_made"])


def main() -> None:
    """Read and print."""
    stacks: dict[str, Cells] = {}
    for stack, model, system, ratio in ratios(sys.argv[1]):
        stacks.setdefault(stack, {}).setdefault((model, system), []).append(ratio)
    every = [some for cells in stacks.values() for some in cells.values()]
    print(HEAD)
    for stack, cells in sorted(stacks.items()):
        borrowed = len(cells) <= OWN
        low, high = of_cells(every if borrowed else list(cells.values()))
        devices, models = (", ".join(f'"{name}"' for name in sorted(names)) for names in (
            {system for _, system in cells}, {MODELS[model] for model, _ in cells}))
        print(f"\n[{stack}]\nrows = {sum(map(len, cells.values()))}\ncells = {len(cells)}\nlow = {low:.4f}\n"
              f"high = {high:.4f}\nborrowed = {str(borrowed).lower()}\ndevices = [{devices}]\nmodels = [{models}]")


if __name__ == "__main__":
    main()
