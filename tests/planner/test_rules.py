"""Rules that bound a plan: named in the answer, lifted by name or by a fixed value; and what the search may skip."""

from __future__ import annotations

import json
import math
import random
import re
import statistics
from itertools import islice

import pytest
from msgspec.structs import replace
from tests.commands import Run
from tests.draws import draws
from tests.planner.spaces import DENSE, QUICK, SPARSE

import astrarium as ar
from astrarium.errors import InputError
from astrarium.lower.kept import Kept
from astrarium.planner.explore import Queue, _Search, explore, workload_of
from astrarium.planner.job import job_of
from astrarium.planner.layout import Allowed, Layout, layouts
from astrarium.planner.left_out import hidden_by
from astrarium.planner.machine import machine_of
from astrarium.planner.reserve import Reserve
from astrarium.report.tables.shortlist import shortlist_tables
from astrarium.report.tables.table import text_of
from astrarium.search.limits import Guard
from astrarium.units import format_time
from astrarium.workload.model.decoder import Decoder


def lifted(allowed: Allowed) -> dict[str, str]:
    return {each.rule.name: each.lifted for each in allowed.rulings}


def test_a_recipe_whose_parts_divide_only_with_the_ends_is_there() -> None:
    """128 blocks of Llama 3 405B over 8 stages of 8 parts, and 16 ranks of tp * cp on hosts of 8."""
    recipe = Layout(tp=8, cp=2, pp=8, dp=8, zero=1, virtual_stages=8, tp_sequence=True)
    job = job_of("llama3-405b", global_batch=512)
    fixed = {"tp": [8], "cp": [2], "zero": [1], "recompute": ["none"], "micro_batch": [1]}
    assert recipe in list(layouts(job, 1024, 8, fixed))


JOB = job_of(DENSE, seq=2048, global_batch=96)


@pytest.fixture(scope="module")
def asked() -> tuple[Layout, ...]:
    """The layouts of JOB on 96 NPUs that the rules leave."""
    found = layouts(JOB, 96, 8)
    assert lifted(found) == dict.fromkeys(("host", "cp", "micro_batch", "zero", "stages"), "")
    return tuple(found)


@pytest.mark.parametrize(("rule", "beyond"), [
    ("host", {"tp": [16]}), ("cp", {"cp": [4]}), ("micro_batch", {"micro_batch": [32]}),
    ("zero", {"zero": [3], "pp": [2]}), ("stages", {"pp": [2], "virtual_stages": [3]})])
def test_a_rule_goes_by_its_name_or_by_a_value_that_it_forbids(rule: str, beyond: dict[str, list[int]],
                                                               asked: tuple[Layout, ...]) -> None:
    def chosen(layout: Layout) -> bool:
        return all(getattr(layout, part) == values[0] for part, values in beyond.items())

    assert not any(map(chosen, asked))
    assert lifted(layouts(JOB, 96, 8, beyond))[rule] == "--fix"
    assert lifted(layouts(JOB, 96, 8, lift=[rule]))[rule] == "--lift"
    fixed = {"recompute": ["none"], "tp_sequence": [False]}
    free = list(filter(chosen, layouts(JOB, 96, 8, fixed, lift=[rule])))
    assert free
    assert sorted(layouts(JOB, 96, 8, beyond | fixed)) == sorted(free)
    for layout in random.Random(1).sample(free, min(5, len(free))):
        assert workload_of(JOB, layout).ranks == 96


@pytest.mark.parametrize(("npus", "fixed", "lift"), [
    pytest.param(32, {"micro_batch": [3]}, "", marks=pytest.mark.exam), (32, {"tp": [3]}, ""),
    (7, {}, ", or --lift stages"),
    (1024, {"dp": [1], "pp": [1]}, ", or --lift cp")])
def test_a_refusal_names_the_rules_whose_lift_helps(npus: int, fixed: dict[str, list[int]], lift: str) -> None:
    job = job_of("llama3-8b", global_batch=512)
    with pytest.raises(InputError) as refused:
        list(layouts(job, npus, 8, fixed))
    assert not layouts(job, npus, 8, fixed).possible
    named = str(refused.value).partition("; expected ")[2]
    assert named.endswith(f"other sizes{lift}")
    counts = re.search(r"([\d,]+(?: or [\d,]+)?) NPUs, or ", named)
    for count in re.findall(r"[\d,]+", counts[1]) if counts else ():
        assert layouts(job, int(count.replace(",", "")), 8, fixed).possible
    named = named.replace(counts[0], "") if counts else named
    for part, values in re.findall(r"(\w+) (\d+(?: or \d+)*)", named):      # each of them alone leaves a layout
        for value in values.split(" or "):
            assert layouts(job, npus, 8, {**fixed, part: [int(value)]}).possible
    assert bool(fixed) == bool(re.search(r"\d", named))
    assert bool(counts) == (npus == 7)


