"""Inference that runs: phases, sums, pipelines, memory, speculation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.workload.checks import check
from tests.workload.inference.systems import design, inference

import astrarium as ar
from astrarium import config
from astrarium.errors import InputError
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.disaggregated import Disaggregated
from astrarium.workload.inference.footprint import inference_footprint, max_batch
from astrarium.workload.inference.passes import inference as generated
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.inference.speculative import expected_tokens, improvement
from astrarium.workload.inference.use_cases import USE_CASES

SMALL = {"family": "decoder", "layers": 4, "d_model": 256, "heads": 8, "kv_heads": 4, "ffn": 512, "vocab": 1000}


def makespan(workload: Inference, **system: Any) -> int:
    return ar.simulate(design(workload, **system)).makespan_ps


@pytest.mark.parametrize("fields", [
    {}, {"tp": 8}, {"tp": 4, "sp": 2}, {"pp": 4}, {"pp": 2, "tp": 2, "micro_batches": 2}, {"dp": 2, "chunk": 32},
    {"model": SMALL, "tp": 8, "attention": "unfused"}, {"fusion": False}, {"compression": {"keep": 0.5, "share": 2}},
    {"speculation": {"draft": SMALL, "tokens": 3, "acceptance": 0.7}, "tp": 2}])
def test_every_layout_is_consistent_and_runs(fields: dict[str, Any]) -> None:
    work = inference(**{"batch": 4, "prompt": 64, "generated": 6, "contexts": "each", **fields})
    check(generated(work))
    result = ar.simulate(design(work))
    assert [phase.name for phase in result.phases] == ["prefill", "decode"]
    assert result.phases[-1].end == result.makespan_ps
    assert float(np.nanmax(result.memory.peak)) <= max(stage.total for stage in inference_footprint(work))
    assert generated(work).classes[0].names is not None


def test_a_request_is_its_prefill_and_its_decode_steps() -> None:
    """COSMIC's sum: prefill + n decode steps at the mean context; and each at its own."""
    shape = {"tp": 4, "batch": 2}
    prefill = makespan(inference(phase="prefill", prompt=100, **shape))
    mean = makespan(inference(phase="decode", prompt=100, generated=20, **shape))
    assert makespan(inference(prompt=100, generated=20, **shape)) == prefill + 20 * mean
    each = sum(makespan(inference(phase="decode", context=100 + number, **shape)) for number in range(20))
    assert makespan(inference(prompt=100, generated=20, contexts="each", **shape)) == prefill + each
    assert abs(each / 20 - mean) < 1e-3 * mean


def test_a_pass_takes_at_least_what_its_host_launches() -> None:
    """Eager PyTorch, a layer: 11 products, norms, sums and activations, 7 kernels for each rotary position, appends to
    the cache, attention and its copy. The GPU needs 4.8 ms of a step (16 GB at 3.35 TB/s), but 89 ms of the prompt."""
    eager = {"operators": "eager", "host_launch": "40 us"}
    steps = makespan(inference(phase="decode", context=100, steps=3, **eager))
    launches = 32 * (13 + 2 * 7 + 2 + 2) + 6
    assert steps / 1e6 == pytest.approx(3 * (40 * launches + 1), abs=3)       # and 1 us to see that the GPU is done
    prompt = {"phase": "prefill", "prompt": 4096, "batch": 2}
    alone = makespan(inference(operators="eager", **prompt))
    assert makespan(inference(**eager, **prompt)) == alone + 10**6
    split = {"source": "disaggregated", "model": "llama3-8b", "prompt": 64, "generated": 3, "prefill": {},
             "decode": {}, **eager}
    apart = ar.simulate(design(config.decode(Disaggregated, split)))
    assert apart.makespan_ps / 1e6 > 4 * 40 * launches
    with pytest.raises(InputError, match="has no effect with operators: eager"):
        inference(phase="decode", context=100, fusion="engine", **eager)
    with pytest.raises(InputError, match="has no effect with operators: fused"):
        inference(phase="decode", context=100, fused_weights=True)


