"""Programs give their orders back, and laws are found as they were made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium import config
from astrarium.errors import InputError
from astrarium.synthesise import (
    examples_of_generated,
    fold,
    learn,
    load_model,
    reproduced,
    save_model,
)
from astrarium.synthesise.counts import Counts, learn_loops, loop_sites
from astrarium.synthesise.fold import CLOSE, LONGEST, OPEN, Folder, _least, bodies_of, expand
from astrarium.synthesise.laws import STEEPEST, fit_count, fit_law, fit_limit, forms_of
from astrarium.synthesise.order import learn_orders, walk
from astrarium.synthesise.tokens import plain_names
from astrarium.vocab import CommOp
from astrarium.workload.corpus import draw_corpus
from astrarium.workload.generate import generate

LETTERS = str.maketrans("0123456789", "ghijklmnop")


@given(st.lists(st.lists(st.integers(0, 3), max_size=40), min_size=1, max_size=4))
def test_a_program_gives_its_order_back(listed: list[list[int]]) -> None:
    orders = [np.array(each, np.int64) for each in listed]
    folder = Folder(bodies_of(orders))
    for order in orders:
        program, counts = folder.fold(order)
        assert expand(program, counts, 10**6).tolist() == order.tolist()


def test_orders_of_other_lengths_are_one_program() -> None:
    def order(layers: int, batches: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(([0, *[1, 2, 3] * layers, *[4, 5] * layers, 6] * batches) + [7], np.int64)

    orders = [order(layers, batches) for layers in (1, 2, 5) for batches in (1, 2, 3)]
    folder = Folder(bodies_of(orders))
    found = [folder.fold(each) for each in orders]
    assert {program for program, _ in found} == \
        {(OPEN, 0, OPEN, 1, 2, 3, CLOSE, OPEN, 4, 5, CLOSE, 6, CLOSE, 7)}
    assert [counts for _, counts in found] == [[n, n, b] for n in (1, 2, 5) for b in (1, 2, 3)]


def test_loops_whose_first_and_last_rounds_differ_are_learned() -> None:
    """What a layer (2 3 4) needs (1) is there one layer ahead; of the first one two come at once, of the last one
    none. Micro-batches are a loop around that, and what comes before and after decides how often layers run."""
    def order(layers: int, batches: int, tail: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        ahead = [0, 1, 1] if layers > 1 else [0, 1]
        steady = [2, 3, 4, 1] * (layers - 2) + [2, 3, 4] * min(2, layers)
        unit = [*ahead, *steady, *([5] if tail else [])]
        return np.array(unit * batches + [6], np.int64)

    learned = [(layers, batches, tail) for layers in (1, 2, 3, 4, 6, 8) for batches in (1, 2, 4) for tail in (0, 1)]
    folder = Folder(bodies_of([order(*each) for each in learned]))
    programs = [folder.fold(order(*each)) for each in learned]
    assert len({program for (program, _), (layers, _, tail) in zip(programs, learned, strict=True)
                if layers > 3 and tail}) == 1
    x = np.array([[*each, 1.0, 1.0] for each in learned], np.float64)
    counts = Counts(learn_loops(programs, list("abcdefg"), x))
    for layers, batches in ((5, 3), (7, 6)):
        program = walk(learn_orders([program for program, _ in programs], x), np.array([[layers, batches, 1, 1, 1.0]]),
                       np.random.default_rng(0))
        laws = [counts.at(program, opened, body) for opened, body in loop_sites(program)]
        rounds = [int(law.at(np.array([[layers, batches, 1, 1, 1.0]]))[0]) for law in laws if law is not None]
        assert expand(program, rounds, 10**6).tolist() == order(layers, batches, 1).tolist()


def test_limits_are_found_between_what_they_part() -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.choice([2, 4, 8], 90), rng.choice([512, 768, 1024], 90), np.ones(90), np.ones(90)])
    total, limit = rng.uniform(1e6, 9e7, 90), 4e5 / x[:, 0]
    counts = np.floor(total / limit)
    found = fit_limit(x, total / (counts + 1), total / counts)
    assert found is not None
    np.testing.assert_allclose(found.at(x), limit, rtol=1e-2)
    none = np.full(90, np.inf)
    assert fit_limit(x, total, none) is None                        # nothing says where it ends
    assert fit_limit(x, total, total * (1 - 0.1 * rng.random(90))) is None      # no limit does


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.integers(1, 4), st.integers(0, 12))
def test_bodies_begun_elsewhere_or_repeated_are_one(body: list[int], times: int, begin: int) -> None:
    at = begin % len(body)
    assert _least(tuple((body[at:] + body[:at]) * times)) == _least(tuple(body))


@given(st.lists(st.integers(0, 1), min_size=1, max_size=7), st.lists(st.integers(0, 1), min_size=1, max_size=7))
def test_other_bodies_are_two(one: list[int], two: list[int]) -> None:
    def forms(body: list[int]) -> set[tuple[int, ...]]:     # as many as both have in a multiple of their sizes
        line = body * (len(one) * len(two) // len(body))
        return {tuple(line[at:] + line[:at]) for at in range(len(line))}

    assert (_least(tuple(one)) == _least(tuple(two))) == (forms(one) == forms(two))


def _tandems(order: list[int]) -> tuple[int, list[tuple[int, int]]] | None:
    """The shortest period that repeats, and its runs, by the definition."""
    for period in range(1, min(len(order) // 2, LONGEST) + 1):
        runs, at = [], 0
        while at < len(order):
            count = 1
            while order[at + count * period:at + (count + 1) * period] == order[at:at + period]:
                count += 1
            runs += [(at, count)] if count > 1 else []
            at += count * period if count > 1 else 1
        if runs:
            return period, runs
    return None


@given(st.lists(st.integers(0, 2), max_size=60))
def test_the_shortest_repeat_is_found_by_windows(order: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold, "ALL", 0)       # as in a long order
        assert fold._shortest(np.array(order, np.int64)) == _tandems(order)


def test_an_order_that_does_not_repeat_is_refused() -> None:
    with pytest.raises(InputError, match=r"270,000 are left"):
        bodies_of([np.arange(270_000)])


def test_more_kinds_of_nodes_than_a_model_has_are_refused() -> None:
    names = (str(number).translate(LETTERS) for number in range(300_000))
    with pytest.raises(InputError, match="more than 262,144 kinds"):
        plain_names(names, 300_000)


def test_expansion_is_bounded() -> None:
    with pytest.raises(ValueError, match="more than"):
        expand((OPEN, 1, CLOSE), [10**12], 10**6)
    for program in ((OPEN, 1), (1, CLOSE)):
        with pytest.raises(ValueError, match="loop"):
            expand(program, [1], 10**6)


def test_zero_s_collectives_are_learned(tmp_path: Path) -> None:
    """Gradients of two kinds under one name, and weights gathered in as many pieces as their bytes ask for."""
    found = [example for c, work in draw_corpus(["llama2-7b"], 24) for example in
             examples_of_generated(generate(config.replace_all(work, {"zero": 1})), c)]
    model = learn(found)
    assert [model.tokens[each.token].name for each in model.pieces] == ["step.weights.all_gather"]
    assert all(each.ends for each in model.buckets)
    reduced = [each.token for each in model.buckets if "reduce_scatter" in model.tokens[each.token].name]
    assert len(reduced) == 2
    assert model.tokens[reduced[0]] == model.tokens[reduced[1]]
    assert reproduced(model, found).median < 0.1
    save_model(tmp_path / "m", model)
    assert load_model(tmp_path / "m") == model


@pytest.mark.exam
def test_gradients_of_every_micro_batch_are_learned() -> None:
    """ZeRO 2: what is left is reduced after every backward pass, and of norms over other ranks too."""
    found = [example for c, work in draw_corpus(["llama2-7b"], 20) for example in
             examples_of_generated(generate(config.replace_all(work, {"zero": 2})), c)]
    model = learn(found)
    named = {each.token: model.tokens[each.token] for each in model.buckets}
    assert all(each.ends for each in model.buckets)
    assert [model.tokens[each.then.token].op for each in model.buckets if each.then is not None] == [CommOp.ALL_REDUCE]
    assert all(unit.window is None for each in model.buckets for unit in each.units)
    assert {token.op for token in named.values()} == {CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER}
    assert reproduced(model, found).median < 0.02


def test_laws_are_found_as_they_were_made() -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.choice([1, 2, 4, 8], 200), rng.choice([512, 768, 1024, 4096], 200),
                         rng.choice([1024, 2048, 8192], 200), np.ones(200), np.ones(200)]).astype(np.float64)
    tp, d, s = x[:, 0], x[:, 1], x[:, 2]
    new = np.array([[16.0, 1536, 4096, 1, 1]])
    assert fit_law(x, 2 * s * d * d / tp).at(new)[0] == pytest.approx(2 * 4096 * 1536**2 / 16, rel=1e-9)
    both = fit_law(x, 2 * s * d + 4 * d * d / tp).at(new)[0]
    assert both == pytest.approx(2 * 4096 * 1536 + 4 * 1536**2 / 16, rel=1e-6)
    noisy = fit_law(x, 3 * d**1.5 * rng.lognormal(0, 0.02, 200)).at(new)[0]
    assert noisy == pytest.approx(3 * 1536**1.5, rel=0.03)


def test_no_law_is_steeper_than_a_file_may_say() -> None:
    x = np.column_stack([np.arange(1000.0, 1012.0), np.ones(12), np.ones(12)])
    for y in (x[:, 0]**40 / 1000.0**40, x[:, 0]**40.3 / 1000.0**40):
        assert np.abs(fit_law(x, y).exponent).max() <= STEEPEST


def test_counts_are_found_as_they_were_made() -> None:
    rng = np.random.default_rng(0)
    pp = rng.choice([2, 4, 8], 300)
    x = np.column_stack([pp, rng.integers(0, pp), rng.choice([1, 2, 4, 8], 300), pp * rng.choice([1, 3, 5], 300),
                         np.ones(300), np.ones(300)]).astype(np.float64)
    warm = fit_count(x, np.minimum(x[:, 0] - x[:, 1], x[:, 2]), forms_of(x))
    assert warm.at(np.array([[16.0, 3, 64, 16, 0, 0]]))[0] == 13
    assert fit_count(x, x[:, 3] / x[:, 0], forms_of(x)).at(np.array([[16.0, 3, 64, 112, 0, 0]]))[0] == 7
