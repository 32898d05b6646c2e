"""Synthetic traces: valid whatever is asked for, and as long as real ones of sizes that no example had. Models as
files: refused unless whole."""

from __future__ import annotations

import hashlib
import json
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from astrarium.errors import InputError
from astrarium.synthesise import (
    Example,
    Model,
    examples_of,
    examples_of_generated,
    fidelity,
    learn,
    load_model,
    reproduced,
    sample,
    save_model,
)
from astrarium.synthesise.join import Drawn, join
from astrarium.synthesise.laws import Law
from astrarium.synthesise.layout import layout_of
from astrarium.trace import check, read_groups, read_traces
from astrarium.trace.export import write_generated
from astrarium.workload.corpus import draw_corpus

from .corpus import MODELS, examples, held_out, makespan, write_long_trace


@pytest.fixture(scope="module")
def learned() -> tuple[Model, list[Example]]:
    found = examples(40)
    return learn(found), found


def test_what_was_learned_from_comes_back(learned: tuple[Model, list[Example]]) -> None:
    assert reproduced(*learned).median < 0.05


def test_held_out_sizes_and_ranks_simulate_as_the_true_ones(learned: tuple[Model, list[Example]]) -> None:
    """From a few examples: most of them. From a thousand, all of them: `test_exam`."""
    errors = np.abs([makespan(sample(learned[0], c, extrapolate=True), c) / makespan(real, c) - 1
                     for c, real in held_out(12)])
    assert np.median(errors) < 0.01
    assert np.mean(errors < 0.1) >= 0.75


def test_what_is_drawn_is_valid_and_the_same_again(learned: tuple[Model, list[Example]], tmp_path: Path) -> None:
    for seed, (c, _) in enumerate(held_out(5, seed=3)):
        made = sample(learned[0], c, seed=seed, jitter=True, extrapolate=True)
        again = sample(learned[0], c, seed=seed, jitter=True, extrapolate=True)
        written = write_generated(made, tmp_path / f"w{seed}")
        assert not [f for f in check(read_traces(tmp_path / f"w{seed}"), read_groups(written.groups))
                    if f.severity == "error"]
        for trace, other in zip(made.classes, again.classes, strict=True):
            child = np.repeat(np.arange(trace.type.size), np.diff(trace.parent_ptr))
            assert (trace.parent < child).all()
            np.testing.assert_array_equal(trace.tensor_size, other.tensor_size)
        assert makespan(made, c) > 0


def test_files_and_generated_traces_give_the_same_examples(tmp_path: Path) -> None:
    c, real = next((c, real) for c, real in held_out(20, seed=5) if c["pp"] == 2 and c["tp"] == 2)
    written = write_generated(real, tmp_path / "w")
    for a, b in zip(examples_of(read_traces(tmp_path / "w"), read_groups(written.groups), c),
                    examples_of_generated(real, c), strict=True):
        assert [a.tokens[t] for t in a.token] == [replace(b.tokens[t]) for t in b.token]
        np.testing.assert_array_equal(np.nan_to_num(a.values), np.nan_to_num(b.values))
        np.testing.assert_array_equal(a.parent, b.parent)


def test_held_out_traces_are_alike_and_no_copies(learned: tuple[Model, list[Example]]) -> None:
    c, real = held_out(1, seed=9)[0]
    made = sample(learned[0], c, extrapolate=True)
    for ours, theirs in zip(examples_of_generated(made, c), examples_of_generated(real, c), strict=True):
        found = fidelity(ours, theirs, learned[1][:20])
        assert found.nodes == pytest.approx(1, abs=0.02)
        assert max(found.tokens, found.pairs, found.degrees) < 0.1
        assert found.totals["num_ops"] == pytest.approx(1, abs=0.01)
        assert found.nearest > 0.3


def test_conditions_are_checked(learned: tuple[Model, list[Example]]) -> None:
    c, _ = held_out(1)[0]
    with pytest.raises(InputError, match="no value"):
        sample(learned[0], {"tp": 2})
    with pytest.raises(InputError, match="did you mean 'layers'"):
        sample(learned[0], {**c, "layer": 2})
    with pytest.raises(InputError, match="dp is 4096, learnt from"):
        sample(learned[0], {**c, "dp": 4096})
    assert sample(learned[0], {**c, "dp": 4096}, extrapolate=True).classes[0].ranks.size == 4096 * c["tp"]
    with pytest.raises(InputError, match="no examples"):
        learn([])


