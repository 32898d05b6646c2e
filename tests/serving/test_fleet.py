"""Fleets: one router over unlike instances, which go down, start and are added."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.commands import Run
from tests.serving.test_loop import MANY, MS, assert_empty, fixed, one_of, requests, server

import astrarium as ar
from astrarium.errors import InputError
from astrarium.serving import Buckets, ClosedLoop, Lognormal, Poisson, Policy, Served, Tier, load_serving, serve
from astrarium.serving.batch import Batch, Draw
from astrarium.serving.cache import Blocks, Store
from astrarium.serving.fleet import Fleet, Instance, Outages
from astrarium.serving.gate import Gate
from astrarium.serving.links import Links
from astrarium.serving.loop import run as answer
from astrarium.serving.requests import Requests, requests_of
from astrarium.serving.requests.stream import Prefixes
from astrarium.serving.scheduler import Scheduler
from astrarium.serving.server import Server
from astrarium.serving.shape import Shape

Rows = list[tuple[int, int, int]]
ROWS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60), st.integers(1, 30)), min_size=1, max_size=12)
ROUTINGS = st.sampled_from(["fewest", "round_robin", "prefix", "cache_aware"])
CHANGES = st.lists(st.tuples(st.integers(0, 80_000), st.integers(0, 1), st.booleans()), max_size=6)


def timed(step: Shape) -> int:
    prompts = sum(10**7 * new + past for new, past, _ in step.prompts)
    return 10**8 + 10**6 * step.count + 10**4 * step.context + prompts


def instances(count: int, policy: Policy, blocks: int = 40, *, apart: bool = False, startup: int = 0, kind: str = ""
              ) -> list[Instance]:
    """Equal instances of one server, or (`apart`) of two that prefill and one that decodes."""
    guesses, drawn = (2, lambda steps: np.resize([1, 3, 2], steps)) if kind == "guesses" else (0, None)

    def made(guesses: int = 0, draw: Draw | None = None) -> Server:
        return server(policy, blocks, timed, guesses, draw, Gate(5, 1, 70) if kind == "gate" else None)

    if not apart:
        return [Instance([made(guesses, drawn)], startup=startup) for _ in range(count)]
    return [Instance([made(), made()], [made(guesses, drawn)],
                     Links(lambda front, back, tokens: 10**6 * tokens, lambda front, back: {back: 1.0}),
                     startup=startup) for _ in range(count)]


def same(one: Served, other: Served) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name))
               for name in ("arrival", "first", "finish", "preempted", "cached", "retried")
               ) and sorted(one.gaps) == sorted(other.gaps)


@given(ROWS, ROUTINGS, st.integers(1, 4), st.integers(10, 20))
@settings(max_examples=30)
def test_equal_instances_are_replicas(rows: Rows, routing: str, count: int, blocks: int) -> None:
    policy, stream = Policy(max_batch=4, max_tokens=100, routing=routing), requests(*sorted(rows))
    alone = answer(stream, one_of(*(server(policy, blocks, timed) for _ in range(count))))
    apart = answer(stream, Fleet(instances(count, policy, blocks)))
    assert same(alone, apart)
    assert apart.instance is not None
    if routing == "round_robin":
        shares = np.bincount(apart.instance, minlength=count)
        assert shares.max() - shares.min() <= 1


@given(ROWS, CHANGES, st.booleans(), st.booleans(), ROUTINGS,
       st.sampled_from([0, 7 * MS]), st.sampled_from(["", "tight", "guesses", "gate"]), st.booleans())
@settings(max_examples=50)
def test_every_request_is_answered_whatever_goes_down(rows: Rows, changes: Sequence[tuple[int, int, bool]],
                                                      migrate: bool, apart: bool, routing: str, startup: int, kind: str,
                                                      alike: bool) -> None:
    """Instance 2 stays up. Who was lost is sent again, in steps and in jumps alike; nothing is held at the end."""
    policy = Policy(max_batch=4, max_tokens=100, routing=routing)
    stream, found, blocks = requests(*sorted(rows)), list[Served](), 7 if kind == "tight" else 40
    if alike:
        count = len(rows)
        stream = replace(stream, prefixes=Prefixes(np.arange(count + 1), np.zeros(count, np.int64), stream.prompt))
    outages = Outages([(time * 10**6, number, starts) for time, number, starts in changes])
    for single in (False, True):
        parts = instances(3, policy, blocks, apart=apart, startup=startup, kind=kind)
        found.append(answer(stream, Fleet(parts, outages, migrate), single=single))
        for each in (each for part in parts for each in part.servers):
            assert_empty(each, blocks)
    served = found[0]
    assert same(*found)
    assert served.wasted == found[1].wasted
    assert (served.finish >= served.first).all()
    assert (served.first > served.arrival).all()
    tokens = int((stream.output - 1).sum())
    assert tokens <= len(served.gaps) <= tokens + served.wasted
    if migrate:
        assert served.wasted == 0
    if not any(part.failed for part in served.parts):
        assert served.retried is not None
        assert not served.retried.any()


def lindley(arrival: Sequence[int], service: int) -> list[int]:
    """Waits of one queue."""
    waits = [0]
    for gap in np.diff(arrival).tolist():
        waits.append(max(0, waits[-1] + service - gap))
    return waits


def test_unlike_instances_in_turn_are_queues_apart() -> None:
    """One prompt a step, one token: each instance has every third request, and Lindley's recursion gives its waits."""
    services, policy = (9 * MS, 14 * MS, 25 * MS), Policy(max_tokens=100, routing="round_robin")
    stream = requests_of(Poisson(rate=90, count=1000, seed=3, prompt=100, output=1))
    served = answer(stream, Fleet([Instance([server(policy, MANY, fixed(each))]) for each in services]))
    for number, service in enumerate(services):
        mine = slice(number, None, 3)
        assert (served.ttft[mine] - service).tolist() == lindley(stream.arrival[mine].tolist(), service)


