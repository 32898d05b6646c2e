"""The clock of a server, with step times that are given: closed forms, and what must hold whatever comes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.serving.every_step import EveryStep

import astrarium as ar
from astrarium.errors import InputError
from astrarium.serving import ClosedLoop, Objective, Poisson, Policy, Served
from astrarium.serving.batch import Batch, Draw
from astrarium.serving.cache import Blocks
from astrarium.serving.fleet import Fleet, Instance
from astrarium.serving.gate import Gate
from astrarium.serving.links import Links
from astrarium.serving.loop import run as answer
from astrarium.serving.outcome import mean_of, percentiles
from astrarium.serving.record import Gaps
from astrarium.serving.requests import Requests, requests_of
from astrarium.serving.scheduler import Scheduler
from astrarium.serving.server import Server, costs_of
from astrarium.serving.settings import refuse_or_note
from astrarium.serving.shape import Shape

MS = 10**9
MANY = 10**9        # blocks: room for everybody


class Given:
    """Step times by a function of their shape."""

    def __init__(self, of: Callable[[Shape], int]):
        self.of = of

    @property
    def how(self) -> str:
        return "given"

    def decoding(self, count: int, context: int, steps: int, padding: int = 0, /) -> npt.NDArray[np.int64]:
        return np.array([self.of(Shape(count, context + step * count, (), padding)) for step in range(steps)])


def server(policy: Policy, blocks: int, of: Callable[[Shape], int], guesses: int = 0, draw: Draw | None = None,
           gate: Gate | None = None) -> Server:
    cache = Blocks(blocks, policy.block, reuse=policy.prefix_cache)
    return Server(Scheduler(policy, cache, Batch(policy.block, guesses, draw), gate=gate), Given(of))


def one_of(*servers: Server, **fields: Any) -> Fleet:
    """One instance of some servers."""
    return Fleet([Instance(servers, **fields)])


def run(stream: Requests, policy: Policy, blocks: int, of: Callable[[Shape], int]) -> Served:
    """One server."""
    return answer(stream, one_of(server(policy, blocks, of)))


def fixed(step: int) -> Callable[[Shape], int]:
    return lambda _: step


def requests(*rows: tuple[int, int, int]) -> Requests:
    """(arrival in ms, prompt, output) of each."""
    table = np.array(rows, np.int64).reshape(-1, 3)
    return Requests(table[:, 0] * MS, table[:, 1], table[:, 2])


def test_one_request() -> None:
    """TTFT is the time of its prefill, TPOT that of a step."""
    served = run(requests((5, 100, 11)), Policy(), MANY, lambda step: 7 * MS if step.prompts else 2 * MS)
    assert served.ttft.tolist() == [7 * MS]
    assert served.tpot.tolist() == [2 * MS]
    assert served.finish.tolist() == [(5 + 7 + 10 * 2) * MS]
    assert served.gaps.tolist() == [2 * MS] * 10
    assert served.steps == 11


def test_a_full_server_gives_a_batch_of_tokens_per_step() -> None:
    served = run(requests_of(ClosedLoop(concurrency=32, count=320, prompt=10, output=200)), Policy(max_batch=32), MANY,
                 fixed(10 * MS))
    assert served.rates(None)["output_tokens_per_s"] == pytest.approx(32 / 0.01, rel=0.01)


@pytest.mark.parametrize("load", [pytest.param(0.3, marks=pytest.mark.exam), 0.8])
def test_prompts_alone_are_an_m_d_1_queue(load: float) -> None:
    """One prompt fills a step, one token is the answer: waiting takes load / (2 (1 - load)) service times on average
    (Pollaczek and Khinchine), and each request waits as Lindley's recursion says."""
    service = 0.01
    stream = requests_of(Poisson(rate=load / service, count=40_000, seed=3, prompt=100, output=1))
    served = run(stream, Policy(max_tokens=100), MANY, fixed(round(service * 1e12)))
    wait = float(served.ttft.mean()) / 1e12 - service
    assert wait == pytest.approx(load / (2 * (1 - load)) * service, rel=0.05)
    waits, spent = [0], round(service * 1e12)
    for gap in np.diff(stream.arrival).tolist():
        waits.append(max(0, waits[-1] + spent - gap))
    assert (served.ttft - spent).tolist() == waits


