"""A corpus of training traces to learn from: models of the catalog at many sizes, on many layouts of ranks.

Every trace has a file with its conditions. Sizes and numbers of replicas of the held-out part lie between those of the
learnt part, and are none of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from astrarium import config
from astrarium.errors import InputError
from astrarium.workload.config import Workload
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.transformer import Transformer

__all__ = ["CONDITIONS", "PARTS", "CorpusSplit", "draw_corpus", "sizes_of_model", "transformer_of"]

CONDITIONS = ("batch", "d_model", "dp", "ffn", "kv_size", "layers", "micro_batches", "pp", "seq", "tp", "vocab")
"""What traces are conditioned on: samples of a micro-batch, the model's sizes (kv_size: kv_heads * head_size), tokens
of a sample, micro-batches, and the layout of ranks."""


class CorpusSplit(Struct, frozen=True):
    """What is drawn from: layers of one stage, how much wider or narrower than the catalog's model, replicas."""

    layers: Sequence[int]
    width: Sequence[float]
    dp: Sequence[int]
    seq: Sequence[int]


PARTS: Mapping[str, CorpusSplit] = {
    "learn": CorpusSplit((1, 2, 3, 4, 6, 8, 12), (0.25, 0.5, 1.0, 2.0), (1, 2, 4, 8, 16, 32), (1024, 2048, 4096, 8192)),
    "held_out": CorpusSplit((5, 7, 9, 10, 11), (0.375, 0.75, 1.5), (3, 6, 12, 24), (1536, 3072, 6144)),
    "fresh": CorpusSplit((5, 7, 9, 10, 11), (0.375, 0.75, 1.5), (5, 7, 10, 20, 28), (1280, 2560, 5120)),
}
"""Parts by name. `fresh` is to be looked at once, when everything else is settled."""


def draw_corpus(models: Sequence[str], count: int, *, part: Literal["learn", "held_out", "fresh"] = "learn",
                seed: int = 0) -> Iterator[tuple[dict[str, float], Workload]]:
    """`count` pairs of conditions and the workload that makes the trace: each of one of the catalog's `models`, drawn
    larger or smaller. InputError for a model that is no dense decoder, and for models of different kinds."""
    found = [_decoder(name) for name in models]
    _alike(models, found)
    rng = random.Random(f"{part} {seed}")
    for _ in range(count):
        while (drawn := _draw(rng, rng.choice(found), PARTS[part])) is None:
            pass
        yield drawn


def _decoder(name: str) -> Decoder:
    model = Transformer(model=name, global_batch=1).model
    if not isinstance(model, Decoder) or model.moe is not None or model.mla is not None or model.window is not None:
        raise InputError(f"corpus: {name}", "is no dense decoder", expected="models such as llama2-7b, llama3-8b")
    return model


def _alike(names: Sequence[str], models: Sequence[Decoder]) -> None:
    """Models of one corpus differ in sizes alone: conditions say nothing else."""
    def kind(model: Decoder) -> tuple[object, ...]:
        return (model.gated, model.activation, model.positions, model.norm, model.biases, model.tied_embeddings,
                model.qk_norm, model.parallel, model.embedding_norm, model.head)

    for name, model in zip(names, models, strict=True):
        if kind(model) != kind(models[0]):
            raise InputError(f"corpus: {name}", f"is built otherwise than {names[0]}",
                             expected="models that differ in sizes alone; learn the others separately")


def _draw(rng: random.Random, model: Decoder, part: CorpusSplit) -> tuple[dict[str, float], Workload] | None:
    """One of them; None where sizes do not divide."""
    head = int(model.head)
    heads = round(model.heads * rng.choice(part.width))
    kv = max(1, heads // rng.choice((1, 2, 4, 8)))
    ffn = round(model.ffn / model.d_model * heads * head / 256) * 256
    pp, tp = rng.choice((1, 1, 2, 4)), rng.choice((1, 2, 4, 8))
    found = {"batch": rng.choice((1, 2, 4)), "d_model": heads * head, "dp": rng.choice(part.dp), "ffn": ffn,
             "kv_size": kv * head, "layers": pp * rng.choice(part.layers), "micro_batches": rng.choice((1, 2, 4, 8)),
             "pp": pp, "seq": rng.choice(part.seq), "tp": tp, "vocab": model.vocab}
    if heads % kv or kv % tp or heads % tp or ffn % tp or found["vocab"] % tp or found["seq"] % tp:
        return None
    return {name: float(value) for name, value in found.items()}, transformer_of(found, model)


def sizes_of_model(name: str) -> dict[str, float]:
    """The conditions that a model of the catalog has by itself."""
    model = _decoder(name)
    return {"d_model": float(model.d_model), "ffn": float(model.ffn), "kv_size": float(model.groups * model.head),
            "layers": float(model.layers), "vocab": float(model.vocab)}


def transformer_of(conditions: Mapping[str, float], model: Decoder) -> Transformer:
    """The workload of these conditions, for a model that is otherwise like `model`."""
    c = {name: int(conditions[name]) for name in CONDITIONS}
    head = int(model.head)
    sized = config.replace_all(model, {"layers": c["layers"], "d_model": c["d_model"], "heads": c["d_model"] // head,
                                       "kv_heads": c["kv_size"] // head, "ffn": c["ffn"], "vocab": c["vocab"]})
    return Transformer(model=sized, dp=c["dp"], tp=c["tp"], pp=c["pp"], seq=c["seq"], tp_sequence=c["tp"] > 1,
                       global_batch=c["batch"] * c["dp"] * c["micro_batches"], micro_batch=c["batch"])
