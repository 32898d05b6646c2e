"""A small book of parameters: a model of two layers on eight nodes."""

from __future__ import annotations

from pathlib import Path

from comet import Book, load_book

TEXT = """
sources: {sheet: "a sheet, https://example.org"}
cases:
  small:
    title: Small
    nodes: {value: 8, mark: A, source: few}
    splits: {value: [8, 4, 2, 1], mark: A, source: all}
    baseline: {value: 4, mark: A, source: one of them}
    axes: {model: tp, data: dp}
    workload:
      source: transformer
      model:
        family: decoder
        layers: {value: 2, mark: A, source: few}
        d_model: {value: 1024, mark: A, source: small}
        heads: {value: 8, mark: A, source: small}
        ffn: {value: 4096, mark: A, source: small}
        vocab: {value: 512, mark: A, source: small}
        seq: {value: 256, mark: A, source: short}
      global_batch: {value: 64, mark: A, source: small}
      zero: {value: 2, mark: A, source: as COMET}
    footprint:
      set: {micro_batch: {value: 1, mark: A, source: small}, recompute: {value: full, mark: A, source: small}}
      parts: {value: [weights, gradients, states, activations, working], mark: A, source: all}
    update: {value: true, mark: A, source: counts}
collective:
  choice: {value: none, mark: A, source: plain}
  chunks: {value: 2, mark: A, source: few}
clusters:
  A0:
    title: first
    peak: {value: 100 TFLOP/s, mark: R, source: "sheet: table 1"}
    buffer: {value: 1 MB, mark: R, source: sheet}
    capacity: {value: 120 MB, mark: A, source: small}
    bandwidth: {value: 1000 GB/s, mark: R, source: sheet}
    dims:
      - shape: switch
        npus: {value: 4, mark: A, source: few}
        bandwidth: {value: 100 GB/s, mark: A, source: x}
        latency: {value: 1 us, mark: A, source: x}
      - shape: switch
        npus: {value: 2, mark: A, source: few}
        bandwidth: {value: 10 GB/s, mark: A, source: x}
        latency: {value: 2 us, mark: A, source: x}
  A1:
    like: A0
    expansion:
      bandwidth: {value: 500 GB/s, mark: A, source: x}
      capacity: {value: 1 GB, mark: A, source: x}
  B0:
    like: A1
    peak: {value: 200 TFLOP/s, mark: V, source: twice}
    dims[1].bandwidth: {value: 100 GB/s, mark: V, source: ten times}
published:
  clusters: {value: 1.5, mark: R, source: made up}
  expansion: {value: 1.2, mark: R, source: made up}
ratios:
  clusters: {value: [A0, A1, B0], mark: A, source: all}
  expansion: {value: [[A0, A1]], mark: A, source: the pair}
sensitivities:
  - {name: faster, scale: {clusters.*.peak: 2}}
  - {name: ZeRO-1, set: {cases.small.workload.zero: 1}}
questions:
  - {ratio: clusters, scale: clusters.B0.peak, from: 0.125, to: 8}
"""


def book(folder: Path, text: str = TEXT) -> Book:
    """The book of a text."""
    path = folder / "parameters.yaml"
    path.write_text(text, encoding="utf-8")
    return load_book(path)