def test_chunks_share_steps_with_decoding() -> None:
    """1,000 tokens of prompt in steps of 300 beside one token of the other request: 4 steps; nobody waits longer."""
    served = run(requests((0, 10, 20), (3, 1000, 2)), Policy(max_tokens=300), MANY, fixed(2 * MS))
    assert served.first.tolist() == [2 * MS, (4 + 2 * 4) * MS]
    assert set(served.gaps.tolist()) == {2 * MS}


def test_a_step_that_was_scheduled_ahead_has_nobody_new() -> None:
    """Steps of 2 ms; who comes at 5 ms, during the third, is in the fifth; who comes to an idle server, at once."""
    served = run(requests((0, 10, 20), (5, 10, 2), (7, 10, 2), (100, 10, 2)), Policy(ahead=True), MANY, fixed(2 * MS))
    assert served.ttft.tolist() == [2 * MS, 5 * MS, 5 * MS, 2 * MS]


@pytest.mark.parametrize(("gate", "later", "first"), [
    pytest.param(Gate(10, 2), [20.5], [22], id="ten steps were over"),
    pytest.param(Gate(10, 2), [21.5], [32], id="ten steps"),
    pytest.param(Gate(10, 2), [21.5, 25.5], [27, 27], id="the other rank has one, too"),
    pytest.param(Gate(10, 1, 999), [21.5], [33], id="ten steps from the first that waits"),
    pytest.param(Gate(10, 1, 22), [21.5, 25.5], [27, 27], id="enough tokens"),
    pytest.param(Gate(10, 1, 999), [200.5], [201.5], id="nobody decodes")])
@pytest.mark.parametrize("single", [False, True])
def test_prompts_wait_for_others(gate: Gate, later: list[float], first: list[float], single: bool) -> None:
    """Two requests decode from 1 ms on, in steps of 1 ms."""
    gate = Gate(gate.steps, gate.ranks, gate.tokens)
    stream = requests((0, 10, 100), (0, 10, 100), *((0, 10, 5) for _ in later))
    stream.arrival[2:] = (np.array(later) * MS).astype(np.int64)
    fleet = one_of(server(Policy(schedule="inflight"), MANY, fixed(MS), gate=gate))
    served = answer(stream, fleet, single=single)
    assert (served.first / MS).tolist() == [1, 1, *first]
    assert (gate.have, gate.asking) == ([0] * gate.ranks, [0] * gate.ranks)


@pytest.mark.parametrize(("later", "first"), [([20.5], [22]), ([21.5], [32]), ([21.5, 31.5], [32, 33]),
                                              ([21.5, 32.5, 33], [32, 43, 43]), ([200.5], [201.5])])
@pytest.mark.parametrize("single", [False, True])
def test_an_engine_looks_for_requests_now_and_then(later: list[float], first: list[float], single: bool) -> None:
    """Two requests decode from 1 ms on, in steps of 1 ms; it looks after every ten, and after a step with prompts."""
    stream = requests((0, 10, 100), (0, 10, 100), *((0, 10, 5) for _ in later))
    stream.arrival[2:] = (np.array(later) * MS).astype(np.int64)
    fleet = one_of(server(Policy(schedule="prefill_first"), MANY, fixed(MS), gate=Gate(10, polls=True)))
    assert (answer(stream, fleet, single=single).first / MS).tolist() == [1, 1, *first]


def test_only_an_engine_whose_prompts_go_first_polls(root: Path) -> None:
    design = ar.load_design(root / "examples" / "inference" / "h100.yaml")
    with pytest.raises(InputError, match="prefill_first"):
        list(refuse_or_note(design, Policy(poll=10)))
    assert not list(refuse_or_note(design, Policy(poll=10, schedule="prefill_first")))


def test_whole_prompts_stall_decoding() -> None:
    policy = Policy(schedule="prefill_first", max_tokens=2000)
    served = run(requests((0, 10, 20), (3, 1000, 2)), policy, MANY, lambda step: 8 * MS if step.prompts else 2 * MS)
    assert served.first.tolist() == [8 * MS, 16 * MS]
    assert sorted(set(served.gaps.tolist())) == [2 * MS, 10 * MS]