def test_mixed_contexts_are_their_sum() -> None:
    """Without a window a step depends on the contexts' sum alone; with equal ones it is the plain step."""
    shape = {"phase": "decode", "tp": 4, "batch": 4, "steps": 3}
    mixed = makespan(inference(mix=[10, 2000, 500, 90], **shape))
    assert mixed == makespan(inference(mix=[650, 650, 650, 650], **shape))
    first = makespan(inference(mix=[700] * 4, **{**shape, "steps": 1}))
    assert first == makespan(inference(context=700, **{**shape, "steps": 1}))
    window = {"model": "mistral-7b", **shape, "steps": 1}
    assert makespan(inference(mix=[1, 1, 1, 12_000], **window)) < makespan(inference(mix=[3000] * 4, **window))


def test_ttft_and_tpot_are_said() -> None:
    result = ar.simulate(design(inference(tp=4, batch=2, prompt=100, generated=20)))
    summary = result.summary()
    assert summary["ttft_ns"] + 20 * summary["tpot_ns"] == pytest.approx(summary["makespan_ns"], rel=1e-12)


def test_one_gpu_decodes_at_the_speed_of_its_memory() -> None:
    """A decode step of one sequence moves the weights, but for the embedding's rows, and the cache once."""
    work = inference(phase="decode", context=1000)
    replica = replica_of(work)
    least = (replica.weight_bytes(0) - 128_256 * 4096 * 2 + 1001 * 128 * 1024) / 3350e9
    assert least < makespan(work) / 1e12 < 1.005 * least


def test_prefill_runs_at_the_peak() -> None:
    """2 FLOPs per weight and token, and the scores: GEMMs at the peak; the rest goes to elementwise work."""
    tokens = 4096
    least = (2 * 6_979_321_856 * tokens + 32 * 4 * (tokens * (tokens + 1) / 2) * 4096) / 989.4e12
    assert least < makespan(inference(phase="prefill", prompt=tokens)) / 1e12 < 1.25 * least


def test_pipeline_of_equal_stages() -> None:
    """m micro-batches through s equal stages take (m + s - 1) stage times (GPipe, forward only); links are free."""
    free = {"link": "1000000 GB/s", "latency": "0 ns"}
    shape = {"model": {**SMALL, "layers": 8}, "phase": "prefill", "prompt": 512}
    whole = makespan(inference(batch=1, **shape), **free)
    one = makespan(inference(batch=1, pp=4, **shape), **free)
    many = makespan(inference(batch=8, pp=4, micro_batches=8, **shape), **free)
    assert one == pytest.approx(whole, rel=0.01)
    stage = one / 4
    assert many == pytest.approx((8 + 3) * stage, rel=0.1)      # the head makes the last stage a little longer


def test_decode_on_a_pipeline_waits_for_the_token() -> None:
    """With one micro-batch a step passes all stages; with as many as stages they hide behind each other."""
    shape = {"phase": "decode", "context": 500, "pp": 4, "batch": 8}
    one, ten = (makespan(inference(steps=steps, **shape)) for steps in (1, 10))
    assert ten == pytest.approx(10 * one, rel=0.01)
    overlapped = makespan(inference(steps=10, micro_batches=4, **shape))
    assert overlapped > ten     # bound by memory: every micro-batch reads all weights
    alone = makespan(inference(steps=10, **{**shape, "batch": 2}))
    assert overlapped < 4 * alone * 0.45


def test_the_cache_grows_to_what_the_footprint_says() -> None:
    work = inference(tp=8, batch=16, prompt=200, generated=50, contexts="each")
    result, held = ar.simulate(design(work)), inference_footprint(work)[0]
    cache = 16 * 250 * 128 * 1024 / 8
    assert held.cache == cache
    _times, size = result.memory.over_time(0)
    assert size[0] >= held.weights
    assert size[-1] == pytest.approx(held.weights + cache, rel=1e-6)


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    work = inference(tp=2, prompt=2000, generated=100, phase="request")
    count = max_batch(work, 80e9)
    assert count > 100
    for batch, fits in ((count, True), (count + 1, False)):
        assert all(each.total <= 80e9 for each in inference_footprint(ar.replace(work, "batch", batch))) == fits
    assert max_batch(work, 8e9) == 0


@pytest.mark.parametrize(("acceptance", "tokens"), [(0.0, 1), (0.5, 3), (0.8, 4), (0.95, 8), (1.0, 5)])
def test_expected_tokens_of_a_verification(acceptance: float, tokens: int) -> None:
    """The sum over how many guesses are accepted before the first that is not, and one token of the model's own."""
    chances = [acceptance**k * (1 - acceptance) for k in range(tokens)] + [acceptance**tokens]
    assert expected_tokens(acceptance, tokens) == pytest.approx(sum(p * (k + 1) for k, p in enumerate(chances)))


