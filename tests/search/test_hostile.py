"""Whatever stands in a search file or a knob file: one InputError, or a space."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from astrarium.config.yamlfile import to_yaml
from astrarium.errors import InputError
from astrarium.search.agents import agent_options
from astrarium.search.cosmic_knobs import parse_knobs
from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import goal_of
from astrarium.search.searchfile import load_search

WORDS = st.sampled_from(["ring", "50 GB/s", "network.npus == 4", "makespan", "network.dims[*].npus", "a // b",
                         "collective.chunks > 1", "1 / (collective.chunks - 1)", "sum(network.dims[*].npus)"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 2**40), st.floats(allow_nan=False),
                    st.text(max_size=8), WORDS)
ANY = st.recursive(SCALARS, lambda inner: st.one_of(
    st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)), max_leaves=6)
PATHS = st.sampled_from(["network.dims[*].npus", "network.dims[0].bandwidth", "network.dims[*].shape", "network.dims",
                         "collective.pipeline", "collective.all_reduce", "workload", "network.dims[9].npus", "x",
                         "[*]", "", "network.dims[0].one_way", "fold", "network"])
RANGES = st.fixed_dictionaries({}, optional={
    "values": ANY, "from": SCALARS, "to": SCALARS, "step": SCALARS, "factor": SCALARS, "shared": SCALARS,
    "log": SCALARS, "ordered": SCALARS, "when": SCALARS})
LEGAL: dict[str, Any] = {
    "base": {"workload": {"source": "collective", "op": "all_reduce", "payload": "1 MB"},
             "network": {"dims": [{"shape": "ring", "npus": 4, "bandwidth": "50 GB/s", "latency": "1 us"}]}},
    "choices": {"collective.chunks": [1, 2]}}
HOSTILE = st.fixed_dictionaries({}, optional={
    "base": ANY, "variables": st.dictionaries(PATHS, RANGES | ANY, max_size=2), "minimize": ANY, "cases": ANY,
    "derived": st.dictionaries(PATHS, SCALARS, max_size=2), "constraints": ANY | st.lists(WORDS), "require": ANY,
    "agent": ANY, "trials": SCALARS, "seed": SCALARS,
    "choices": st.dictionaries(PATHS, RANGES | ANY, max_size=3).map(lambda more: {**LEGAL["choices"], **more})})


@given(HOSTILE)
def test_search_files(tmp_path_factory: Any, data: dict[str, Any]) -> None:
    path = Path(tmp_path_factory.getbasetemp()) / "hostile.yaml"
    with contextlib.suppress(InputError):
        path.write_text(to_yaml({**LEGAL, **data}), encoding="utf-8")
        file = load_search(path)
        assert file.space.count > 0
        goal = goal_of(file.minimize or "makespan", file.maximize, file.require, file.cases)
        evaluator = Evaluator(file.space, goal)
        agent_options(file.agent or "random", file.options)
        evaluator(file.space.point(0))


@given(st.text(max_size=80) | st.sampled_from(["NETWORK_KNOBS", "CONSTRAINTS"]).flatmap(
    lambda name: ANY.map(lambda value: f"{name} = {value!r}")))
def test_knob_files(text: str) -> None:
    with contextlib.suppress(InputError):
        parse_knobs(text)
