"""Disaggregated memory: ZeRO-Infinity against a hierarchical pool, as in ASTRA-sim 2.0's section V-B, reconstructed.

`python study.py` prints the three systems and, per assumption, what changes with it; `python study.py short` only the
systems. All values are in parameters.yaml.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import astrarium as ar
from astrarium import decode
from astrarium.config import parse_yaml
from astrarium.result import Result

HERE = Path(__file__).parent
ZERO, BASE, BEST = "ZeRO-Infinity", "HierMem", "HierMem optimised"


def parameters() -> Mapping[str, Any]:
    """What parameters.yaml says."""
    return parse_yaml((HERE / "parameters.yaml").read_text(encoding="utf-8"), "parameters.yaml").data


def system(found: Mapping[str, Any], name: str, changes: Mapping[str, Mapping[str, object]]) -> Result:
    """A run of a system under changes: of `all`, and of its own."""
    design = ar.replace_all(decode(ar.Design, found["design"]), found["systems"][name])
    for part in ("all", name):
        if part in changes:
            design = ar.replace_all(design, changes[part])
    return ar.simulate(design)


def exposed(result: Result) -> dict[str, float]:
    """ms of the rank that ends last: compute, and what it waited for."""
    parts = result.summary()
    return {name: parts[f"{name}_ns"] / 1e6 for name in ("makespan", "compute", "exposed_memory", "exposed_comm")}


def ratios(found: Mapping[str, Any], changes: Mapping[str, Mapping[str, object]]) -> tuple[float, float]:
    """Exposed time of HierMem over that of ZeRO-Infinity, and over that of the optimised HierMem."""
    waits = {}
    for name in (ZERO, BASE, BEST):
        parts = exposed(system(found, name, changes))
        waits[name] = parts["makespan"] - parts["compute"]
    return waits[BASE] / waits[ZERO], waits[BASE] / waits[BEST]


def main() -> None:
    found = parameters()
    print(f"{'ms':<34}{'iteration':>10}{'compute':>10}{'memory':>10}{'network':>10}{'exposed':>10}")
    for name in (ZERO, BASE, BEST):
        parts = exposed(system(found, name, {}))
        row = "".join(f"{value:>10.1f}" for value in parts.values())
        print(f"{name:<34}{row}{parts['makespan'] - parts['compute']:>10.1f}")
    print(f"\n{'exposed times':<34}{'HierMem / ZeRO-Infinity':>24}{'HierMem / optimised':>22}")
    print(f"{'published [R]':<34}{'1.001':>24}{'up to 4.6':>22}")
    more = {} if sys.argv[1:] == ["short"] else found["sensitivity"]
    for name, changes in {"this reconstruction": {}, **more}.items():
        near, faster = ratios(found, changes)
        print(f"{name:<34}{near:>24.3f}{faster:>22.2f}")


if __name__ == "__main__":
    main()
