"""Step times from tables against simulated ones, and which designs have them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.draws import draws

import astrarium as ar
from astrarium import catalog
from astrarium.compute.measured import Measured
from astrarium.errors import UnsupportedError
from astrarium.serving import Buckets, ClosedLoop, serve
from astrarium.serving.shape import Prompt, Shape
from astrarium.serving.steps.choose import Summed, times_of
from astrarium.serving.steps.exact import Times, step_times
from astrarium.serving.steps.formulas import kernels_of, numbers_of
from astrarium.serving.steps.nodes import nodes_of
from astrarium.serving.steps.simulated import Simulated, packed_of
from astrarium.workload.assemble.pool import whole_kernel
from astrarium.workload.graph import Forms
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.inference.replica import Replica

EXACT = Buckets(context=1)
SMALL: dict[str, Any] = {"family": "decoder", "layers": 4, "d_model": 1024, "heads": 16, "kv_heads": 4, "ffn": 4096,
                         "vocab": 32_000, "gated": True}
EXPERTS: dict[str, Any] = {"experts": 32, "top_k": 4, "expert_ffn": 512, "shared_experts": 1}
INDEXER: dict[str, Any] = {"heads": 16, "head_size": 64, "top_k": 256}
DELTA: dict[str, Any] = {"key_heads": 8, "key_size": 64, "value_heads": 16, "value_size": 64}
LATENT: dict[str, Any] = {"q_rank": 384, "kv_rank": 256, "nope_size": 64, "rope_size": 32, "v_size": 64}


def design(model: Any, *, measured: bool = True, **fields: Any) -> ar.Design:
    chip = catalog.device("h100_sxm")
    work = Inference(**{"model": model, "phase": "decode", "context": 1, "tp": 2, **fields})
    return ar.Design(workload=work, compute=Measured(device="h100_sxm") if measured else ar.Roofline(**chip.compute),
                     memory=ar.Memory(**chip.memory),
                     network=ar.Network([ar.Switch(work.ranks, bandwidth="450 GB/s", latency="500 ns")]))


def both(base: ar.Design) -> tuple[Simulated, Simulated | Summed]:
    work = base.workload
    assert isinstance(work, Inference)
    replica, speculation = replica_of(work), work.speculation
    draft = replace(replica, model=speculation.draft) if speculation else None
    settings = base, replica, 0, EXACT, {}, draft, speculation.tokens if speculation else 0
    return Simulated(*settings), times_of(*settings)


def steps(count: int, seed: int, *, padding: int = 8) -> list[Shape]:
    """Steps as an engine makes them: decoding sequences, and up to three prompts or parts of them."""
    draw, found = random.Random(seed), list[Shape]()
    while len(found) < count:
        decoding = draw.choice((0, draw.randint(1, 8), draw.randint(1, 64)))
        prompts: list[Prompt] = [(draw.randint(1, draw.choice((64, 512))), draw.choice((0, draw.randint(1, 2000))),
                                  draw.randint(0, 1)) for _ in range(draw.choice((0, 1, 1, 2, 3)))]
        context = decoding * draw.randint(16, 2000) + draw.randrange(decoding or 1)
        if decoding or any(new > 1 for new, _, _ in prompts):
            found.append(Shape(decoding, context, tuple(prompts), draw.choice((0, draw.randint(0, padding)))))
    return found


@pytest.mark.parametrize(("base", "count"), [
    pytest.param(design(SMALL, measured=False), 30, id="roofline"),
    pytest.param(design({**SMALL, "window": 512, "full_every": 2, "moe": EXPERTS}), 15, id="windows, experts"),
    pytest.param(design({**SMALL, "kv_heads": None, "mla": LATENT}), 15, id="latent attention"),
    pytest.param(design({**SMALL, "kv_heads": None, "mla": LATENT, "sparse": INDEXER}), 15, id="indexer"),
    pytest.param(design({**SMALL, "delta": DELTA, "full_every": 2}), 15, id="delta net"),
    pytest.param(design(SMALL, speculation={"draft": {**SMALL, "layers": 1}, "tokens": 3, "acceptance": 0.7}), 10,
                 id="speculation")])
def test_tables_give_what_a_simulation_gives(base: ar.Design, count: int) -> None:
    """Within 0.5 % on drawn steps."""
    simulated, tables = both(base)
    drawn = steps(draws(count).max_examples, 1, padding=0 if simulated.guesses else 8)
    off = [abs(tables.of(each) / simulated.of(each) - 1) for each in drawn]
    assert tables.how == "steps from tables"
    assert max(off) < 0.005
    assert np.mean(off) < 0.0007


def test_chunked_attention_has_tables_up_to_one_chunk() -> None:
    """Longer sequences are refused, by steps in a row, too."""
    simulated, tables = both(design({**SMALL, "window": 4096, "window_kind": "chunked", "full_every": 2}))
    for each in (Shape(3, 9000, ((900, 3000, 1),)), Shape(0, 0, ((4000, 0, 1),)), Shape(7, 7 * 4090)):
        assert tables.of(each) == pytest.approx(simulated.of(each), rel=0.005)
    assert len(tables.decoding(2, 8000, 90)) == 90
    assert tables.how == "steps from tables"
    for beyond in (Shape(3, 9000, ((900, 3400, 1),)), Shape(7, 7 * 4096)):
        with pytest.raises(UnsupportedError, match="one chunk"):
            tables.of(beyond)
    with pytest.raises(UnsupportedError, match="one chunk"):
        tables.decoding(2, 8000, 100)


def test_sorts_of_steps_share_what_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine sorts of steps: a split each for prompts with a past and without; 20 steps for each sort were lowered."""
    lowered = list[object]()
    whole = Replica.lowered
    monkeypatch.setattr(Replica, "lowered", lambda self, *given: lowered.append(given) or whole(self, *given))
    _, tables = both(design(SMALL, measured=False))
    for prompts in (((300, 0, 1),), ((300, 40, 1),), ((300, 0, 1), (200, 0, 1)), ((300, 40, 1), (200, 0, 1)), ()):
        for count in (0, 3) if prompts else (3,):
            tables.of(Shape(count, 100 * count, prompts))
    assert tables.how == "steps from tables"
    assert len(lowered) < 70