def test_virtual_stages_that_divide_nothing_lift_their_rule() -> None:
    found = layouts(job_of("llama3-8b", global_batch=512), 32, 8, {"virtual_stages": [3]})
    assert lifted(found)["stages"] == "--fix"
    assert all(each.pp > 1 for each in found)


ODD = Decoder(layers=7, d_model=1024, heads=8, ffn=2816, vocab=32000)


def test_layers_that_no_usual_pipeline_divides_have_uneven_stages() -> None:
    """The best layout of DeepSeek-V3 (61 layers, pp 16) was left out."""
    found = layouts(job_of("deepseek-v3", global_batch=1024), 256, 8, {
        "tp": [1], "cp": [1], "micro_batch": [1], "zero": [1], "recompute": ["none"]})
    every = set(found)
    assert {(each.pp, each.virtual_stages) for each in every} >= {(16, 1), (16, 2), (8, 2), (4, 1), (1, 1)}
    assert Layout(pp=16, dp=16, ep=8, zero=1) in every
    assert max(each.virtual_stages for each in every) == 2
    rule = next(each.rule for each in found.rulings if each.rule.name == "stages")
    assert rule.text.endswith("; as 61 layers divide by none of pp 2, 4, 8 and 16, stages of at most 2 parts may "
                              "differ by a layer")
    job = job_of(ODD, seq=2048, global_batch=16)
    for layout in every - {each for each in every if each.pp * each.virtual_stages > 7}:
        if layout.ep == 1:
            assert workload_of(job, replace(layout, dp=16 // layout.pp)).pp == layout.pp
    assert any(each.pp == 3 for each in layouts(JOB, 96, 8, {"recompute": ["none"]}, ["stages"]))
    assert not any(each.pp == 3 for each in layouts(JOB, 96, 8, {"recompute": ["none"]}))


def test_what_rules_hide_is_counted() -> None:
    """By the lower bounds of the layouts that are there without the rule."""
    model = Decoder(layers=10, d_model=1024, heads=16, ffn=2816, vocab=32000)
    machine, job = machine_of("h100_sxm", 16, None), job_of(model, seq=4096, global_batch=16)
    fixed = {"cp": [1], "micro_batch": [1], "recompute": ["none", "full"], "tp_sequence": [False]}
    search, space = _Search(job, machine, Kept(), Guard()), layouts(job, 16, machine.host, fixed)
    rules = {each.rule.name: each.rule for each in space.rulings}
    assert set(rules) == {"host", "zero", "stages"}
    for name in ("zero", "stages"):
        more = {each for each in layouts(job, 16, machine.host, fixed, [name]) if each.virtual_stages <= 2} - set(space)
        bounds = {each: search.candidate(each) for each in more}
        plain = sorted((found.least, each) for each, found in bounds.items() if found and each.recompute == "none")
        room = statistics.median(found.bound.memory for found in bounds.values() if found)
        best = plain[-2][0]
        fits: dict[Layout, float] = {}
        for kind in ("full", "none"):       # without recomputation, where that fits
            fits |= {replace(each, recompute="none"): found.least for each, found in bounds.items() if found
                     and each.recompute == kind and found.bound.memory <= room and found.least < best}
        hidden = hidden_by(rules.values(), space, search.bounds, room, best)
        found = next(each for each in hidden if each.rule == name)
        assert found.count == len(fits) > 0
        assert found.least == min(fits.values())
        assert not hidden_by([rules[name]], space, search.bounds, room, plain[0][0])
    assert not hidden_by([rules["host"]], space, search.bounds, math.inf, math.inf)      # of other blocks


def test_the_answer_says_what_a_rule_hides() -> None:
    model = Decoder(layers=10, d_model=1024, heads=8, ffn=2816, vocab=32000)
    fixed = {"cp": [1], "micro_batch": [1], "recompute": ["none"], "tp": [1, 2], "dp": [1], "tp_sequence": [False]}

    def planned(*lift: str) -> ar.Shortlist:
        return ar.plan(model, "h100_sxm", 8, seq=2048, global_batch=16, top=1, fixed=fixed, lift=lift, stack="none",
                       compute="roofline", collectives="simulated")

    found = planned()
    hidden = next(each for each in found.hidden if each.rule == "stages")
    lifted = planned("stages").best
    assert hidden.least <= lifted.time <= found.best.time
    assert (f"leaves out {hidden.count:,} (of at most 2 parts a stage) that may be faster than line 1: "
            f"{format_time(hidden.least)} at least "
            f"({hidden.layout}), with --lift stages") in "\n".join(map(text_of, shortlist_tables(found)))
    assert found.plain["hidden"][0]["lower_bound"] == found.hidden[0].least


def test_rules_that_leave_out_nothing_are_not_named() -> None:
    job = job_of(DENSE, seq=2048, global_batch=8)
    assert lifted(layouts(job, 8, 8, {"pp": [1], "cp": [1]})) == {}


@pytest.mark.parametrize(("fixed", "lift", "message"), [
    ({}, ["hots"], "lift: 'hots' is no rule; .*did you mean 'host'"), ({"tp": ["x"]}, (), "tp: 'x' is no value of it"),
    ({"tp": []}, (), "tp: has no value"),
    ({"tp": [3], "cp": [2]}, (), "gpus: no layout of 16 NPUs and 16 samples with tp 3, cp 2 is allowed")])
def test_wrong_questions_are_refused(fixed: dict[str, list[int]], lift: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(layouts(job_of(DENSE, seq=2048, global_batch=16), 16, 8, fixed, lift))


def test_a_plan_of_recomputation_without_effect_says_so() -> None:
    with pytest.raises(InputError, match="no layout of 16 NPUs is left: recompute selective changes nothing"):
        ar.plan(DENSE, "h100_sxm", 16, seq=2048, global_batch=16, fixed={"recompute": ["selective"]})


def test_recomputing_everything_has_no_lower_floor() -> None:
    """The search looks at such a layout only where the lower bound of the same one without recomputation is low
    enough."""
    for model, npus, few in ((DENSE, 32, draws(30)), (SPARSE, 16, draws(12))):
        machine, job = machine_of("h100_sxm", npus, None), job_of(model, seq=4096, global_batch=32)
        search = _Search(job, machine, Kept(), Guard())
        every = [each for each in layouts(job, npus, machine.host) if each.recompute == "full"]
        random.Random(5).shuffle(every)
        for layout in islice(every, few.max_examples):
            full, none = search.candidate(layout), search.candidate(replace(layout, recompute="none"))
            assert full is not None
            assert none is not None
            if layout.dp * layout.micro_batch == job.global_batch:
                continue        # has its own lower bound from the start
            assert none.bound.time <= full.bound.time
            assert none.bound.busy <= full.bound.busy


@pytest.mark.parametrize(("model", "fixed"), [
    (DENSE, {"micro_batch": [1, 2]}), (SPARSE, {"ep": [1, 2], "zero": [1], "micro_batch": [1, 2]})])
def test_the_next_in_line_have_the_lowest_floors(model: object, fixed: dict[str, list[int]]) -> None:
    """Also where layouts that recompute everything wait behind the lower bounds of others, which may not even fit."""
    machine, job = machine_of("h100_sxm", 16, None), job_of(model, seq=4096, global_batch=32)
    every = list(layouts(job, 16, machine.host, {"cp": [1], "virtual_stages": [1], **fixed}))
    search = _Search(job, machine, Kept(), Guard())
    found = [each for each in map(search.candidate, every) if each is not None]
    room = statistics.median(each.bound.memory for each in found)
    search = _Search(job, replace(machine, reserve=Reserve(bytes=machine.capacity - room)), Kept(), Guard())
    fit = sorted(each.least for each in found if each.bound.memory <= room)
    queue = Queue(search, every)
    assert len(fit) < len(queue)
    assert [each.least for each in queue.first(20)] == fit[:20]
    assert [each.least for each in queue.first(5, fit[3])] == [each for each in fit if each < fit[3]]
    assert [each.least for each in iter(lambda: queue.pop(float("inf")), None)] == fit


def test_without_effort_the_first_line_is_still_the_best() -> None:
    every = layouts(QUICK.job, QUICK.npus, QUICK.machine.host, QUICK.fixed)
    whole, quick = (explore(QUICK.job, QUICK.machine, top=4, every=every, effort=effort) for effort in (1e9, 0))
    assert quick.simulated < whole.simulated
    assert quick.found[0] == whole.found[0]
    assert whole.least >= whole.found[-1].value
    assert quick.found[0].value <= quick.least < quick.found[-1].value


def test_the_answer_names_rules(run: Run) -> None:
    asked = ("plan", "llama3-8b", "--device", "h100_sxm", "--gpus", "16", "--seq", "4096", "--global-batch", "32",
             "--top", "1", "--fix", "recompute=none", "--fix", "micro_batch=1", "--fix", "pp=1,2", "--fix", "cp=1")
    said = run(*asked, "--lift", "host")
    assert said.code == 0
    assert "  zero: ZeRO 2 and 3 have no pipeline stages" in said.out
    assert "lifted: host (--lift)" in said.out
    plain = json.loads(run(*asked, "--json").out)
    assert {each["name"]: each["lifted"] for each in plain["rules"]} == {"host": None, "zero": None, "stages": None}


def test_stages_that_are_balanced_by_cost_say_no_layers() -> None:
    """A plan of stack nanotron, whose stages are, refused every layout whose ends count (row hf-1745)."""
    plain, balanced = (job_of("llama3-8b", global_batch=8, **said) for said in ({}, {"stage_balance": "cost"}))
    assert plain.stage_layers(17) == [1, *[2] * 15, 1]
    assert balanced.stage_layers(17) is None
    assert workload_of(balanced, Layout(pp=17)).stage_layers is None
