"""Published memory of training: the rows, the workloads that they mean, and what the footprint says of them.

SimuMax's rows are measured (PyTorch's allocator, Megatron-LM on eight B200); Korthikanti's figure counts layers on
A100.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import astrarium as ar
from astrarium import catalog, config
from astrarium.workload.assemble.holdings import holdings
from astrarium.workload.assemble.stages import parts_of, places
from astrarium.workload.footprint import training_footprint
from astrarium.workload.training import recipe_of

__all__ = ["Cell", "korthikanti", "simumax"]

FOLDER = Path(__file__).parents[1] / "tests" / "published" / "memory"
GIB = 2.0**30
MEGATRON: dict[str, Any] = {name: value for name, value in catalog.load("stacks")["megatron-core"]["workload"].items()
                            if name in ("zero", "cross_entropy", "weight_gradients", "overhead", "precision")}
"""What the stack of the runs (`stack: megatron-core`) says of memory."""


@dataclass(frozen=True)
class Cell:
    """One published figure beside ours, in GiB; `times`: rows of the source that have it."""

    source: str
    case: str
    published: float
    predicted: float
    times: int = 1

    @property
    def error(self) -> float:
        """Relative."""
        return self.predicted / self.published - 1.0


def _rows(name: str) -> list[dict[str, str]]:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def simumax(**changes: Any) -> Iterator[Cell]:
    """Most bytes that were allocated on a rank of each pipeline stage; `changes` to the stack's settings."""
    for row in _rows("simumax.csv"):
        tp, pp, cp, ep, dp, stage = (int(row[key]) for key in ("tp", "pp", "cp", "ep", "dp", "stage"))
        work = ar.Transformer(_model(row["model"], int(row["layers"])), global_batch=dp * 4, micro_batch=1, tp=tp,
                              pp=pp, sp=cp, sp_attention="all_to_all", ep=ep, dp=dp, seq=int(row["seq"]),
                              tp_sequence=tp > 1, **{**MEGATRON, **changes})
        case = f"{row['model']}, {row['layers']} layers, tp {tp} pp {pp} cp {cp} ep {ep} dp {dp} seq {row['seq']}"
        yield Cell("SimuMax", f"{case}, stage {stage}", float(row["max_allocated_MiB"]) / 1024,
                   training_footprint(work)[stage].total / GIB, int(row["rows"]))


def _model(name: str, layers: int) -> Any:
    """The catalog's model as the runs had it: fewer layers; 405B with 16 key and value heads; DeepSeek with one dense
    layer, softmax routers and room for the mean load of every expert."""
    model = config.replace(ar.Transformer(name, global_batch=1).model, "layers", layers)
    if name == "llama3-405b":
        model = config.replace(model, "kv_heads", 16)
    if name.startswith("deepseek"):
        for field, value in (("dense_layers", 1), ("capacity_factor", 1.0), ("router", "softmax"),
                             ("router_bias", False)):
            model = config.replace(model, f"moe.{field}", value)
    return model


def korthikanti() -> Iterator[Cell]:
    """Model states of the layers, and activations of the first stage with the masks of the embedding's dropout, which
    the figure leaves out."""
    for row in _rows("korthikanti.csv"):
        model, virtual = row["model"], int(row["virtual"])
        more: dict[str, Any] = {"schedule": "interleaved", "virtual_stages": virtual} if virtual > 1 else {}
        kinds: Sequence[tuple[str, dict[str, Any]]] = (
            ("none", {}), ("present", {"tp_sequence": True, "recompute": "selective"}))
        for kind, settings in kinds:
            work = ar.Transformer(model, global_batch=int(row["global_batch"]), micro_batch=int(row["micro_batch"]),
                                  tp=int(row["tp"]), pp=int(row["pp"]), seq=2048, attention="unfused", dropout=True,
                                  precision={"gradients": "fp32"}, **more, **settings)
            yield Cell("Korthikanti", f"{model}, activations, {kind}", float(row[f"{kind}_GiB"]),
                       training_footprint(work)[0].activations / GIB)
        yield Cell("Korthikanti", f"{model}, model states", float(row["states_GiB"]), _layers(work) / GIB)


def _layers(work: ar.Transformer) -> float:
    """Bytes of weights, gradients and optimizer states of the first stage's layers."""
    recipe = recipe_of(work)
    inner = [replace(part, blocks=tuple(block for block in part.blocks if block in recipe.inner))
             for part in parts_of(recipe, places(recipe), 0)]
    owned = holdings(recipe, inner)
    return owned.weights + owned.gradients + owned.states