def test_who_was_admitted_last_gives_way_and_starts_again() -> None:
    """4 blocks of 4 tokens, two requests of 4 + 9: both start; when neither gets a third block, the second goes."""
    policy = Policy(block=4, max_tokens=100)
    served = run(requests((0, 4, 9), (0, 4, 9)), policy, 4, fixed(MS))
    assert served.preemptions == 1
    assert served.finish.tolist() == [9 * MS, 13 * MS]     # 5 tokens each, 4 of the first; then 4 of the second
    assert served.preempted.tolist() == [0, 1]


def test_who_can_never_run_is_refused() -> None:
    with pytest.raises(InputError, match="cache"):
        run(requests((0, 100, 1)), Policy(block=16), 6, fixed(MS))
    with pytest.raises(InputError, match="max_tokens"):
        run(requests((0, 100, 1)), Policy(schedule="prefill_first", max_tokens=99), MANY, fixed(MS))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60), st.integers(1, 30)), min_size=1, max_size=12),
       st.sampled_from(["chunked", "prefill_first"]), st.integers(1, 6), st.integers(90, 200), st.integers(6, 40))
@settings(max_examples=100)
def test_everybody_is_answered_and_no_bound_is_broken(rows: list[tuple[int, int, int]], schedule: str, batch: int,
                                                     tokens: int, blocks: int) -> None:
    policy = Policy(schedule=schedule, max_batch=batch, max_tokens=tokens, block=16)
    stream = requests(*sorted(rows))
    seen: list[int] = []

    def timed(step: Shape) -> int:
        assert step.count + len(step.prompts) <= batch
        assert 0 < step.count + sum(part[0] for part in step.prompts) <= tokens
        assert step.context + step.count + sum(part[0] + part[1] for part in step.prompts) <= blocks * 16
        seen.append(step.count + sum(part[0] for part in step.prompts))
        return MS

    one = server(policy, blocks, timed)
    served = answer(stream, one_of(one), single=True)
    assert_empty(one, blocks)
    assert served.steps == len(seen)
    assert served.tokens == sum(seen)
    assert (served.first > served.arrival).all()
    assert (served.finish >= served.first).all()
    assert len(served.gaps) == int((stream.output - 1).sum())
    if served.preemptions == 0:
        assert sum(seen) == int((stream.prompt + stream.output - 1).sum())
    if schedule == "chunked" and served.preemptions == 0 and len(set(stream.output.tolist())) == 1:
        assert (np.diff(served.first) >= 0).all()       # first come, first served


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60), st.integers(1, 90)), min_size=1, max_size=12),
       st.sampled_from(["chunked", "inflight", "prefill_first"]), st.sampled_from([None, 7, 200]),
       st.tuples(st.integers(1, 6), st.integers(150, 200), st.integers(10, 40), st.sampled_from([1, 4, 16])),
       st.tuples(st.booleans(), st.booleans()), st.sampled_from([None, 1, 3]))
def test_jumps_give_what_every_step_gives(rows: list[tuple[int, int, int]], schedule: str, chunk: int | None,
                                          bounds: tuple[int, int, int, int], flags: tuple[bool, bool],
                                          users: int | None) -> None:
    (batch, tokens, blocks, block), (reserve, ahead) = bounds, flags
    blocks *= 16 // block
    policy = Policy(schedule=schedule, max_batch=batch, max_tokens=tokens, chunk=chunk, block=block, ahead=ahead,
                    reserve=float(reserve), prefix_cache=False)
    stream = requests(*sorted(rows))
    if users is not None:
        stream = Requests(stream.arrival * 0, stream.prompt, stream.output, users)

    def of(step: Shape) -> int:
        prompts = sum(10**7 * new + past for new, past, _ in step.prompts)
        return 10**8 + 10**6 * step.count + 10**4 * step.context + prompts

    one = server(policy, blocks, of)
    found, oracle = answer(stream, one_of(one)), EveryStep(stream, policy, blocks, of)
    oracle.run()
    assert found.arrival.tolist() == [each.arrival for each in oracle.all]
    assert found.first.tolist() == [each.first for each in oracle.all]
    assert found.finish.tolist() == [each.finish for each in oracle.all]
    assert sorted(found.gaps.tolist()) == sorted(oracle.gaps)
    assert (found.steps, found.preemptions) == (oracle.steps, oracle.preemptions)
    assert_empty(one, blocks)