def test_speculation_saves_what_the_closed_form_says() -> None:
    """arXiv 2211.17192, theorem 3.8, with the cost ratio of the simulated steps; exact where verifying costs a step."""
    guesses, acceptance = 4, 0.8
    draft = {"family": "decoder", "layers": 4, "d_model": 1024, "heads": 8, "ffn": 4096, "vocab": 128_256}
    base = {"phase": "decode", "context": 500, "batch": 1}
    plain, guess = makespan(inference(**base)), makespan(inference(model=draft, **base))
    speculation = {"draft": draft, "tokens": guesses, "acceptance": acceptance}
    result = ar.simulate(design(inference(**base, speculation=speculation)))
    found = plain / result.phases[0].per_token
    assert found == pytest.approx(improvement(acceptance, guesses, guess / plain), rel=0.01)
    assert found < improvement(acceptance, guesses, guess / plain)      # verifying takes a little longer


def test_speculation_runs_as_many_rounds_as_it_needs() -> None:
    speculation = {"draft": SMALL, "tokens": 4, "acceptance": 0.8}
    work = inference(batch=1, prompt=50, generated=40, speculation=speculation)
    names = generated(work).classes[0].names
    assert names is not None
    count = len(generated(work).classes[0].type)
    last = names(count - 1)
    assert last.startswith(f"verify.round{2 + 5 * math.ceil(40 / expected_tokens(0.8, 4)) - 1}.")


def test_use_cases_have_sources() -> None:
    assert {name: (case.prompt, case.generated) for name, case in USE_CASES.items()} == {
        "question_answering": (1000, 200), "chat": (3000, 1000), "summarization": (4096, 512),
        "reasoning": (1000, 8000), "code_completion": (1469, 13)}
    assert all(case.source for case in USE_CASES.values())
    assert inference(use_case="question_answering").mean_context == 1100      # COSMIC's decode context
    assert inference(use_case="chat").mean_context == 3500


@pytest.mark.parametrize(("fields", "path", "expected"), [
    ({"tp": 3}, "tp", "2 or 4"), ({"model": SMALL, "tp": 16}, "tp", "8"), ({"batch": 6, "dp": 4}, "batch", "4 or 8"),
    ({"pp": 64}, "pp", "at most 32"), ({"ep": 2, "dp": 2, "batch": 2}, "ep", "1"),
    ({"prompt": None}, "prompt", "a use_case"),
    ({"use_case": "chat"}, "prompt", "no use_case"), ({"context": 5}, "context", "decode"),
    ({"model": "vit-b-16"}, "model", "a decoder"), ({"compression": {"share": 5}}, "compression.share", "4 or 8"),
    ({"compression": {"share": 2}, "pp": 32}, "compression.share", "multiple of 2"),
    ({"speculation": {"draft": SMALL, "tokens": 2, "acceptance": 0.5}, "pp": 2}, "pp", "1, with speculation"),
    ({"use_case": "chat", "prompt": None, "generated": None, "contexts": "each", "model": "llama3-405b",
      "micro_batches": 32, "batch": 32}, "phase", "added up"),
    ({"phase": "decode", "batch": 2, "mix": [5]}, "mix", "2: batch"), ({"mix": [5]}, "mix", "phase: decode"),
    ({"order": "tp-pp"}, "order", "permutation"), ({"stage_layers": [3, 4], "pp": 2}, "stage_layers", "32 in all")])
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], path: str, expected: str) -> None:
    with pytest.raises(ar.InputError) as caught:
        inference(**{"prompt": 10, "generated": 10, **fields})
    assert path in str(caught.value)
    assert expected in str(caught.value) or path == "order"


def test_ranks_must_be_those_of_the_design() -> None:
    work = inference(tp=4, prompt=10, phase="prefill")
    with pytest.raises(ar.InputError, match="ranks"):
        ar.simulate(ar.replace(design(work), "network", ar.Network([ar.Switch(8, bandwidth="1 GB/s", latency="1 us")])))


def test_cosmic_models_divide_as_real_numbers() -> None:
    """GPT3-13B: d 5140, 40 heads, so heads of 128.5; COSMIC's studies divide anything by anything."""
    work = inference(model="cosmic-gpt3-13b", tp=16, batch=256, dp=4, use_case="question_answering", phase="decode",
                     uneven="fractional")
    assert makespan(work) > 0
