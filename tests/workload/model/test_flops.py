"""Products of a model's blocks: the modules that transformers builds, and what papers print."""

from __future__ import annotations

from typing import Any

import pytest

from astrarium import catalog, config
from astrarium.config import decode
from astrarium.workload.model.base import Model
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.dlrm import Dlrm
from astrarium.workload.model.hugging_face import from_mapping
from astrarium.workload.model.mamba import Mamba

from .common import HEADS, SAMPLES, flops, pieces, rival, row, sample

B, S = 2, 32


def _inputs(kind: str, model: Any, torch: Any) -> dict[str, Any]:
    tokens = torch.randint(0, 1000, (B, S))
    if kind == "vit":
        return {"pixel_values": torch.randn(B, 3, model.image.size, model.image.size)}
    if kind == "whisper":
        return {"input_features": torch.randn(B, model.audio.mels, 2 * model.seq), "use_cache": False,
                "decoder_input_ids": torch.randint(0, 1000, (B, model.decoder_seq))}
    if kind == "t5":
        return {"input_ids": tokens, "decoder_input_ids": torch.randint(0, 1000, (B, model.decoder_seq)),
                "use_cache": False}
    return {"input_ids": tokens} if kind == "bert" else {"input_ids": tokens, "use_cache": False}


@pytest.mark.exam
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [kind for kind in SAMPLES if kind != "mamba2"])    # its module has no products
def test_flops_are_those_that_torch_counts(kind: str) -> None:
    """The rival: FlopCounterMode over a forward and a backward pass of Hugging Face's own module, run on the CPU."""
    torch = pytest.importorskip("torch", reason="the rival needs pip install torch transformers")
    transformers = pytest.importorskip("transformers", reason="the rival needs pip install torch transformers")
    from torch.utils.flop_counter import FlopCounterMode

    configuration = transformers.AutoConfig.for_model(**rival(kind))
    configuration._attn_implementation = "eager"
    make = getattr(transformers, HEADS.get(kind, ""), transformers.AutoModelForCausalLM)
    module = make(configuration) if kind in HEADS else make.from_config(configuration, attn_implementation="eager")
    if hasattr(module, "set_experts_implementation"):
        module.set_experts_implementation("eager")
    model: Any = from_mapping(sample(kind))
    if isinstance(model, Decoder):      # transformers has no modules for multi-token prediction
        model = config.replace(model, "mtp", 0)
    with FlopCounterMode(display=False) as forward:
        out = module.train()(**_inputs(kind, model, torch))
    with FlopCounterMode(display=False) as backward:
        sum(each.float().sum() for name, each in out.items() if name.endswith("logits")).backward()
    seq = S if isinstance(model, Decoder) or kind in ("bert", "t5") else model.seq
    ours = pieces(model, B, seq=seq)
    convolved = forward.get_flop_counts()["Global"].get(torch.ops.aten.convolution, 0) if _has_delta(model) else 0
    assert flops(ours, "forward") == forward.get_total_flops() - convolved + _counted_otherwise(model)
    if not _counted_otherwise(model):
        assert flops(ours, "backward") == backward.get_total_flops()


def _has_delta(model: Any) -> bool:
    return isinstance(model, Decoder) and model.delta is not None


def _counted_otherwise(model: Any) -> float:
    """What we count and eager modules do not: the triangular solves of delta nets (the counter does not know the call,
    and tokens are padded to a chunk). Less than nothing: the sums over an indexer's heads, which are vector FLOPs here,
    and Llama 4's experts, each of which takes every token."""
    if not isinstance(model, Decoder):
        return 0
    layers, tokens, found = [model.layer(index) for index in range(model.layers)], B * S, 0.0
    if model.delta is not None:
        delta, padded = model.delta, B * model.delta.chunk
        heads = sum(kind.delta for kind in layers) * delta.value_heads
        inner = delta.chunk * (3 * delta.key_size + 2 * delta.value_size) + 3 * delta.key_size * delta.value_size
        solved = delta.chunk * (delta.key_size + delta.value_size)
        found += 2.0 * heads * (tokens * inner - padded * (inner - solved))
    if model.sparse is not None:
        found -= 2.0 * tokens * S * model.sparse.heads * model.layers
    if model.window_kind == "chunked" and model.moe is not None:
        idle = sum(kind.moe for kind in layers) * (model.moe.experts - model.moe.top_k)
        found -= 2.0 * tokens * idle * 3 * model.d_model * (model.moe.expert_ffn or model.ffn)
    return found


@pytest.mark.parametrize(("name", "macs", "within"), [
    ("vit-b-16", 17.56, 0.005),         # torchvision's table of weights (its GFLOPS are multiply-adds)
    ("vit-l-16", 61.55, 0.006),         # the same
    ("dit-xl-2", 118.64, 0.025),        # Peebles and Xie, tables 1 and 4: "Gflops" are multiply-adds
    ("dit-xl-2-512", 524.60, 0.07),     # Peebles and Xie, section 5.1
])
def test_multiply_adds_of_one_image(name: str, macs: float, within: float) -> None:
    assert flops(pieces(row(name)), "forward") / 2e9 == pytest.approx(macs, abs=within)


@pytest.mark.parametrize(("name", "printed"), [("deepseek-v2", 155), ("deepseek-v3", 250)])
def test_training_flops_per_token(name: str, printed: float) -> None:
    """GFLOPs per token at 4,096 tokens with causal attention: Insights into DeepSeek-V3, arXiv 2505.09343, table 2.
    (Its 2,448 for LLaMA-3.1 405B holds one of attention's two products only; with both it is 2,473.)"""
    found = pieces(row(name), seq=4096, mask="skip")
    assert flops(found, "forward", "backward") / 4096e9 == pytest.approx(printed, rel=0.005)