def test_the_fewest_requests_lie_between_one_queue_and_queues_apart() -> None:
    """Four equal instances, services of 10 ms with a coefficient of variation of 1: no router waits less than one queue
    before all (Kiefer and Wolfowitz), and one that knows the queues waits less than one that does not."""
    count, waits = 4, dict[str, float]()
    stream = requests_of(Poisson(rate=340, count=1500, seed=3, prompt=Lognormal(mean=100, cv=1), output=1))
    service = stream.prompt * (MS // 10)
    for routing in ("fewest", "round_robin"):
        policy = Policy(max_batch=1, max_tokens=10**6, routing=routing)
        parts = [Instance([server(policy, MANY, lambda step: step.prompts[0][0] * (MS // 10))]) for _ in range(count)]
        waits[routing] = float((answer(stream, Fleet(parts)).ttft - service).mean())
    free, least = [0] * count, list[int]()
    for arrival, lasts in zip(stream.arrival.tolist(), service.tolist(), strict=True):
        free.sort()
        least.append(max(0, free[0] - arrival))
        free[0] = max(free[0], arrival) + lasts
    assert float(np.mean(least)) < waits["fewest"] < 0.7 * waits["round_robin"]


def test_prompts_go_where_their_beginnings_went_unless_that_is_too_much() -> None:
    """70 prompts with one beginning at once: the 66th finds 65 on one instance and none on the other, and so on. What
    begins like less than 0.3 of a prompt does not count."""
    def shares(prefix: int) -> list[int]:
        policy = Policy(routing="cache_aware", max_batch=1)
        parts = [Instance([server(policy, MANY, fixed(MS))]) for _ in range(2)]
        zeros = np.zeros(70, np.int64)
        stream = Requests(zeros, zeros + 100, zeros + 1, prefixes=Prefixes(np.arange(71), zeros, zeros + prefix))
        served = answer(stream, Fleet(parts))
        assert served.instance is not None
        return np.bincount(served.instance, minlength=2).tolist()
    assert shares(40) == [67, 3]
    assert shares(30) == [35, 35]


def pair(outages: Outages, *, migrate: bool = False, startup: int = 0) -> Served:
    """A request of 10 + 20 tokens at 0 on two instances, steps of 1 ms; two more of 1 token at 3 ms and at 40 ms."""
    parts = [Instance([server(Policy(), MANY, fixed(MS))], startup=startup) for _ in range(2)]
    return answer(requests((0, 10, 20), (3, 10, 1), (40, 10, 1)), Fleet(parts, outages, migrate))


def test_who_is_lost_begins_again_or_goes_on() -> None:
    """The first instance goes down at 10.5 ms, in the eleventh step: ten tokens are given."""
    down = Outages([(10 * MS + MS // 2, 0, False)])
    served, gone_on = pair(down), pair(down, migrate=True)
    assert served.finish[0] == 30.5 * MS
    assert served.first[0] == 11.5 * MS
    assert (served.wasted, len(served.gaps)) == (10, 9 + 19)
    assert gone_on.finish[0] == 20.5 * MS
    assert gone_on.first[0] == MS
    assert (gone_on.wasted, gone_on.gaps.max()) == (0, 1.5 * MS)
    for each in (served, gone_on):
        assert each.retried is not None
        assert each.instance is not None
        assert each.retried.tolist() == [1, 0, 0]
        assert each.instance.tolist() == [1, 1, 1]
        assert [part.failed for part in each.parts] == [1, 0]


@pytest.mark.parametrize("shared", [False, True])
def test_only_tiers_of_all_servers_outlive_an_instance(shared: bool) -> None:
    policy = Policy(tiers=[Tier(capacity="1 GB", bandwidth="1 GB/s", shared=shared)])
    store = Store(100, 1.0)
    scheduler = Scheduler(policy, Blocks(60, 16, [store]), Batch(16))
    store.write("key", 5)
    assert scheduler.lose() == []
    assert dict(store.lengths) == ({"key": 5} if shared else {})
    assert store.used == 5 * shared


def test_requests_wait_until_an_instance_has_started() -> None:
    """Both go down; one starts at 45 ms, in 5 ms. Who came first is first."""
    outages = Outages([(4 * MS, 0, False), (4 * MS, 1, False), (45 * MS, 1, True)])
    served = pair(outages, startup=5 * MS)
    assert served.first.tolist() == [51 * MS, 4 * MS, 51 * MS]
    assert [part.down for part in served.parts] == [int(served.finish.max()) - 4 * MS, 46 * MS]
    with pytest.raises(InputError, match="no instance is up, and 2 requests wait"):
        pair(Outages([(4 * MS, 0, False), (4 * MS, 1, False)]))


def test_an_instance_is_added() -> None:
    served = pair(Outages([(30 * MS, 0, True)]), startup=5 * MS)
    assert served.instance is not None
    assert served.instance.tolist() == [1, 1, 0]
    assert [part.failed for part in served.parts] == [0, 0]


def test_failures_at_random_come_at_their_rate() -> None:
    """400 s of two instances of 4 NPUs, which fail every 10 s (40 s of an NPU), and are down for 1 s + 1 s."""
    def served(seed: int) -> Served:
        parts = [Instance([server(Policy(), MANY, fixed(MS))], npus=4, startup=1000 * MS) for _ in range(2)]
        return answer(Requests(np.arange(800) * 500 * MS, np.full(800, 10), np.full(800, 2)),
                      Fleet(parts, Outages(mtbf=40_000 * MS, repair=1000 * MS, seed=seed)))
    one, again, other = served(1), served(1), served(2)
    assert same(one, again)
    assert [part.failed for part in one.parts] != [part.failed for part in other.parts]
    failed = sum(part.failed for each in (one, other) for part in each.parts)
    assert failed == pytest.approx(4 * 400 / 12, rel=0.25)      # 133, give or take 12
    assert sum(part.down for part in one.parts) == pytest.approx(
        2000 * MS * sum(part.failed for part in one.parts), rel=0.05)


def test_a_fleet_in_a_file(run: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries have the policy of the file where they state none of their own; 16 GB of weights at 8 GB/s are 2 s."""
    base = (root / "examples" / "inference" / "h100.yaml").read_text()
    (tmp_path / "big.yaml").write_text(base)
    (tmp_path / "small.yaml").write_text(base.replace("tp: 8", "tp: 4").replace("npus: 8", "npus: 4"))
    (tmp_path / "fleet.yaml").write_text("""
fleet: [{design: big.yaml, count: 2, policy: {max_batch: 9}}, {design: small.yaml, startup: 1 s, load: 8 GB/s}]
requests: {kind: poisson, rate: 40, count: 60, seed: 1, prompt: 100, output: 20}
policy: {max_tokens: 512, routing: round_robin}
changes: [{instance: 0, at: 0.5 s, up: false}, {instance: 2, at: 1 ms, up: true}]
""")
    monkeypatch.chdir(tmp_path)
    said = run("serve", "fleet.yaml", "--json", "--csv", "made.csv")
    assert said.code == 0, said.err
    found = json.loads(said.out)["instances"]
    assert [each["npus"] for each in found] == [8, 8, 4]
    assert [each["failures"] for each in found] == [1, 0, 0]
    assert found[2]["startup_ns"] == pytest.approx(1e9 * (1 + 16.06 / 8), rel=0.01)
    assert found[2]["requests"] == 0 < found[0]["requests"] < found[1]["requests"]
    assert (tmp_path / "made.csv").read_text().splitlines()[0].endswith(",group,instance,retried")
    serving = load_serving("fleet.yaml")
    assert [each.policy.max_batch for each in serving.fleet] == [9, 256]
    assert [each.policy.max_tokens for each in serving.fleet] == [512, 512]
    assert "2 x big.yaml" in run("serve", "fleet.yaml").out


@pytest.mark.parametrize(("change", "said"), [
    ("design=big.yaml", "beside fleet"), ("changes[0].instance=3", "0 to 2"), ("workload.tp=2", "names a fleet"),
    ("fleet[1].policy.routing=fewest", "whole fleet"), ("fleet[1].design=other.yaml", "one model")])
def test_a_fleet_that_does_not_go_together(run: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                           change: str, said: str) -> None:
    base = (root / "examples" / "inference" / "h100.yaml").read_text()
    (tmp_path / "big.yaml").write_text(base)
    (tmp_path / "other.yaml").write_text(base.replace("llama3-8b", "qwen3-8b"))
    (tmp_path / "fleet.yaml").write_text("fleet: [{design: big.yaml, count: 2}, {design: big.yaml}]\n"
                                         "requests: {kind: poisson, rate: 40, count: 60, seed: 1, prompt: 9, output: 2}"
                                         "\npolicy: {routing: prefix}\nchanges: [{instance: 0, at: 1 s, up: false}]\n")
    monkeypatch.chdir(tmp_path)
    found = run("serve", "fleet.yaml", "--set", change)
    assert found.code == 1
    assert said in found.err


@pytest.mark.parametrize(("oversubscription", "ports"), [(1, 4), (2, 3)])
def test_caches_share_an_uplink(oversubscription: int, ports: int) -> None:
    """Two servers of a host prefill, two of another decode. Behind one uplink the second cache waits for the first, and
    is there when the last of a run of both is; with an uplink each they do not meet."""
    model = {"family": "decoder", "layers": 2, "d_model": 1024, "heads": 8, "ffn": 2048, "vocab": 1000}
    slow = {"bandwidth": "10 GB/s", "latency": "600 ns"}
    base = ar.config.decode(ar.Design, {
        "workload": {"source": "disaggregated", "model": model, "prefill": {"workers": 2}, "decode": {"workers": 2},
                     "prompt": 500, "generated": 3, "batch": 2, "contexts": "each"},
        "network": {"backend": "contention", "fabric": {
            "blueprint": "clos", "hosts": 2, "xpus": 2, "ports": ports, "oversubscription": oversubscription,
            "links": {"scale_up": {"bandwidth": "450 GB/s", "latency": "1 us"}, "access": slow, "spine": slow}}},
        "compute": "h100_sxm", "memory": "h100_sxm"})
    served = serve(base, ClosedLoop(concurrency=2, count=2, prompt=500, output=4), None, Buckets(context=1))
    sent = 2 * 2 * 500 * 1024 * 2 / 10e9 * 1e12
    first, second = sorted(served.ttft.tolist())
    assert second - first == pytest.approx(sent * (oversubscription - 1), rel=0.01)
    assert served.finish.max() == pytest.approx(ar.simulate(base).makespan_ps, rel=0.005)
    assert served.parts[0].linked == pytest.approx(sent * oversubscription, rel=0.01)
