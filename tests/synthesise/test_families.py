"""Other families of the catalog than dense decoders, and ZeRO: held-out depths, widths, micro-batches and replicas."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

import pytest

from astrarium import config
from astrarium.synthesise import examples_of_generated, learn, reproduced, sample
from astrarium.workload.config import Workload
from astrarium.workload.corpus import draw_corpus
from astrarium.workload.generate import generate
from astrarium.workload.transformer import Transformer

from .corpus import MODELS, makespan

pytestmark = pytest.mark.exam

PARTS: dict[str, Sequence[Sequence[float]]] = {      # layers of a stage, widths, dp, micro-batches
    "learn": ((1, 2, 3, 4, 6, 8), (0.5, 1, 2), (2, 4, 8, 16), (1, 2, 4, 8)),
    "held_out": ((5, 7), (0.75, 1.5), (3, 6, 12), (3, 6))}


def drawn(name: str, count: int, part: str) -> Iterator[tuple[dict[str, float], Workload]]:
    """Conditions and workloads of a model of the catalog, wider and deeper or less so."""
    rng, model = random.Random(part), Transformer(model=name, global_batch=1).model
    layers, widths, replicas, batches = PARTS[part]
    while count:
        heads, tp, pp = round(model.heads * rng.choice(widths)), rng.choice((1, 2, 4)), rng.choice((1, 1, 2))
        width = heads * model.d_model // model.heads
        c = {"layers": pp * rng.choice(layers), "d_model": width, "ffn": round(model.ffn / model.d_model * width / 256)
             * 256, "dp": rng.choice(replicas), "tp": tp, "pp": pp, "batch": rng.choice((1, 2)),
             "micro_batches": rng.choice(batches)}
        more = {} if name.startswith("vit") else {"kv_heads": heads // 4}
        if heads // 4 % tp or c["ffn"] % tp:
            continue
        sized = config.replace_all(model, {"layers": c["layers"], "d_model": width, "heads": heads, "ffn": c["ffn"],
                                           **more})
        count -= 1
        yield {key: float(value) for key, value in c.items()}, Transformer(
            model=sized, dp=c["dp"], tp=tp, pp=pp, global_batch=c["batch"] * c["dp"] * c["micro_batches"],
            micro_batch=c["batch"], **({} if name.startswith("vit") else {"tp_sequence": tp > 1, "seq": 2048}))


def recommenders(name: str, count: int, part: str) -> Iterator[tuple[dict[str, float], Workload]]:
    """The same of a model with tables, which is as deep and wide as it is: other batches."""
    rng = random.Random(part)
    replicas, batches = {"learn": ((2, 4, 8, 16, 32, 64), (256, 512, 1024, 4096, 8192)),
                         "held_out": ((12, 24, 48), (768, 3072))}[part]
    for _ in range(count):
        dp, batch = rng.choice(replicas), rng.choice(batches)
        yield ({"dp": float(dp), "batch": float(batch), "tp": 1.0, "pp": 1.0},
               Transformer(model=name, dp=dp, global_batch=batch * dp))


def sharded(zero: int, name: str, count: int, part: str) -> Iterator[tuple[dict[str, float], Workload]]:
    """Models whose replicas share the optimizer's states (ZeRO 1), the gradients (2), and the weights (3)."""
    for c, work in drawn(name, count, part):
        yield c, config.replace_all(work, {"zero": zero})


def mixed(changes: dict[str, int], name: str, count: int, part: Literal["learn", "held_out"]) -> Iterator[
        tuple[dict[str, float], Workload]]:
    """Of four models of the catalog, whose sizes are conditions too, workloads with some fields changed."""
    del name
    for c, work in draw_corpus(MODELS, count, part=part):
        yield c, config.replace_all(work, changes)


@pytest.mark.parametrize(("name", "drawn"), [
    ("mixtral-8x7b", drawn), ("vit-l-16", drawn), ("dlrm-dcnv2", recommenders),
    *(pytest.param("llama2-7b", partial(sharded, zero), id=f"llama2-7b with ZeRO {zero}") for zero in (1, 2, 3)),
    pytest.param("mixtral-8x7b", partial(sharded, 3), id="mixtral-8x7b with ZeRO 3"),
    *(pytest.param("four models", partial(mixed, {"zero": zero}), id=f"four models with ZeRO {zero}")
      for zero in (0, 1, 2, 3)),
    pytest.param("four models", partial(mixed, {"zero": 3, "prefetch": 2}), id="four models, two layers ahead")])
def test_held_out_traces_are_simulated_within_five_percent(
        name: str, drawn: Callable[[str, int, str], Iterator[tuple[dict[str, float], Workload]]]) -> None:
    found = [example for c, work in drawn(name, 200, "learn") for example in examples_of_generated(generate(work), c)]
    model = learn(found)
    errors = [makespan(sample(model, c, extrapolate=True), c) / makespan(generate(work), c) - 1
              for c, work in drawn(name, 20, "held_out")]
    print(f"{name}: worst {max(map(abs, errors)):.3%}, again {reproduced(model, found)}")
    assert max(map(abs, errors)) < 0.05
