"""Workloads that decide as they run, named by a design."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.commands import PlugIn

import astrarium as ar
from astrarium.cli import main
from astrarium.compute.roofline import roofline_native
from astrarium.engine import HAVE_CORE
from astrarium.engine.plugins import DelayNetwork, Desk, Plugins
from astrarium.engine.plugins.work import Work, WorkSource, collective, compute, timer
from astrarium.errors import InputError, PluginError, StallError, UnsupportedError
from astrarium.lower.rule_books import stage_of
from astrarium.workload.config import Live, Workload

from .common import example, steady

ENGINES = [pytest.param(False, marks=pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here")), True]
engines = pytest.mark.parametrize("pure", ENGINES)
serving = example("serving")
MS = serving.MS
DESIGN = """
workload: {source: serving, requests: 5}
network: {dims: [{shape: switch, npus: 4, bandwidth: 50 GB/s, latency: 500 ns}]}
collective: {all_reduce: [direct]}
compute: {model: roofline, peak: 989 TFLOP/s}
memory: {bandwidth: 3.35 TB/s}
"""


@pytest.fixture(autouse=True)
def _registered(plug_in: PlugIn) -> None:
    plug_in({"workload.serving": f"{serving.__name__}:Serving", "workload.scripted": f"{__name__}:Scripted"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "serving.yaml"
    path.write_text(DESIGN)
    return path


def test_a_design_file_names_it(file: Path) -> None:
    design = ar.load_design(file)
    assert design.workload == serving.Serving(requests=5)
    result = ar.simulate(design)
    assert result.summary()["makespan_ns"] == ar.simulate(design, pure=True).summary()["makespan_ns"]
    assert result.makespan_ps == result.outcome.makespan == int(result.nodes.end.max())
    source, _ = stage_of(design)
    assert len(result.collectives.op) > 5
    assert result.path.shares()
    more = ar.replace(design, "workload.requests", 9)
    assert ar.simulate(more).makespan > result.makespan
    file.write_text(DESIGN.replace("requests", "reqests"))
    with pytest.raises(InputError, match=r"workload\.reqests.*did you mean 'requests'"):
        ar.load_design(file)
    assert source.requests == serving.Serving(requests=5).feed(Desk(4, lambda *_: 0)).requests


def test_the_command_line_runs_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    timeline = file.with_suffix(".json")
    assert main(["run", str(file), "--set", "workload.requests=3", "--json", "--timeline", str(timeline)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["summary"]["makespan_ns"] > 0
    assert any(event.get("ph") == "X" for event in json.loads(timeline.read_text())["traceEvents"])
    assert main(["run", str(file)]) == 0
    assert "makespan" in capsys.readouterr().out
    for verb in (["show", str(file)], ["check", str(file)], ["list", "workload"]):
        assert main(verb) == 0, verb


def test_serving_reacts_to_the_network() -> None:
    """A slower network makes longer steps, so other requests share a batch."""
    requests = [(number * 60 * MS, 4) for number in range(6)]
    servers: list[Any] = []

    def script(desk: Desk) -> Any:
        server = serving.Server(requests, desk)
        servers.append(server)
        return server.start(0), server.completed

    for latency in (1, 10 * MS):
        simulated(script, plugins=Plugins(network=steady(latency)))
        assert sorted(servers[-1].done) == list(range(6))
    sizes = [[size for _, size in server.steps] for server in servers]
    assert set(sizes[0]) == {1}
    assert 1 < max(sizes[1]) <= 3


class Scripted(Live, frozen=True):
    """A workload from a function of the desk, which gives the works at the start and what comes after each."""

    tag: ClassVar[str] = "scripted"
    script: ClassVar[Callable[[Desk], tuple[Sequence[Work], Callable[[Work, int], Sequence[Work]]]]]

    def feed(self, desk: Desk) -> WorkSource:
        first, then = type(self).script(desk)
        return Source(first, then)


class Source:
    def __init__(self, first: Sequence[Work], then: Callable[[Work, int], Sequence[Work]]) -> None:
        self._first, self._then = first, then

    def start(self, t: int) -> Sequence[Work]:
        return self._first

    def completed(self, work: Work, t: int) -> Sequence[Work]:
        return self._then(work, t)

    def unfinished(self) -> Sequence[str]:
        return ()


def simulated(script: Any, pure: bool = False, plugins: Plugins | None = None, **changes: Any) -> ar.Result:
    Scripted.script = staticmethod(script)
    design = serving.design(Scripted())
    for path, value in changes.items():
        design = ar.replace(design, path, value)
    return ar.simulate(design, pure=pure, plugins=plugins)


def nothing(work: Work, t: int) -> Sequence[Work]:
    return ()


@engines
def test_collectives_of_groups_run_as_the_design_says(pure: bool) -> None:
    """The pair's all_reduce takes what a design of two NPUs says; everybody's what the single collective does."""
    two = ar.simulate(ar.replace(serving.design(ar.SingleCollective("all_reduce", "1 MiB")), "network.dims[0].npus", 2))
    four = ar.simulate(serving.design(ar.SingleCollective("all_gather", "1 MiB")))

    def script(desk: Desk) -> Any:
        pair = desk.collective("all_reduce", 1 << 20, desk.group([1, 3]))
        world = desk.collective("all_gather", 1 << 18)
        then = {(rank, 0): [collective(1, rank, world)] for rank in range(4)}
        first = [collective(0, rank, pair, 0) for rank in (1, 3)]
        first += [compute(0, rank, two.makespan_ps) for rank in (0, 2)]
        return first, lambda work, t: then.get((work.rank, work.id), ())

    result = simulated(script, pure)
    assert result.makespan_ps == two.makespan_ps + four.makespan_ps
    found = result.collectives
    assert (found.end - found.ready).tolist() == [two.makespan_ps, four.makespan_ps]
    assert found.ranks.tolist() == [2, 4]


@engines
def test_durations_are_those_of_the_designs_model(pure: bool) -> None:
    def script(desk: Desk) -> Any:
        return [compute(0, 0, desk.duration(1e12, 1 << 30))], nothing

    assert simulated(script, pure).makespan_ps == int(roofline_native([1e12], [1 << 30], 989_000.0, 3350.0)[0])
    with pytest.raises(PluginError, match=r"compute\.model: replay takes recorded times"):
        simulated(script, pure, compute=ar.Replay())


@engines
@pytest.mark.parametrize(("script", "words"), [
    (lambda desk: ([collective(0, 0, desk.collective("all_reduce", 8, desk.group([0, 1])), -1)], nothing),
     "collective 0 belongs to group 0"),
    (lambda desk: desk.collective("all_redcue", 8), "there is no 'all_redcue'"),
    (lambda desk: desk.collective("all_reduce", -1), "-1 bytes"),
    (lambda desk: desk.collective("all_reduce", 8, 2), "there is no group 2"),
    (lambda desk: desk.group([0, 4]), "there is no rank 4"),
    (lambda desk: desk.group([1, 1]), "a rank twice"),
    (lambda desk: desk.group([]), "nobody"),
    (lambda desk: ([timer(0, 0, 1)], lambda work, t: [desk.group([0])]), "after the run began"),
    (lambda desk: desk.duration(float("nan")), "duration"),
])
def test_what_is_asked_in_vain_is_said(script: Any, words: str, pure: bool) -> None:
    with pytest.raises(PluginError, match=words):
        simulated(script, pure)


def test_where_it_cannot_run() -> None:
    def alone(desk: Desk) -> Any:
        return [collective(0, 0, desk.collective("barrier", 0))], nothing

    with pytest.raises(StallError, match="waits for rank 1"):
        simulated(alone)
    design = serving.design(serving.Serving())
    with pytest.raises(UnsupportedError, match="compat"):
        ar.simulate(ar.replace(design, "compat", "astra_sim"))
    with pytest.raises(InputError, match="expected no traces"):
        ar.simulate(design, traces=object())  # type: ignore[arg-type]


def test_many_at_once() -> None:
    designs = [serving.design(serving.Serving(requests=count)) for count in (2, 4, 6)]
    assert [r.makespan_ps for r in ar.simulate_many(designs)] == [ar.simulate(d).makespan_ps for d in designs]


def test_over_a_network_of_ones_own() -> None:
    slow = Plugins(network=lambda fabric: DelayNetwork(lambda size, src, dst, now: MS))
    design = serving.design(serving.Serving(requests=2))
    assert ar.simulate(design, plugins=slow).makespan_ps == ar.simulate(design, plugins=slow, pure=True).makespan_ps


class Speechless(Live, frozen=True):
    """Has no feed."""

    tag: ClassVar[str] = "speechless"


class Sourceless(Live, frozen=True):
    """Gives no source."""

    tag: ClassVar[str] = "sourceless"

    def feed(self, desk: Desk) -> Any:
        return None


class Idle(Workload, frozen=True):
    """Says nothing of what its ranks do."""

    tag: ClassVar[str] = "idle"


class Renamed(Idle, frozen=True):
    """Is registered under another name."""

    tag: ClassVar[str] = "idle"


@pytest.mark.parametrize(("name", "says"), [
    ("speechless", r"workload: .* 'speechless' \(class Speechless\) has no feed; expected a method feed\(self"),
    ("sourceless", r"workload plug-in sourceless: gave None, which has no method start"),
    ("idle", r"workload\.source: nothing says what the ranks of 'idle' do.*expected a plug-in's class below Live"),
    ("renamed", r"workload\.source: the plug-in's class Renamed has tag 'idle'; expected .*'renamed'"),
])
def test_plugins_that_are_none(name: str, says: str, file: Path, plug_in: PlugIn) -> None:
    plug_in({f"workload.{name}": f"{__name__}:{name.capitalize()}"})
    file.write_text(DESIGN.replace("serving, requests: 5", name))
    with pytest.raises((InputError, PluginError), match=says):
        ar.simulate(ar.load_design(file))
    assert main(["run", str(file)]) == 1
