"""What the kit measures: kernels and constants, the most valuable first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["COLUMNS", "Case", "cpu_cases", "gpu_cases"]

SEED = 38
HEAVY = 2e13        # flops beyond which a shape is not drawn: 30 ms of an H100
LAYERS = ((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (8192, 8192), (1024, 8192), (8192, 28672),
          (2048, 2048), (16384, 2048), (2048, 8192), (5120, 5120), (128256, 4096), (32000, 2048))
"""(outputs, inputs) of layers that people train and serve."""


class Case(NamedTuple):
    """One row: a kernel, or a constant of the host (`kind` launch or host). Columns as `calibrate` reads them; a size
    that a kind does not have is 0."""

    kind: str
    op: str = ""
    layout: str = ""
    precision: str = "bf16"
    m: int = 0
    n: int = 0
    k: int = 0
    groups: int = 0
    batch: int = 0
    heads: int = 0
    kv_heads: int = 0
    queries: int = 0
    keys: int = 0
    head_length: int = 0
    causal: int = 0
    elements: int = 0
    bytes: int = 0
    vocab: int = 0

    @property
    def cells(self) -> tuple[str, ...]:
        """The row's cells, sizes that are 0 left empty."""
        attends = self.kind.startswith("attention")
        return tuple(str(value) if value or (attends and name == "causal") else ""
                     for name, value in zip(self._fields, self))

    @property
    def key(self) -> str:
        """What names the case in a file of rows; which backend attention takes is known only once it ran."""
        case = self._replace(layout="") if self.kind.startswith("attention") else self
        return ",".join(case.cells)


COLUMNS = (*Case._fields, "us", "clock", "watt")
"""Of a file of rows."""


def gpu_cases(fp8: bool) -> list[Case]:
    """The kit of a GPU. `fp8`: its products have the format."""
    draw = np.random.default_rng(SEED)
    first = [Case("launch", "graph"), Case("launch", "stream"), Case("host", "eager"),
             *(Case("gemm", "sustained", "NT", m=m, n=n, k=k) for m, n, k in (
                 (8192, 8192, 8192), (4096, 4096, 14336), (1024, 1024, 1024)))]
    groups: list[Sequence[Case]] = [
        _products(draw, "NT", 300), _products(draw, "dgrad", 100), _products(draw, "wgrad", 100),
        _attention(draw, "attention", 40), _attention(draw, "attention_backward", 30), _decode(draw, 40),
        _grouped(draw, 50), list(_streams())]
    if fp8:
        groups += [_products(draw, "NT", 60, "tensor"), _products(draw, "NT", 30, "row")]
    return [*first, *_interleaved(groups)]


def cpu_cases() -> list[Case]:
    """A kit that a CPU measures in seconds: it shows how the kit works, more than what a CPU takes."""
    products = [Case("gemm", "", layout, m=m, n=n, k=k) for layout in ("NT", "dgrad", "wgrad")
                for m, n, k in ((16, 64, 64), (64, 128, 64), (128, 128, 128), (64, 256, 128), (128, 64, 256))]
    attention = [Case(kind, batch=1, heads=4, kv_heads=kv, queries=size, keys=size, head_length=32, causal=1)
                 for kind in ("attention", "attention_backward") for kv in (4, 2) for size in (32, 64, 128)]
    decode = [Case("attention", "decode", batch=2, heads=4, kv_heads=4, queries=1, keys=keys, head_length=32)
              for keys in (32, 64, 128, 256, 512)]
    streams = [_stream(op, m, 64) for op in ("add", "rms_norm", "rms_norm_backward") for m in (64, 128, 256, 512, 1024)]
    return _interleaved([products, attention, decode, streams])


def _interleaved(groups: Iterable[Sequence[Case]]) -> list[Case]:
    """All groups at the same pace, so that every part of the list has its share of each."""
    placed = [((place + 0.5) / len(group), number, case) for number, group in enumerate(groups)
              for place, case in enumerate(group)]
    return list(dict.fromkeys(case for _, _, case in sorted(placed, key=lambda each: each[:2])))


def _size(draw: np.random.Generator, low: int, high: int, step: int) -> int:
    """A multiple of `step`, evenly by octaves."""
    return max(1, round(2 ** draw.uniform(np.log2(low), np.log2(high)) / step)) * step


