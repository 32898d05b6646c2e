"""Serving with step times that are simulated."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Run
from tests.report.test_pages import checked

import astrarium as ar
from astrarium import catalog
from astrarium.cli.dispatch import dispatch
from astrarium.compute.measured import Measured
from astrarium.errors import InputError
from astrarium.serving import Buckets, ClosedLoop, Poisson, Policy, serve
from astrarium.serving.batch import Batch
from astrarium.serving.job import Job
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.disaggregated import Disaggregated
from astrarium.workload.inference.footprint import CacheBlocks
from astrarium.workload.inference.speculative import expected_tokens


def design(device: str, link: str, **fields: Any) -> ar.Design:
    chip = catalog.device(device)
    work = Inference(**{"phase": "decode", "context": 1, "tp": 8, **fields})
    return ar.Design(workload=work, compute=ar.Roofline(**chip.compute), memory=ar.Memory(**chip.memory),
                     network=ar.Network([ar.Switch(work.ranks, bandwidth=link, latency="500 ns")]))


def makespan(base: ar.Design, **fields: Any) -> int:
    """Of a batch that starts together on the same system."""
    work = base.workload
    assert isinstance(work, Inference)
    return ar.simulate(ar.replace(base, "workload", Inference(work.model, tp=work.tp, **fields))).makespan_ps


EXACT = Buckets(context=1)


def near(times: list[int]) -> Any:
    """Times within what tables are off of a simulation where nothing jumps."""
    return pytest.approx(times, rel=1e-5)


def test_one_request_takes_its_prefill_and_its_steps() -> None:
    base = design("h100_sxm", "450 GB/s", model="llama3-8b")
    served = serve(base, ClosedLoop(concurrency=1, count=1, prompt=500, output=9), Policy(), EXACT)
    assert served.ttft.tolist() == near([makespan(base, phase="prefill", prompt=500)])
    assert served.gaps.tolist() == near([makespan(base, phase="decode", context=500 + number) for number in range(8)])


def test_requests_that_run_together_take_the_steps_of_their_batch() -> None:
    base = design("h100_sxm", "450 GB/s", model="llama3-8b")
    served = serve(base, ClosedLoop(concurrency=4, count=4, prompt=100, output=5), Policy(), EXACT)
    assert served.ttft.tolist() == near([makespan(base, phase="prefill", prompt=100, batch=4)] * 4)
    assert served.gaps.tolist()[::4] == near([makespan(base, phase="decode", context=100 + n, batch=4)
                                              for n in range(4)])


def test_rounding_up_never_makes_a_server_faster() -> None:
    base = design("h100_sxm", "450 GB/s", model="llama3-8b")
    stream = Poisson(rate=100, count=20, seed=2, prompt=300, output=12)
    exact, rounded = (serve(base, stream, Policy(), buckets) for buckets in (EXACT, Buckets(context=256, batch=4)))
    assert exact.span <= rounded.span < 1.1 * exact.span
    assert float(rounded.tpot.mean()) < 1.05 * float(exact.tpot.mean())


def test_same_inputs_same_answers_with_or_without_what_is_known() -> None:
    base = design("h100_sxm", "450 GB/s", model="llama3-8b", tp=4, pp=2)       # steps are simulated
    stream, known = Poisson(rate=50, count=20, seed=2, prompt=200, output=10), dict[tuple[object, ...], int]()
    one, two = serve(base, stream, known=known), serve(base, stream, known=known)
    assert known
    assert one.summary() == two.summary() == serve(base, stream).summary()


def test_less_memory_means_preemptions() -> None:
    base = design("h100_sxm", "450 GB/s", model="llama3-8b")
    small = ar.replace(base, "memory", ar.Memory(capacity="2.4 GB", bandwidth="3.35 TB/s"))
    stream = ClosedLoop(concurrency=40, count=40, prompt=100, output=500)
    assert serve(base, stream).preemptions == 0
    tight = serve(small, stream, Policy(memory_share=1.0, max_tokens=512))
    assert tight.preemptions > 0
    assert len(tight.finish) == 40
    with pytest.raises(InputError, match="no room"):
        serve(ar.replace(base, "memory", ar.Memory(capacity="2 GB", bandwidth="3.35 TB/s")), stream)


def test_replicas_are_servers() -> None:
    """Two replicas with a request each take as long as one with one."""
    one = serve(design("h100_sxm", "450 GB/s", model="llama3-8b"),
                ClosedLoop(concurrency=1, count=1, prompt=100, output=4), None, EXACT)
    two = serve(design("h100_sxm", "450 GB/s", model="llama3-8b", dp=2, batch=2),
                ClosedLoop(concurrency=2, count=2, prompt=100, output=4), None, EXACT)
    assert two.servers == 2
    assert two.finish.tolist() == one.finish.tolist() * 2


EXPERTS = {"family": "decoder", "layers": 2, "d_model": 1024, "heads": 8, "ffn": 4096, "vocab": 32_000,
           "moe": {"experts": 8, "top_k": 2}}


@pytest.mark.parametrize(("layout", "servers"), [
    ({"tp": 1, "dp": 4, "ep": 4}, 1), ({"tp": 2, "dp": 2, "ep": 4, "exchange": "all_gather"}, 1),
    ({"tp": 1, "dp": 4, "ep": 2}, 2)])
def test_ranks_that_share_experts_are_one_server(layout: dict[str, Any], servers: int) -> None:
    """A request on each rank of dp takes as long as the batch; alone, experts get its prompt only, and the other ranks
    run along as it decodes."""
    base = design("h100_sxm", "450 GB/s", model=EXPERTS, batch=4, **layout)
    work, dp = base.workload, layout["dp"]
    assert isinstance(work, Inference)
    served = serve(base, ClosedLoop(concurrency=dp, count=dp, prompt=100, output=3), None, EXACT)
    steps = [ar.simulate(ar.replace(base, "workload", Inference(work.model, batch=dp, **layout, **fields)))
             for fields in ({"phase": "prefill", "prompt": 100}, {"phase": "decode", "context": 100},
                            {"phase": "decode", "context": 101})]
    assert served.servers == servers
    assert served.finish.tolist() == near([sum(step.makespan_ps for step in steps)] * dp)
    alone = serve(base, ClosedLoop(concurrency=1, count=1, prompt=100, output=3), None, EXACT)
    assert set(alone.gaps.tolist()) == set(served.gaps.tolist())
    assert 0.5 * int(served.ttft[0]) < int(alone.ttft[0]) < int(served.ttft[0])


@pytest.mark.parametrize("layout", [{"pp": 2}, {"pp": 3, "stage_layers": [1, 2, 3]}, {"pp": 2, "dp": 2, "ep": 2}])
def test_a_pipeline_has_a_server_for_each_stage(layout: dict[str, Any]) -> None:
    """A request for each: a step takes as long as a round of as many micro-batches in a full pipeline, that is one pass
    through all stages, or the work of all on the slowest stage."""
    pp, dp = layout["pp"], layout.get("dp", 1)
    base = design("h100_sxm", "450 GB/s", model={**EXPERTS, "layers": 6}, batch=6, **{"tp": 1, **layout})
    work, policy = base.workload, Policy(max_tokens=600)
    assert isinstance(work, Inference)

    def time(**fields: Any) -> int:
        one = Inference(work.model, phase="decode", context=1000, **layout, **fields)
        return ar.simulate(ar.replace(base, "workload", one)).makespan_ps

    full = {"batch": pp * dp, "micro_batches": pp}
    step, latency = time(steps=3, **full) - time(steps=2, **full), time(batch=dp)
    served, alone = (serve(base, ClosedLoop(concurrency=count, count=count, prompt=1000, output=2), policy, EXACT)
                     for count in (pp * dp, 1))
    assert served.servers == pp
    assert set(served.gaps.tolist()) == {step}
    assert latency <= step <= 2 * latency      # the head is on the last stage
    assert alone.gaps.tolist() == [step]


def pools(front: dict[str, Any], back: dict[str, Any], **fields: Any) -> ar.Design:
    """Pools on H100s with slow links between them."""
    work = Disaggregated(**{"model": EXPERTS, "prefill": front, "decode": back, "prompt": 500, "generated": 3,
                            "batch": 4, **fields})
    chip = catalog.device("h100_sxm")
    return ar.Design(workload=work, compute=ar.Roofline(**chip.compute), memory=ar.Memory(**chip.memory),
                     network=ar.Network([ar.Switch(work.ranks, bandwidth="10 GB/s", latency="500 ns")]))


def test_pools_may_share_experts() -> None:
    """The cache goes from the rank of dp that has it to one, so it takes as long as between two single ranks."""
    one = ClosedLoop(concurrency=1, count=1, prompt=500, output=2)
    sent = 2 * 2 * 500 * 1024 * 2 / 10e9 * 1e12         # keys and values of two layers, ps
    for front, back in (({"dp": 4, "ep": 4}, {}), ({}, {"dp": 2, "ep": 2})):
        base = pools(front, back)
        work = base.workload
        assert isinstance(work, Disaggregated)
        alone = ar.Inference(EXPERTS, phase="decode", context=1, batch=front.get("dp", 1), **front)
        there = int(serve(ar.replace_all(base, {"workload": alone, "network.dims[0].npus": alone.ranks}),
                          ClosedLoop(concurrency=1, count=1, prompt=500, output=1), None, EXACT).ttft[0])
        assert int(serve(base, one, None, EXACT).ttft[0]) - there == pytest.approx(sent, rel=0.01)


def test_caches_of_two_workers_share_the_links_of_one() -> None:
    """The second to come waits for as long as the first takes; a run of both has the last there as late."""
    base = pools({"workers": 2}, {}, batch=2, contexts="each")
    served = serve(base, ClosedLoop(concurrency=2, count=2, prompt=500, output=4), None, EXACT)
    first, second = sorted(served.ttft.tolist())
    sent = 2 * 2 * 500 * 1024 * 2 / 10e9 * 1e12
    assert second - first == pytest.approx(sent, rel=0.01)
    run = ar.simulate(base)
    assert second == pytest.approx(run.phases[0].end + 2 * sent, rel=0.01)
    assert served.finish.max() < run.makespan_ps        # whoever is there first does not wait


def test_no_compute_model_is_asked_for_the_time_of_idle_ranks() -> None:
    measured = ar.replace(design("h100_sxm", "450 GB/s", model="llama3-8b", tp=1, dp=2, batch=2), "compute",
                          Measured(device="h100_sxm"))
    one = serve(measured, ClosedLoop(concurrency=1, count=1, prompt=100, output=4), None, EXACT)
    two = serve(measured, ClosedLoop(concurrency=2, count=2, prompt=100, output=4), None, EXACT)
    assert two.finish.tolist() == one.finish.tolist() * 2


def test_pools_hand_over_what_a_batch_hands_over() -> None:
    """One request on disaggregated pools: as the workload's own run, but for the first token's message."""
    work = Disaggregated(model="llama3-8b", prefill={"tp": 4}, decode={"tp": 2}, prompt=500, generated=3,
                         contexts="each")
    chip = catalog.device("h100_sxm")
    base = ar.Design(workload=work, compute=ar.Roofline(**chip.compute), memory=ar.Memory(**chip.memory),
                     network=ar.Network([ar.Switch(6, bandwidth="450 GB/s", latency="500 ns")]))
    run = ar.simulate(base)
    served = serve(base, ClosedLoop(concurrency=1, count=1, prompt=500, output=4), None, EXACT)
    sent = 500 * 128 * 1024 / 2 / 450e9 * 1e12      # into one of two ranks
    assert served.ttft.tolist() == pytest.approx([run.phases[0].end + sent + 500_000], rel=1e-3)
    assert int(served.finish[0]) == pytest.approx(run.makespan_ps, rel=2e-3)


def test_speculation_gives_the_tokens_of_the_closed_form() -> None:
    """(1 - a^(k + 1)) / (1 - a) tokens a step on average; every step is k of the draft and a verification."""
    draft = {"family": "decoder", "layers": 4, "d_model": 1024, "heads": 8, "ffn": 4096, "vocab": 128_256}
    speculation = {"draft": draft, "tokens": 3, "acceptance": 0.7}
    base = design("h100_sxm", "450 GB/s", model="llama3-8b", speculation=speculation)
    stream = ClosedLoop(concurrency=4, count=24, prompt=50, output=400)
    served = serve(base, stream, Policy(seed=1), Buckets(context=512))
    bursts = int((served.gaps > 0).sum())
    assert len(served.gaps) / bursts == pytest.approx(expected_tokens(0.7, 3), rel=0.02)
    short = ClosedLoop(concurrency=4, count=8, prompt=50, output=50)
    first, again, other = (serve(base, short, Policy(seed=seed), Buckets(context=512)).summary() for seed in (1, 1, 2))
    assert first == again
    assert first != other
    one = serve(base, ClosedLoop(concurrency=1, count=1, prompt=50, output=2), None, EXACT)
    step = Inference("llama3-8b", tp=8, phase="decode", context=50, speculation=speculation)
    assert one.gaps.tolist() == [ar.simulate(ar.replace(base, "workload", step)).makespan_ps]


def test_a_module_for_prediction_drafts() -> None:
    """A step is that of a run; and so it is on ranks that only decode."""
    speculation = {"draft": "mtp", "tokens": 2, "acceptance": 1.0}
    base = design("h100_sxm", "450 GB/s", model=EXPERTS, tp=2, ep=2, speculation=speculation)
    one = Inference(EXPERTS, tp=2, ep=2, phase="decode", context=50, speculation=speculation)
    served = serve(base, ClosedLoop(concurrency=1, count=1, prompt=50, output=4), None, EXACT)
    assert served.gaps.tolist() == [ar.simulate(ar.replace(base, "workload", one)).makespan_ps, 0, 0]
    work = Disaggregated(model=EXPERTS, prefill={}, decode={"tp": 2, "ep": 2}, prompt=50, generated=3,
                         speculation=speculation)
    apart = ar.Design(workload=work, compute=base.compute, memory=base.memory,
                      network=ar.Network([ar.Switch(3, bandwidth="450 GB/s", latency="500 ns")]))
    found = serve(apart, ClosedLoop(concurrency=1, count=1, prompt=50, output=4), None, EXACT)
    assert found.gaps.tolist() == served.gaps.tolist()


@pytest.mark.shared
@pytest.mark.parametrize("longest", [200, pytest.param(20_000, marks=pytest.mark.exam)])
def test_the_roofline_beside_what_was_measured(shared: Path, longest: int) -> None:
    """Reported, not fitted: NVIDIA's table of Llama 3.3 70B on 8 A100. The roofline (every kernel at its peak or its
    bandwidth, no launch or host time) is a bound from below for the time between tokens, within a factor of 2.5."""
    with (shared / "reference" / "validation_inference.csv").open(encoding="utf-8") as file:
        rows = {(int(r["isl"]), int(r["osl"]), int(r["concurrency"]), r["metric"]): float(r["value"])
                for r in csv.DictReader(file) if r["source"].startswith("NVIDIA NIM") and r["gpu"] == "A100"}
    base, known = design("a100_sxm_80gb", "300 GB/s", model="llama3-70b"), dict[tuple[object, ...], int]()
    ratios = []
    for isl, osl, users in sorted({key[:3] for key in rows if key[0] <= longest}):
        served = serve(base, ClosedLoop(concurrency=users, count=2 * users, prompt=isl, output=osl), Policy(),
                       Buckets(context=256), known=known)
        found = served.summary()
        ratios.append(found["itl_mean_ns"] / 1e6 / rows[isl, osl, users, "ITL"])
    assert len(ratios) == (15 if longest > 200 else 3)
    assert all(0.4 < ratio < 1.0 for ratio in ratios), ratios


def test_the_command(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    path = str(root / "examples" / "inference" / "chat.yaml")
    assert dispatch(["serve", path, "--set", "requests.count=5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["requests"] == 5
    assert found["good_share"] == 1.0
    assert dispatch(["serve", path, "--set", "requests.count=5"]) == 0
    assert "TTFT" in capsys.readouterr().out
    assert dispatch(["serve", path, "--set", "requests.rate=-1"]) == 1
    assert "requests.rate" in capsys.readouterr().err


def test_the_page(run: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "examples" / "inference")
    shown = tmp_path / "serve.html"
    said = run("serve", "chat.yaml", "--set", "requests.count=100", "--html", shown)
    assert said.code == 0, said.err
    text = shown.read_text()
    checked(text)
    assert text.count("<svg") == 8
    assert text.count("request ") >= 24
    assert "99 %" in text


def test_the_command_finds_the_rate(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "examples" / "inference")
    words = ["serve", "chat.yaml", "--set", "requests.count=80", "--set", "requests.rate=60"]
    said = run(*words, "--find", "rate", "--slo", "tpot_mean=1.5ms", "--json")
    assert said.code == 0, said.err
    plain = json.loads(said.out)
    found, slower = plain["find"]["requests_per_s"], plain["find"]["requests_per_s_with_longer_steps"]
    assert slower < found
    assert plain["tpot_mean_ns"] <= 1.5e6
    at = json.loads(run(*words[:-1], f"requests.rate={found * 1.011}", "--json").out)
    assert at["tpot_mean_ns"] > 1.5e6
    assert run(*words, "--slo", "tpot_mean=1.5ms").code == 1
    assert run(*words, "--find", "rate").code == 1
    assert "no rate holds" in run(*words, "--find", "rate", "--slo", "tpot_mean=1us").err



@pytest.mark.parametrize("model", ["qwen3-next-80b-a3b", "mamba2-2.7b", "gpt-oss-20b", "llama4-scout"])
def test_hybrids_and_windows_are_served(model: str) -> None:
    """Sequences with states of a fixed size, or layers with a window, beside or in place of a growing cache."""
    base = design("h200_sxm", "450 GB/s", model=model, tp=4)
    served = serve(base, ClosedLoop(concurrency=3, count=3, prompt=100, output=3), Policy(), Buckets(context=64))
    assert len(served.finish) == 3
    assert served.preemptions == 0


@pytest.mark.parametrize("held", [
    CacheBlocks(1000, 16, fixed=3.2), CacheBlocks(1000, 16, windows=((3, 0.5),)), CacheBlocks(1000, 16, False, 1.0),
    CacheBlocks(1000, 16, fixed=0.4, windows=((2, 0.25), (9, 0.5)))])
def test_a_batch_takes_the_blocks_that_its_sequences_come_to_hold(held: CacheBlocks) -> None:
    """Step by step: what is needed adds up to what the sequence holds with as many tokens; leaving takes it back."""
    batch = Batch(16, held=held)
    job = Job(number=0, prompt=30, output=200, todo=30, done=30, generated=1)
    job.held.own = held.of(30)
    batch.join(job)
    taken = held.of(30)
    for tokens in range(31, 150):
        taken += batch.need()
        assert taken == held.of(tokens)
        batch.advance(1)
    batch.leave(job)
    assert (job.held.blocks, job.done) == (held.of(149), 149)
    assert not batch.needs[batch.clock - batch.base:].any()
