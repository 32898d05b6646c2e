"""Which parallelisation is the fastest? 37 measured ones of two models on 512 A100, beside what Astrarium predicts.

Measured: iteration times that the authors of vTrain (Bang et al., MICRO 2024, arXiv 2312.12391) published with their
code: Megatron-LM, GPT with 2,048 tokens, 1,536 samples per iteration, fp16, full recomputation, tp 8 in every row.
Predicted: the published peaks of the A100 and its links, 1F1B, nothing fitted. TFLOP/s per GPU count the FLOPs of
Narayanan et al. (arXiv 2104.04473, equation 3), recomputation included.

usage: compare.py [MODEL]
"""

from __future__ import annotations

import csv
import itertools
import sys
from pathlib import Path

import astrarium as ar

GPUS, SAMPLES, TOKENS = 512, 1536, 2048
HERE = Path(__file__).resolve().parent


def design(model: str, pp: int, micro_batch: int) -> ar.Design:
    """64 servers of eight A100; one HDR InfiniBand port per GPU (the data say HDR, not how many ports)."""
    return ar.Design(
        workload=ar.Transformer(model, global_batch=SAMPLES, micro_batch=micro_batch, tp=8, pp=pp, dp=GPUS // 8 // pp,
                                recompute="full", attention="unfused", dropout=True),
        compute=ar.Roofline(peak="312 TFLOP/s"), memory=ar.Memory(capacity="80 GB", bandwidth="2039 GB/s"),
        network=ar.Network([ar.Switch(8, bandwidth="300 GB/s", latency="500 ns"),
                            ar.Switch(GPUS // 8, bandwidth="25 GB/s", latency="2 us")]),
        system=ar.System(comm_streams=3))


def tflops(model: ar.Decoder, seconds: float) -> float:
    """Of one GPU, by the paper's equation."""
    layers, d, tokens = model.layers, model.d_model, SAMPLES * TOKENS
    work = 96 * tokens * layers * d**2 * (1 + TOKENS / (6 * d) + model.vocab / (16 * layers * d))
    return work / seconds / GPUS / 1e12


def table(model: str, rows: list[tuple[int, int, float]]) -> None:
    """One line per row (stages, samples of a micro-batch, measured seconds), and how well the order agrees."""
    found: list[tuple[float, float]] = []
    print(f"{model}          seconds      TFLOP/s per GPU\n"
          " pp  dp  batch  measured predicted  measured predicted  ratio")
    for pp, batch, measured in rows:
        made = design(model, pp, batch)
        predicted = ar.simulate(made, record=False).makespan / 1e9
        found.append((measured, predicted))
        speed = tflops(made.workload.model, measured)
        print(f"{pp:3} {GPUS // 8 // pp:3} {batch:6} {measured:9.2f} {predicted:9.2f} {speed:9.1f} "
              f"{speed * measured / predicted:9.1f} {predicted / measured:6.2f}")
    pairs = list(itertools.combinations(found, 2))
    right = sum((a[0] < b[0]) == (a[1] < b[1]) for a, b in pairs)
    chosen = min(found, key=lambda each: each[1])[0]
    print(f"in the right order: {right} of {len(pairs)} pairs; the predicted best is number "
          f"{sorted(each[0] for each in found).index(chosen) + 1} of {len(found)} as measured\n")


def main() -> None:
    with (HERE / "measured.csv").open() as file:
        rows = list(csv.DictReader(file))
    for model, group in itertools.groupby(rows, lambda row: row["model"]):
        if len(sys.argv) < 2 or model in sys.argv[1:]:
            table(model, [(int(row["pp"]), int(row["micro_batch"]), float(row["seconds"])) for row in group])


if __name__ == "__main__":
    main()