def test_stages_that_disagree_are_brought_to_agreement(learned: tuple[Model, list[Example]]) -> None:
    """Messages without a partner, surplus collectives, rings: what a model that errs may draw."""
    tokens = learned[0].tokens
    find = {(each.kind, each.role): i for i, each in enumerate(tokens)}
    send_up, get_up = find[5, "next"], find[6, "prev"]
    send_down, get_down = find[5, "prev"], find[6, "next"]

    def stage(listed: list[int]) -> Drawn:      # every node waits for the one before
        size = len(listed)
        return Drawn(np.array(listed), np.full((size, 4), 8.0), np.array([0, *range(size)]), np.arange(size - 1))

    made = join(tokens, [stage([get_down, send_up, send_up, send_up]), stage([get_up, send_down, get_up])],
                layout_of({"pp": 2}))
    first, second = made.classes
    assert np.bincount(first.type, minlength=7)[5] == np.bincount(second.type, minlength=7)[6]
    assert np.bincount(first.type, minlength=7)[6] == np.bincount(second.type, minlength=7)[5]
    conditions: Mapping[str, float] = {"tp": 1, "dp": 1, "pp": 2}
    assert makespan(made, conditions) > 0


def test_buckets_that_never_fill_are_refused(learned: tuple[Model, list[Example]]) -> None:
    model, _ = learned
    none = Law([1e-6], [[0.0] * (len(model.names) + 2)], False, [0.0] * 10)
    tiny = [msgspec.structs.replace(each, threshold=none) for each in model.buckets]
    conditions = dict(next(draw_corpus(MODELS, 1))[0])
    with pytest.raises(InputError, match="would be sent as"):
        sample(msgspec.structs.replace(model, buckets=tiny), conditions, extrapolate=True)


def test_a_model_is_the_same_after_a_file(learned: tuple[Model, list[Example]], tmp_path: Path) -> None:
    save_model(tmp_path / "a", learned[0])
    save_model(tmp_path / "b", load_model(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with pytest.raises(InputError, match="cannot be written"):
        save_model(tmp_path / "no" / "a", learned[0])


def test_files_that_are_no_model_are_refused(learned: tuple[Model, list[Example]], tmp_path: Path) -> None:
    save_model(tmp_path / "a", learned[0])
    data = (tmp_path / "a").read_bytes()
    bad = tmp_path / "bad"
    cases = [(b"", "no model"), (b"{}\n", "no model"), (b"[" * 100_000, "no model"), (data[:-9], "damaged"),
             (data.replace(b'"version":3', b'"version":2'), "version 2; expected version 3: learn again"),
             (data.replace(b'"low"', b'"lov"'), "damaged")]
    for content, words in cases:
        bad.write_bytes(content)
        with pytest.raises(InputError, match=words):
            load_model(bad)
    with pytest.raises(InputError, match="cannot be read"):
        load_model(tmp_path / "none")


def test_what_a_file_says_is_checked(learned: tuple[Model, list[Example]], tmp_path: Path) -> None:
    """Numbers are changed and the checksum made anew: a model that loads draws a trace or refuses."""
    save_model(tmp_path / "a", learned[0])
    _, body = (tmp_path / "a").read_bytes().rstrip(b"\n").split(b"\n")
    numbers, rng = list(re.finditer(rb"-?\d+(\.\d+)?", body)), random.Random(0)
    for _ in range(30):
        one = rng.choice(numbers)
        new = body[:one.start()] + rng.choice([b"-7", b"0", b"99999999", b"1e300", b"2.5"]) + body[one.end():]
        header = {"format": "astrarium-trace-model", "version": 3, "sha256": hashlib.sha256(new).hexdigest()}
        (tmp_path / "b").write_bytes(json.dumps(header).encode() + b"\n" + new)
        try:
            found = load_model(tmp_path / "b")
            span = zip(found.names, found.low, strict=True)
            made = sample(found, {name: low for name, low in span if name != "stage"})
        except InputError:
            continue
        assert made.classes


@pytest.mark.exam
def test_ten_million_nodes_are_sampled_in_a_minute(learned: tuple[Model, list[Example]]) -> None:
    c = {**held_out(1)[0][0], "layers": 256.0, "pp": 1.0, "micro_batches": 64.0}
    nodes, start = 0, time.process_time()
    while nodes < 10_000_000:
        nodes += sample(learned[0], c, jitter=True, extrapolate=True).classes[0].type.size
    print(f"{nodes:,} nodes in {time.process_time() - start:.1f} s")
    assert time.process_time() - start < 60


@pytest.mark.exam
def test_ten_million_nodes_are_learned_in_bounded_memory(tmp_path: Path) -> None:
    """One rank's file, steps of forward and backward layers: CPU seconds and memory of a process of its own."""
    write_long_trace(tmp_path / "t.0.et", 10_000_000)
    (tmp_path / "t.conditions.json").write_text('{"tp": 1, "dp": 1, "pp": 1, "layers": 100}')
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "astrarium", "trace", "synthesise", "learn", str(tmp_path / "t"), "-o",
                    str(tmp_path / "m")], check=True, timeout=1200)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{spent:.0f} s, {after.ru_maxrss / 1e6:.2f} GB")
    assert spent < 120
    assert after.ru_maxrss < 2_800_000      # KB