def test_steps_in_a_row_are_the_steps() -> None:
    _, tables = both(design(SMALL))
    row = tables.decoding(7, 7 * 1000 + 3, 300, 1)
    assert row.shape == (300,)
    assert row.tolist() == pytest.approx([tables.of(Shape(7, 7003 + 7 * step, (), 1)) for step in range(300)], rel=1e-5)


def test_a_few_steps_need_no_tables() -> None:
    """A sum over nodes is the simulation to the picosecond."""
    simulated, _ = both(design(SMALL))
    shapes = [Shape(8, 5600, ((100, 20, 1),)), Shape(3, 100)]
    assert step_times(simulated.design, simulated.replica, shapes).tolist() == [simulated.of(each) for each in shapes]


@pytest.mark.parametrize(("fields", "why"), [
    pytest.param({"pp": 2}, "simulated: pipeline stages wait for each other", id="stages"),
    pytest.param({"sp": 2, "batch": 2}, "simulated: layer.kr.all_gather overlaps with layer.v", id="sequences")])
def test_what_overlaps_is_simulated(fields: dict[str, Any], why: str) -> None:
    simulated, times = both(design(SMALL, **fields))
    assert times.how.startswith(why)
    assert times.of(Shape(2, 200)) == simulated.of(Shape(2, 200))


def test_an_engine_does_one_thing_after_the_other() -> None:
    """Experts that gather the tokens of all data-parallel ranks: the shared one does not run beside the exchange."""
    simulated, tables = both(design({**SMALL, "moe": EXPERTS}, tp=1, dp=2, ep=2, batch=2, exchange="all_gather",
                                    fusion="engine"))
    assert tables.of(Shape(4, 800)) == pytest.approx(simulated.of(Shape(4, 800)), rel=0.005)
    assert tables.how == "steps from tables"


def test_experts_get_the_tokens_of_all_ranks() -> None:
    """A prompt on one of two ranks: its layers have all of it and the links carry it, experts have the mean."""
    base = design({**SMALL, "moe": EXPERTS}, tp=1, dp=2, ep=2, batch=2, exchange="all_gather", fusion="engine",
                  measured=False)
    simulated, tables = both(base)
    times, busy = Times(base, simulated.replica), Shape(0, 0, ((4096, 0, 1),))
    layers, half = (nodes_of(simulated.replica, packed_of(Shape(0, 0, ((new, 0, 1),))), Forms())
                    for new in (4096, 2048))
    expected = times.of([node for node in layers if "expert_up" not in node.step.name]).sum()
    expected += times.of([node for node in half if "expert_up" in node.step.name]).sum()
    assert tables.of(replace(busy, shared=(2048, 4096))) == pytest.approx(expected, rel=1e-6)
    assert times.of_passes([packed_of(busy)], (2048, 4096)).tolist() == [expected]
    assert expected < 0.9 * tables.of(busy)


def test_what_changes_is_simulated() -> None:
    base = design(SMALL)
    slower = ar.replace(base, "system.changes", [{"at": "1 ms", "npu": 0, "speed": 0.5}])
    assert both(slower)[1].how.startswith("simulated: system.changes")


def test_steps_whose_clock_follows_from_their_mix_are_simulated() -> None:
    _, found = both(ar.replace(design(SMALL), "compute.clock", "sustained"))
    assert isinstance(found, Simulated)
    assert "clock" in found.how


def test_states_of_sequences_are_summed_step_by_step() -> None:
    """A convolution's kernel depends on tokens and sequences together: no table has it."""
    simulated, tables = both(design("mamba2-1.3b", tp=1, measured=False))
    mixed = Shape(3, 300, ((200, 0, 1),))
    assert tables.of(mixed) == simulated.of(mixed)
    assert "summed one by one: layer.convolution" in tables.how


def test_equal_replicas_share_tables() -> None:
    known = dict[tuple[object, ...], Any]()
    served = serve(design(SMALL, dp=2, batch=2), ClosedLoop(concurrency=2, count=2, prompt=100, output=4), known=known)
    assert served.how == "steps from tables"
    assert [key[0] for key in known] == ["tables"]


def test_a_kernel_of_tables_keeps_its_operator() -> None:
    """A norm of eager PyTorch takes the time of its rows, which the operator names."""
    replica = replica_of(Inference(model=SMALL, phase="decode", context=1, operators="eager"))
    norm = replica.pieces(packed_of(Shape(8, 800))).blocks[1].forward.steps[0]
    assert norm.kernel is not None
    assert norm.kernel.op == "rms_norm"
    found = kernels_of(norm, np.array([numbers_of(norm)]), 0)
    assert found.kernel(0) == whole_kernel(norm.kernel, norm.flops, norm.bytes)