def test_latent_attention_and_experts_of_deepseek_v3() -> None:
    """Multiply-adds per token of one layer, from arXiv 2412.19437 section 4.2, product by product."""
    attention = 7168 * 1536 + 1536 * 128 * 192 + 7168 * (512 + 64) + 512 * 128 * (128 + 128) + 128 * 128 * 7168
    scores = 128 * 4096 * (192 + 128)
    experts = 7168 * 256 + (8 + 1) * 3 * 7168 * 2048
    block = pieces(row("deepseek-v3"), seq=4096).blocks[2]
    assert block.name == "expert_layer"
    assert sum(step.gemm for step in block.forward.steps) / (2 * 4096) == attention + scores + experts


@pytest.mark.parametrize("seq", [2048, 1024, 64])
def test_mamba_in_chunks(seq: int) -> None:
    """Per token and layer: projections, then C B^T and its product with x over a chunk, states in and out
    (arXiv 2405.21060, section 6: 2 T Q N, 2 T Q P per head, 2 T N P per head twice)."""
    model: Mamba = row("mamba2-2.7b")
    chunk = min(seq, model.chunk)
    projections = model.d_model * (2 * model.inner + 2 * model.state + model.heads) + model.inner * model.d_model
    inner = chunk * model.state + chunk * model.inner + 2 * model.state * model.inner
    block = pieces(model, seq=seq).blocks[1]
    assert sum(step.gemm for step in block.forward.steps) == 2 * seq * (projections + inner)
    again = seq * chunk * model.state + seq * chunk * model.state   # C B^T is made again, and has two gradients
    assert sum(step.gemm for step in block.backward.steps) == 4 * seq * (projections + inner) + again


def test_recommendation_of_one_sample() -> None:
    """MLPs 13-512-256-128 and 3456-1024-1024-512-256-1 and three cross layers of rank 512: MLPerf's DLRM-DCNv2."""
    model: Dlrm = row("dlrm-dcnv2")
    width = 27 * 128
    macs = 13 * 512 + 512 * 256 + 256 * 128 + 3 * 2 * width * 512
    macs += width * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256
    assert flops(pieces(model), "forward") == 2 * macs
    adds = sum(model.lookups) * 128 - 26 * 128
    lookup = pieces(model).blocks[0].forward.steps[0]
    assert lookup.flops == pytest.approx(adds)
    assert lookup.bytes == pytest.approx(2 * 128 * (sum(model.lookups) + 26) + 8 * sum(model.lookups))


def test_capacity_and_imbalance_scale_the_experts_alone() -> None:
    """On each of ep ranks; one rank alone has all experts, and nothing to be out of balance with."""
    plain = catalog.load("models")["mixtral-8x7b"]["model"]
    experts = 32 * 2 * 128 * 2 * 3 * 4096 * 14336
    cases = (("capacity_factor", 1.25, 1, 1.25), ("capacity_factor", 1.25, 4, 1.25), ("imbalance", 2.0, 1, 1.0),
             ("imbalance", 2.0, 4, 2.0), ("imbalance", 8.0, 4, 4.0))
    for field, value, ep, factor in cases:
        changed = decode(Model, {**plain, "moe": {"experts": 8, "top_k": 2, field: value}})
        base, more = (flops(pieces(model, ep, seq=128, degrees={"ep": ep}), "forward")
                      for model in (row("mixtral-8x7b"), changed))
        assert more - base == pytest.approx((factor - 1) * experts)


@pytest.mark.parametrize("name", catalog.load("models"))
def test_backward_is_twice_forward(name: str) -> None:
    """But for what has no gradient (pixels, sound, dense features, time, what enters an indexer) and for products that
    Mamba and delta nets make again."""
    found, model = pieces(row(name)), row(name)
    other = isinstance(model, Decoder) and (model.sparse or model.delta)
    assert flops(found, "backward") == pytest.approx(2 * flops(found, "forward"), rel=0.06 if other else 0.007)


_ROWS = ("llama3-8b", "mixtral-8x7b", "deepseek-v2", "bert-base", "t5-11b", "dit-xl-2", "mamba2-1.3b", "dlrm-dcnv2")


_REPEATED = {
    "mixtral-8x7b": {"tp": "router"}, "deepseek-v2": {"tp": "router and latents"},
    "bert-base": {"tp": "pooler and transform", "sp": "pooler", "cp": "pooler"},
    "dit-xl-2": {"tp": "modulation", "sp": "modulation", "cp": "modulation"},
    "mamba2-1.3b": {"tp": "B and C"},
}


@pytest.mark.parametrize("name", _ROWS)
@pytest.mark.parametrize("degrees", [{"edp": 4}, {"ep": 4}, {"tp": 4}, {"sp": 4}, {"cp": 4}, {"cp": 2, "sp": 2},
                                     {"ep": 2, "tp": 2, "sequence": 1}])
def test_work_is_divided(name: str, degrees: dict[str, int]) -> None:
    """Products over all ranks are those of one rank; the few that every rank of an axis does for itself are named."""
    axes = {axis: degree for axis, degree in degrees.items() if axis != "sequence"}
    if name == "dlrm-dcnv2" and axes.keys() & {"tp", "sp", "cp"}:     # refused
        return
    one = flops(pieces(row(name), 8, attention="flash"), "forward", "backward")
    many = flops(pieces(row(name), 8, attention="flash", degrees=axes, tp_sequence="sequence" in degrees), "forward",
                 "backward")
    repeated = axes.keys() & _REPEATED.get(name, {}).keys()
    assert many * 4 >= one * (1 - 1e-9)
    assert many * 4 <= one * (1.08 if repeated else 1 + 1e-9)
