"""Measured kernels of PyTorch (a CSV as tools/fit_torch.py takes it) beside `framework: torch`: errors of each group.

    python benchmarks/pytorch_kernels.py kernels.csv [DEVICE]

Products count from 64 tokens on (rows of a forward product, inner length of a weight's gradient).
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

from astrarium.compute import kernels
from astrarium.vocab import Kernel

FEW = 64
Row = dict[str, str]


def number(row: Row, name: str) -> int:
    """A column, an empty cell as 0."""
    return int(float(row[name] or 0))


def product(row: Row) -> tuple[str, str, Kernel] | None:
    """(group, framework, kernel); the result of a weight's gradient is stated with its outputs first."""
    m, n, k, groups = (number(row, name) for name in ("m", "n", "k", "groups"))
    if row["kind"] == "grouped_gemm":
        return "grouped", "torch", Kernel("grouped_gemm", "bf16", (groups, m, n, k), 1.0, 2.0 * m * n * k, 0)
    op = "" if row["layout"] == "NT" else row["layout"]
    if (k if op == "wgrad" else m) < FEW:
        return None
    shape = (1, n, m, k) if op == "wgrad" else (1, m, n, k)
    found = Kernel("gemm", row["precision"], shape, 1.0, 2.0 * m * n * k, 0, op=op)
    if row["op"] in ("short", "sustained"):
        return f"products, {row['op']}", "torch", found
    return f"products {row['precision']} {row['layout']}", "torch/2.11/row" if row["op"] == "row" else "torch", found


def attention(row: Row) -> tuple[str, str, Kernel]:
    """(group, framework, kernel)."""
    batch, heads, kv_heads, queries, keys, size = (number(row, name) for name in (
        "batch", "heads", "kv_heads", "queries", "keys", "head_length"))
    queries = 1 if row["op"] == "decode" else queries
    work = (queries + 1) / (2 * queries) if number(row, "causal") else 1.0
    flops = 4.0 * batch * heads * queries * keys * size * work * (2.5 if row["kind"] == "attention_backward" else 1.0)
    kernel = Kernel(row["kind"], "bf16", (batch, heads, kv_heads, queries, keys, size, size), work, flops, 0)
    return f"{row['kind']} {row['op']} {row['layout']}".replace("  ", " "), f"torch/2.11/{row['layout']}", kernel


def kernel_of(row: Row) -> tuple[str, str, Kernel] | None:
    """(group, framework, kernel) of a row; None: it does not count."""
    if row["kind"] == "stream":
        return "streams", "torch", Kernel("pointwise", "bf16", (), 1.0, 0.0, number(row, "bytes"), op=row["op"])
    return attention(row) if row["kind"].startswith("attention") else product(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    parser.add_argument("device", nargs="?", default="h100_sxm")
    given = parser.parse_args()
    groups, asked = defaultdict[str, list[float]](list), defaultdict[str, list[tuple[str, Kernel, float]]](list)
    with Path(given.rows).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found = kernel_of(row)
            if found is not None:
                group, framework, kernel = found
                asked[framework].append((group, kernel, float(row["us"])))
    for framework, rows in asked.items():
        ns = kernels.latency_ns(kernels.load(given.device), [kernel for _, kernel, _ in rows], framework)
        for (group, _, us), each in zip(rows, ns, strict=True):
            groups[group].append(each / 1e3 / us - 1)
    for group, errors in sorted(groups.items()):
        median, p90 = np.percentile(np.abs(errors) * 100, [50, 90])
        print(f"{group:32} {len(errors):5} rows  {median:5.1f} / {p90:5.1f} %  bias {np.median(errors) * 100:+.1f} %")


if __name__ == "__main__":
    main()