def assert_empty(one: Server, blocks: int) -> None:
    """Nobody holds anything after the last answer."""
    scheduler, cache = one.scheduler, one.scheduler.cache
    assert cache.free == cache.total == blocks
    assert cache.idle == sum(node.length for node in cache.left.values())
    assert not any(node.users for node in cache.nodes.values())
    assert (scheduler.load, scheduler.growth, scheduler.handing) == (0, 0, 0)
    assert not scheduler.batch.needs[scheduler.batch.clock - scheduler.batch.base:].any()


def fleet(front: int, back: int, policy: Policy, *, prompt: int, step: int, handed: int, blocks: int = MANY) -> Fleet:
    """Servers whose steps take `prompt` ps with and `step` ps without prompts."""
    sides = [[server(policy, blocks, lambda each: prompt if each.prompts else step) for _ in range(count)]
             for count in (front, back)]
    return Fleet([Instance(*sides, links=Links(lambda *_: handed, lambda *_: {}) if back else None)])


def test_a_cache_that_is_handed_over_costs_its_way_once() -> None:
    served = answer(requests((5, 100, 11)), fleet(1, 1, Policy(), prompt=7 * MS, step=2 * MS, handed=3 * MS))
    assert served.ttft.tolist() == [10 * MS]
    assert served.gaps.tolist() == [2 * MS] * 10
    assert served.servers == 2


def test_caches_follow_each_other_on_their_links() -> None:
    """Two into one server: the second waits for the first. Out of one with twice the links: its way out is free after
    half of the time."""
    links = Links(lambda front, back, tokens: 10 * tokens, lambda front, back: {("out", front): 0.5, ("in", back): 1.0})
    assert links.of(0, 0, 100, 0) == 1000
    assert links.of(1, 0, 100, 200) == 800 + 1000
    assert links.of(0, 1, 100, 0) == 500 + 1000
    assert links.of(2, 2, 100, 300) == 1000
    assert links.of(1, 0, 100, 9000) == 1000


def test_prompts_elsewhere_never_stall_decoding() -> None:
    """The point of disaggregation: gaps are steps of decode, whatever comes in; on one server they are not."""
    stream = requests_of(Poisson(rate=50, count=300, seed=5, prompt=1000, output=50))
    policy = Policy(schedule="prefill_first", max_tokens=2000)
    apart = answer(stream, fleet(1, 1, policy, prompt=15 * MS, step=2 * MS, handed=MS))
    together = answer(stream, fleet(1, 0, policy, prompt=15 * MS, step=2 * MS, handed=0))
    assert apart.gaps.max() <= 5 * MS       # handed over, the rest of a step, its own step
    assert np.quantile(together.gaps, 0.99) >= 15 * MS


def test_requests_go_to_the_server_with_the_fewest() -> None:
    one = answer(requests(*[(0, 10, 5)] * 8), fleet(1, 0, Policy(max_batch=1), prompt=MS, step=MS, handed=0))
    four = answer(requests(*[(0, 10, 5)] * 8), fleet(4, 0, Policy(max_batch=1), prompt=MS, step=MS, handed=0))
    assert one.span == pytest.approx(4 * four.span)
    assert four.ttft.tolist() == [MS] * 4 + [6 * MS] * 4


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60), st.integers(1, 30)), min_size=1, max_size=12),
       st.integers(1, 3), st.integers(1, 3), st.integers(6, 12), st.integers(0, 3))
@settings(max_examples=60)
def test_apart_everybody_is_answered_too(rows: list[tuple[int, int, int]], front: int, back: int, blocks: int,
                                         handed: int) -> None:
    servers = fleet(front, back, Policy(max_batch=4, max_tokens=100), prompt=3 * MS, step=MS, handed=handed * MS,
                    blocks=blocks)
    stream = requests(*sorted(rows))
    served = answer(stream, servers)
    assert len(served.gaps) == int((stream.output - 1).sum())
    for each in servers.servers:
        assert_empty(each, blocks)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60), st.integers(1, 30)), min_size=1, max_size=12),
       st.integers(1, 3), st.integers(7, 12), st.lists(st.integers(1, 4), min_size=1, max_size=5))
