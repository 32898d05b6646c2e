"""A family is one module and one line of the registry: a toy family, all of it here, does what the built-in ones do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from tests.commands import PlugIn

import astrarium as ar
from astrarium import config, registry
from astrarium.cli import main
from astrarium.config import ConfigError, Knob, Problem, decode
from astrarium.errors import InputError, UnsupportedError
from astrarium.planner.job import job_of
from astrarium.workload.divisors import divides
from astrarium.workload.flops import executed_flops, model_flops
from astrarium.workload.footprint import training_footprint
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Op, add, gather
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.disaggregated import Disaggregated
from astrarium.workload.inference.footprint import cache_blocks, inference_footprint
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.model.base import Cache, Counts, Generation, Model, Split
from astrarium.workload.model.cached import LayerKind, cache_axes, cache_sizes, cached_core, states_of
from astrarium.workload.model.diffusion import Diffusion
from astrarium.workload.model.hugging_face import from_mapping, read_config
from astrarium.workload.model.hugging_face_keys import Fields, Keys, Readers
from astrarium.workload.model.language_head import language_head
from astrarium.workload.model.parameters import parameters
from astrarium.workload.model.parts import INSIDE, STREAM, block, core, linear, norm
from astrarium.workload.model.stacks import stack_of

# ---------------------------------------------------------------- the family


def _layouts(model: Toy, split: Split) -> Iterator[Problem]:
    yield from divides("tp", split.tp, model.heads, "heads")


def _cache(model: Toy) -> Cache:
    return Cache(heads=model.heads, sight=lambda index: None)


class Toy(Model, frozen=True, kw_only=True):
    """Attention alone, layer by layer."""

    tag: ClassVar[str] = "toy"
    generation: ClassVar[Generation | None] = Generation(_layouts, _cache)
    layers: Annotated[int, Knob("Layers.", ge=1)]
    d_model: Annotated[int, Knob("Length of a token's vector.", ge=1)]
    heads: Annotated[int, Knob("Heads of a layer.", ge=1)]
    vocab: Annotated[int, Knob("Tokens of the vocabulary.", ge=1)]
    seq: Annotated[int | None, Knob("Tokens of a sample.", ge=1)] = 64

    def stack(self, options: Options) -> Stack:
        """Embedding, layers, head."""
        ops = [gather("tokens", f"index[batch,seq] * embedding[vocab,d] -> e{INSIDE}")]
        start = block("embedding", ops, {"embedding": "vocab d"}, start="", end=f"e{STREAM}", widths={"index": "index"})
        sizes = {"d": self.d_model, "heads": self.heads, "kv_heads": self.heads, "head": self.d_model // self.heads,
                 "vocab": self.vocab, **cache_sizes(None, options)}
        last = (2,) if options.packed is None or options.packed.sampled else ()
        return Stack((start, _layer(options), language_head(options, norm_kind="rms", tied=False)), (0,),
                     (1,) * self.layers, last, sizes, cache_axes(options))

    def counts(self) -> Counts:
        """Four matrices and a norm a layer."""
        d = self.d_model
        return {"embedding": self.vocab * d, "attention": 4 * self.layers * d * d, "norms": (self.layers + 1) * d,
                "head": self.vocab * d}, 0

    @staticmethod
    def readers() -> Readers:
        """`toy_lm`."""
        return {"toy_lm": _read}


def _layer(options: Options) -> Any:
    weights: dict[str, str] = {}
    kind = LayerKind(False, None)
    ops: list[Op] = [norm("rms", "norm", "x", "h", weights)]
    ops += [linear(name, f"h{INSIDE}", f"d,{heads},head", f"{name}[batch,seq,{heads},head]", weights, bias=False)
            for name, heads in (("q", "heads"), ("k", "kv_heads"), ("v", "kv_heads"))]
    ops += core(options) if options.packed is None else cached_core(kind, options, "q", "k", owner=True)
    ops += [linear("out", "o[batch,seq,heads,head]", "heads,head,d", f"a{INSIDE}", weights, bias=False),
            add("residual", f"x{STREAM} + a{STREAM} -> y{STREAM}")]
    return block("layer", ops, weights, states=states_of(kind) if options.packed is not None else {})


def _read(keys: Keys) -> Fields:
    keys.unused("toy_detail")
    return {"layers": keys.whole("n_layers"), "d_model": keys.whole("width"), "heads": keys.whole("n_heads", 4),
            "vocab": keys.whole("vocab_size"), "seq": None}


# ---------------------------------------------------------------- what it does

TOY = Toy(layers=4, d_model=64, heads=4, vocab=512)
KEYS = {"model_type": "toy_lm", "n_layers": 4, "width": 64, "vocab_size": 512, "toy_detail": 3, "other": 5}


@pytest.fixture(autouse=True)
def _registered(plug_in: PlugIn) -> None:
    """One entry point."""
    plug_in({"family.toy": f"{__name__}:Toy"})


def design(workload: Any) -> ar.Design:
    network = ar.Network([ar.Switch(workload.ranks, bandwidth="100 GB/s", latency="500 ns")])
    return ar.Design(workload=workload, network=network, compute=ar.Roofline(peak="100 TFLOP/s"),
                     memory=ar.Memory(capacity="80 GB", bandwidth="2 TB/s"))


def run(workload: Any) -> Any:
    """The run, folded and with every rank alike."""
    folded, every = (ar.simulate(design(workload), fold=fold) for fold in ("auto", "off"))
    assert folded.makespan_ps == every.makespan_ps > 0
    return folded


def test_it_is_listed_and_decoded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "family"]) == 0
    assert re.search(r"^toy +Plug-in of an installed package\.$", capsys.readouterr().out, re.MULTILINE)
    plain = {"family": "toy", "layers": 4, "d_model": 64, "heads": 4, "vocab": 512}
    assert decode(Model, plain) == TOY
    workload = ar.Transformer(plain, global_batch=8)  # type: ignore[arg-type]
    assert config.replace(workload, "model.layers", 2).model == config.replace(TOY, "layers", 2)


def test_parameters_and_flops_are_counted() -> None:
    layers, d, vocab, seq = 4, 64, 512, 64
    count = parameters(TOY)
    assert count.total == count.active == 2 * vocab * d + layers * (4 * d * d + d) + d
    assert sum(stage.parameters for stage in training_footprint(ar.Transformer(TOY, global_batch=8))) == count.total
    work = ar.Transformer(TOY, global_batch=8, dp=2, tp=2)
    token = 6 * (layers * 4 * d * d + vocab * d) + 12 * layers * d * seq
    assert model_flops(work) == 8 * seq * token
    assert executed_flops(ar.Transformer(TOY, global_batch=8, attention="unfused")) == 8 * seq * token


@pytest.mark.parametrize("how", [
    {}, {"dp": 2, "tp": 2, "pp": 2, "micro_batch": 1}, {"dp": 4, "sp": 2, "zero": 3, "recompute": "full"},
    {"dp": 2, "tp": 2, "tp_sequence": True, "cp": 2, "zero": 1},
])
def test_it_trains(how: dict[str, Any]) -> None:
    assert run(ar.Transformer(TOY, global_batch=8, **how)).peak_memory > 0


@pytest.mark.parametrize("how", [
    {"phase": "prefill", "tp": 2, "pp": 2, "chunk": 24}, {"phase": "decode", "context": 50, "dp": 2},
    {"phase": "request", "tp": 4}, {"sp": 2}, {"compression": {"share": 2}},
    {"speculation": {"draft": {"family": "toy", "layers": 1, "d_model": 32, "heads": 4, "vocab": 512}, "tokens": 2,
                     "acceptance": 0.5}},
])
def test_it_generates(how: dict[str, Any]) -> None:
    workload = Inference(TOY, batch=4, **{"prompt": 40, "generated": 4, **how})
    run(workload)
    assert all(stage.cache > 0 for stage in inference_footprint(workload))


def test_its_cache_is_sent_and_counted() -> None:
    pools: Any = {"prefill": {"tp": 2}, "decode": {"tp": 1, "pp": 2}}
    run(Disaggregated(model=TOY, batch=4, prompt=40, generated=4, **pools))
    replica = replica_of(Inference(TOY, batch=4, prompt=40, generated=4))
    assert replica.cache_bytes(0, Packed((Sequences(1, 1, 39, 0),))) == 4 * 2 * 40 * 64 * 2     # layers, k and v, bf16
    assert cache_blocks([replica], 1e9, 16, 100).total > 1000


def test_layouts_that_it_cannot_have() -> None:
    with pytest.raises(InputError, match="tp: 3 does not divide 4 heads; expected a divisor, such as 2 or 4"):
        ar.Transformer(TOY, global_batch=8, tp=3)
    with pytest.raises(InputError, match="ep: 2, but the model has no experts"):
        ar.Transformer(TOY, global_batch=8, dp=2, ep=2)
    with pytest.raises(InputError, match="tp: 3 does not divide 4 heads; expected a divisor, such as 2 or 4"):
        Inference(TOY, batch=4, prompt=40, generated=4, tp=3)
    assert job_of(TOY, global_batch=8).layers == 4


def test_its_config_json_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(KEYS))
    found = read_config(path)
    assert isinstance(found, Toy)
    assert (found.layers, found.heads, found.seq) == (4, 4, None)
    assert found.notes == ("not in the file, so as its class has it: n_heads 4", "keys that are not read: other")
    run(ar.Transformer(str(path), global_batch=8, seq=64, tp=2))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"config\.json: width: is missing"):
        from_mapping({key: value for key, value in KEYS.items() if key != "width"})


# ---------------------------------------------------------------- what families must not do


class Twin(Toy, frozen=True, kw_only=True):
    """Another family that reads the same config.json."""

    tag: ClassVar[str] = "twin"


class Bare(Model, frozen=True, kw_only=True):
    """A family that says nothing."""

    tag: ClassVar[str] = "bare"
    seq: ClassVar[int] = 1
    layered: ClassVar[bool] = False


def test_two_families_do_not_read_one_model_type(plug_in: PlugIn) -> None:
    plug_in({f"family.{name.lower()}": f"{__name__}:{name}" for name in ("Toy", "Twin")})
    with pytest.raises(InputError, match=r"family\.twin: reads model_type 'toy_lm', which another family reads"):
        from_mapping(KEYS)


def test_a_family_without_operators_or_steps_of_inference_says_so() -> None:
    with pytest.raises(UnsupportedError, match=r"workload\.model\.family: family bare has no operators"):
        stack_of(Bare(), Options({}, 1, 8))
    with pytest.raises(UnsupportedError, match="model: family bare does not count its parameters"):
        parameters(Bare())
    with pytest.raises(ConfigError, match="model: Bare generates no tokens with a cache; expected a decoder"):
        Inference(Bare(), batch=4, prompt=40, generated=4)
    dit = Diffusion(layers=1, d_model=64, heads=4, ffn=64, latent=16, patch=2)
    step = Packed((Sequences(1, 1, 7, 1),))
    with pytest.raises(UnsupportedError, match="diffusion has no steps of inference; expected decoder or mamba or toy"):
        stack_of(dit, Options({}, 1, 1, packed=step, backward=False))


def test_nobody_names_a_family_but_the_registry() -> None:
    """Decoders are named where a decoder is meant: STAGE's and Megatron's flags, the corpus, the usual FLOP count."""
    package = Path(ar.__file__).parent
    for name in registry.built_ins("model"):
        target = registry.entries("model")[name].target.partition(":")[0]
        naming = {path.relative_to(package).as_posix() for path in package.rglob("*.py")
                  if re.search(rf"{re.escape(target)}\b(?!_)", path.read_text(encoding="utf-8"))}
        assert name == "decoder" or naming == {"built_in.py", "__init__.py"}
