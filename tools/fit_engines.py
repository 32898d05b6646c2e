#!/usr/bin/env python3
"""Write `catalog/engine_collectives.toml`: `tools/fit_engines.py TABLES > engine_collectives.toml`.

TABLES: the folder `systems/data` of aiconfigurator-core 0.12.0. A table counts for an engine if its own column says so:
copies in the folder of another engine or version, of which there are six, are left out. Of rows of one size the least
counts. Rows of CUDA graphs are taken (TensorRT-LLM has no others), of GB300's two kernels over several trays the
faster.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from collective_fabrics import HOSTS  # noqa: E402
from engine_all_reduces import curve  # noqa: E402

OWN = {"sglang": (8 << 20, 16 << 20)}
"""Bytes up to which, these included, an engine may use its own kernel: SGLang's limits. vLLM's exclude the limit
(CUSTOM_ALL_REDUCE_MAX_SIZES in vllm/distributed/device_communicators/all_reduce_utils.py), and so do the limits of
one-shot in both (csrc/custom_all_reduce.cuh)."""
LARGER = {"gb200_nvl72": "gb300_nvl72"}
"""The fabric whose rows stand for groups larger than the fabric's own."""
FUSED = {"h100_sxm": {2: 64, 4: 2, 8: 0.5}, "h200_sxm": {2: 64, 4: 2, 8: 0.5}, "b200_sxm": {2: 64, 4: 32, 8: 1},
         "gb200": {2: 64, 4: 32, 8: 1}, "b300_sxm": {2: 64, 4: 64, 8: 2}, "gb300": {2: 64, 4: 64, 8: 2}}
"""MiB up to which vLLM fuses an all_reduce with the norm (FI_ALLREDUCE_FUSION_MAX_SIZE_MB of 90, 100 and 103 in
vllm/compilation/passes/fusion/allreduce_rms_fusion.py)."""
NAMES = {"trtllm": "TRTLLM", "vllm": "vLLM", "sglang": "SGLang"}
Curves = dict[int, list[tuple[float, float]]]


def tables(where: Path, device: str) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """(engine, version, rows in CUDA graphs) of the genuine tables of a device, oldest versions first."""
    found = sorted((where / device / "comm").glob("*/*/custom_allreduce_perf.parquet"),
                   key=lambda path: (path.parts[-3], numbers(path.parts[-2])))
    for path in found:
        engine, version = path.parts[-3:-1]
        rows = [row for row in pq.read_table(path).to_pylist() if not row["kernel_source"].endswith("_eager")]
        own = [row for row in rows if row["kernel_source"].startswith(NAMES[engine]) and
               (row["version"] == version or re.match(r"\d.*(dev|\+)", row["version"]))]
        if own:
            yield engine, version, own


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, for its order."""
    return tuple(map(int, re.findall(r"\d+", version)))


def measured(rows: Sequence[dict[str, Any]], ranks: int) -> dict[float, float]:
    """Bytes -> ns."""
    found: dict[float, float] = {}
    for row in rows:
        if row["num_gpus"] == ranks:
            size = 2.0 * row["message_size"]
            found[size] = min(found.get(size, np.inf), row["latency"] * 1e6)
    return found


def curves(engine: str, rows: Sequence[dict[str, Any]]) -> tuple[Curves, list[float]]:
    """The points of each number of GPUs, and the relative errors of interpolation at the rows."""
    found, errors = Curves(), list[float]()
    for ranks in sorted({row["num_gpus"] for row in rows}):
        points = measured(rows, ranks)
        found[ranks] = curve(points, OWN.get(engine, ()))
        at, ns = np.log(np.array(found[ranks])).T
        errors += [float(abs(np.exp(np.interp(np.log(size), at, ns)) / time - 1)) for size, time in points.items()]
    return found, errors


def said(errors: Sequence[float]) -> str:
    """Errors in a sentence."""
    middle, high = np.percentile(np.array(errors) * 100, [50, 90])
    return f"median {middle:.1f} %, p90 {high:.1f} % of {len(errors)} rows"


def main(arguments: Sequence[str]) -> None:
    """Write the file to stdout."""
    where, every = Path(arguments[0]), list[float]()
    parts = []
    elsewhere = {(fabric.folder.split("/")[0], table) for fabric in HOSTS for table in fabric.engines}
    for fabric in HOSTS:
        device = fabric.folder.split("/")[0]
        for engine, version, rows in tables(where, device) if device else ():
            table = f"{engine}/{version}"
            if table not in fabric.engines if fabric.engines else (device, table) in elsewhere:
                continue
            found, errors = curves(engine, rows)
            every += errors
            lines = [f'{ranks} = "{", ".join(f"{size:.0f} {ns:.0f}" for size, ns in points)}"\n'
                     for ranks, points in found.items()]
            parts.append(f'\n[{fabric.name}.{engine}."{version}"]     # {said(errors)}\n' + "".join(lines))
        if fabric.name in LARGER:
            parts.append(f'\n[{fabric.name}]\nlarger = "{LARGER[fabric.name]}"\n')
        if device in FUSED:
            limits = "".join(f"{ranks} = {most}\n" for ranks, most in FUSED[device].items())
            parts.append(f"\n[{fabric.name}.fused]\n{limits}")
    sys.stdout.write(HEAD.format(said(every)) + "".join(parts))


HEAD = """\
# All_reduces of serving engines in CUDA graphs, by fabric, engine, version and number of GPUs, as points (bytes ns):
# between two the logarithm of the time goes linearly with that of the bytes. A row is what the engine's communicator
# takes, whichever kernel it chooses (its own one-shot or two-shot, symmetric memory, NCCL): two points one byte apart
# are a change of kernel. Written by tools/fit_engines.py from NVIDIA aiconfigurator-core 0.12.0 (Apache-2.0, 2026),
# systems/data/DEVICE/comm/ENGINE/VERSION/custom_allreduce_perf.parquet, bfloat16,
# https://pypi.org/project/aiconfigurator-core/0.12.0/. larger: whose rows stand for larger groups. fused: MiB up to
# which vLLM fuses an all_reduce with the norm behind it, by number of GPUs (allreduce_rms_fusion.py of
# https://github.com/vllm-project/vllm). Comments: how far the points are off their rows; of all
# {}.
"""


if __name__ == "__main__":
    main(sys.argv[1:])