@settings(max_examples=60)
def test_guesses_have_room_and_nobody_gets_more_than_was_asked_for(rows: list[tuple[int, int, int]], guesses: int,
                                                                   blocks: int, yielded: list[int]) -> None:
    def timed(step: Shape) -> int:
        assert step.context + step.count * (1 + guesses) <= blocks * 16
        assert step.count * (1 + guesses) + sum(part[0] for part in step.prompts) <= 100
        return MS

    given = np.minimum(np.array(yielded), guesses + 1)
    one = server(Policy(max_tokens=100), blocks, timed, guesses, lambda steps: np.resize(given, steps))
    stream = requests(*sorted(rows))
    served = answer(stream, one_of(one))
    assert len(served.gaps) == int((stream.output - 1).sum())
    assert_empty(one, blocks)


def test_goodput_counts_requests_that_keep_every_promise() -> None:
    zeros = np.zeros(3, np.int64)
    served = Served(zeros, np.array([1, 3, 1]) * MS, np.array([11, 13, 41]) * MS, zeros + 1, zeros + 11, zeros,
                    zeros[:0], zeros[:0], zeros[:0].astype(np.int32), 1, MS, 1, 0)
    assert served.good(Objective(ttft="2 ms", tpot="2 ms")).tolist() == [True, False, False]
    assert served.good(Objective(ttft="2 ms")).tolist() == [True, False, True]
    assert served.goodput(Objective(tpot="1 ms")) == pytest.approx(2 / 0.041)
    assert served.summary(Objective(ttft="2 ms"))["good_share"] == pytest.approx(2 / 3)
    assert served.summary()["ttft_p50_ns"] == 1e6
    assert served.summary()["ttft_p99_ns"] == 3e6


def test_gaps_beyond_the_most_keep_their_number_and_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astrarium.serving.record.CHUNK", 1024)
    monkeypatch.setattr("astrarium.serving.record.MOST", 2)
    lengths = np.random.Generator(np.random.PCG64(1)).integers(10**9, 10**11, 5000)
    gaps, ends = Gaps(), np.concatenate(([0], np.cumsum(lengths)))
    for start in range(0, 5000, 40):
        gaps.extend(ends[start:start + 41], 3)
        gaps.add(int(ends[start]), 5 * 10**9, 2)
    _, values, counts = gaps.table()
    assert len(values) < 2500
    assert int(counts.sum()) == 3 * 5000 + 2 * 125
    assert mean_of(values, counts) == pytest.approx((3 * float(lengths.sum()) + 250 * 5e9) / 15_250)
    assert percentiles(values, [50], counts)[0] == pytest.approx(float(np.median(lengths)), rel=0.05)


def test_host_time_padding_and_the_way_to_the_client() -> None:
    """A step of 3 sequences: 1 ms, 2 ms of host and 0.1 ms each; 3 tokens run as a graph of 4, 9 as they are."""
    policy = Policy(overhead="2 ms", sequence_overhead="100 us", stream_offset="5 ms", graphs=[1, 2, 4])
    seen: list[Shape] = []
    one = server(policy, MANY, lambda step: seen.append(step) or MS)      # type: ignore[func-returns-value]
    one.costs = costs_of(policy)
    served = answer(requests((0, 3, 4), (0, 3, 4), (0, 3, 4)), one_of(one, offset=5 * MS), single=True)
    each = 3 * MS + 3 * MS // 10
    assert served.ttft.tolist() == [each + 5 * MS] * 3
    assert served.latency.tolist() == [4 * each + 5 * MS] * 3
    assert [step.padding for step in seen] == [0, 1, 1, 1]
    two = answer(Requests(np.zeros(2, np.int64), np.full(2, 3), np.full(2, 1), 1),
                 one_of(server(Policy(), MANY, fixed(MS)), offset=5 * MS))
    assert two.arrival.tolist() == [0, 6 * MS]