def _products(draw: np.random.Generator, layout: str, count: int, op: str = "") -> list[Case]:
    """Products of common layers, and of drawn sizes; a third of the forward ones has few rows."""
    found = list[Case]()
    precision, step = ("fp8", 16) if op else ("bf16", 1)
    while len(found) < count:
        few = layout == "NT" and len(found) % 3 == 2
        tokens = _size(draw, step, 64, step) if few else _size(draw, 64, 20480, 64)
        outputs, inputs = (LAYERS[draw.integers(len(LAYERS))] if len(found) % 2 else
                           (_size(draw, 320, 32768, 64), _size(draw, 320, 32768, 64)))
        if 2.0 * tokens * outputs * inputs <= HEAVY:
            m, n, k = {"NT": (tokens, outputs, inputs), "dgrad": (tokens, inputs, outputs),
                       "wgrad": (outputs, inputs, tokens)}[layout]
            found.append(Case("gemm", op, layout, precision, m=m, n=n, k=k))
    return found


def _grouped(draw: np.random.Generator, count: int) -> list[Case]:
    found = list[Case]()
    while len(found) < count:
        groups = int(draw.choice([4, 8, 16, 32, 64, 128]))
        case = Case("grouped_gemm", "", "NT", m=groups * _size(draw, 8, 2048, 8), n=_size(draw, 512, 14336, 64),
                    k=_size(draw, 512, 8192, 64), groups=groups)
        if 2.0 * case.m * case.n * case.k <= HEAVY and case.groups * case.n * case.k <= 2e9:
            found.append(case)
    return found


def _attention(draw: np.random.Generator, kind: str, count: int) -> list[Case]:
    found = list[Case]()
    while len(found) < count:
        heads, size = int(draw.choice([8, 16, 32, 64])), int(draw.choice([64, 128, 128, 128, 256]))
        batch, length = int(draw.choice([1, 2, 4, 8])), _size(draw, 256, 16384, 256)
        case = Case(kind, batch=batch, heads=heads, kv_heads=heads // int(draw.choice([1, 4, 8])), queries=length,
                    keys=length, head_length=size, causal=int(draw.random() < 0.8))
        if 4.0 * batch * heads * length**2 * size <= HEAVY / 4:
            found.append(case)
    return found


def _decode(draw: np.random.Generator, count: int) -> list[Case]:
    found = list[Case]()
    while len(found) < count:
        kv, batch, keys = int(draw.choice([1, 2, 4, 8, 16])), _size(draw, 1, 256, 1), _size(draw, 256, 32768, 1)
        case = Case("attention", "decode", batch=batch, heads=kv * int(draw.choice([1, 4, 8])), kv_heads=kv, queries=1,
                    keys=keys, head_length=int(draw.choice([64, 128, 128])))
        if 4.0 * batch * kv * keys * case.head_length <= 4e9:
            found.append(case)
    return found


MOVED = {"add": 6, "mul": 6, "cat": 4, "gelu": 4, "gelu_backward": 6, "silu": 4, "silu_backward": 6, "layer_norm": 4,
         "layer_norm_backward": 6, "rms_norm": 4, "rms_norm_backward": 6, "sum_rows": 2, "to_fp32": 6, "to_bf16": 6,
         "to_fp8": 3, "transpose_copy": 4}
"""Operator on rows x columns in bf16 -> bytes an element that it must move."""
OF_LOGITS = {"cross_entropy": 8, "cross_entropy_backward": 8, "logits_to_fp32": 6}
"""Operator on tokens x vocabulary -> bytes an element that it must move."""


def _stream(op: str, rows: int, columns: int) -> Case:
    return Case("stream", op, m=rows, n=columns, elements=rows * columns, bytes=MOVED[op] * rows * columns)


def _streams() -> Iterator[Case]:
    """Every operator in seven sizes (with a vocabulary: five), size by size."""
    sizes = ((4096, 4096), (1024, 1024), (16384, 4096), (2048, 2048), (16384, 8192), (8192, 2048), (8192, 8192))
    logits = ((4096, 128256), (1024, 32000), (8192, 32000), (2048, 50304), (8192, 128256))
    for size in sizes:
        yield from (_stream(op, *size) for op in MOVED)
    for tokens, vocab in logits:
        for op, moved in OF_LOGITS.items():
            yield Case("stream", op, precision="bf16" if op == "logits_to_fp32" else "fp32", m=tokens, vocab=vocab,
                       elements=tokens * vocab, bytes=moved * tokens * vocab)
        columns = 4096 if vocab > 2**17 else 2048
        yield Case("stream", "embedding", m=tokens, n=columns, vocab=vocab, elements=tokens * columns,
                   bytes=4 * tokens * columns)
        yield Case("stream", "embedding_backward", m=tokens, n=columns, vocab=vocab, elements=vocab * columns,
                   bytes=2 * (vocab + tokens) * columns)
    for elements in (2**24, 2**22, 2**26, 2**28, 2**20):
        yield Case("stream", "adamw_fused", elements=elements, bytes=14 * elements)
