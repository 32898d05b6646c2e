"""Any design written to a file reads back equal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import astrarium as ar
from astrarium import config
from astrarium.design import Design
from astrarium.units import Bandwidth, Bytes, FlopRate, Time

NAMES = ["ring", "direct", "halving_doubling", "direct:3"]
BANDWIDTH = st.floats(1e-3, 1e5).map(Bandwidth.of)
LATENCY = st.floats(0, 1e7).map(Time.of)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)


@st.composite
def dims(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from([ar.Ring, ar.Switch, ar.FullyConnected, ar.Mesh, ar.Hypercube, ar.Torus]))
    key = draw(st.sampled_from(["bandwidth", "bandwidth_per_npu"]))
    extra: dict[str, Any] = {key: draw(BANDWIDTH), "latency": draw(LATENCY)}
    if kind is ar.Ring:
        extra["one_way"] = draw(st.booleans())
    npus = (
        st.lists(st.integers(1, 9), min_size=1, max_size=3) if kind is ar.Torus else st.sampled_from([1, 2, 4, 8, 16])
    )
    return kind(draw(npus), **extra)


@st.composite
def designs(draw: st.DrawFn) -> Design:
    count = draw(st.integers(1, 4))
    network = ar.Network(
        [draw(dims()) for _ in range(count)], backend=draw(st.sampled_from(["closed_form", "contention"]))
    )
    return ar.Design(
        workload=ar.Trace(
            draw(TEXT), groups=draw(st.none() | TEXT), dependencies=draw(st.sampled_from(["data", "data+ctrl"]))
        ),
        network=network,
        compute=draw(
            st.just(ar.Replay(missing="1 ns")) | st.floats(1, 1e7).map(lambda x: ar.Roofline(peak=FlopRate.of(x)))
        ),
        memory=ar.Memory(
            capacity=draw(st.none() | st.integers(1, 2**50).map(Bytes.of)),
            bandwidth=draw(BANDWIDTH),
            tiers=[ar.Tier("host", capacity="1 TB", bandwidth="50 GB/s")] if draw(st.booleans()) else [],
        ),
        collective=ar.Collective(
            all_reduce=draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=1)),
            chunks=draw(st.integers(1, 64)),
            endpoint_delay=draw(LATENCY),
        ),
        system=ar.System(placement=draw(st.just("identity") | st.permutations(range(min(4, network.npus))))),
        fold=draw(st.sampled_from(["auto", "off"])),
    )


@given(designs(), st.booleans())
def test_dump_then_load(design: Design, defaults: bool) -> None:
    assert config.loads(Design, config.dumps(design, defaults=defaults)) == design


@given(designs())
def test_plain_and_decode(design: Design) -> None:
    assert config.decode(Design, config.to_plain(design, defaults=True)) == design


def test_file_fields_follow_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("deep")
    folder.mkdir()
    path = folder / "design.yaml"
    path.write_text(
        "workload: {source: trace, path: traces/a.*.et, groups: /abs/g.json}\n"
        "network: {dims: [{shape: switch, npus: 8, bandwidth: 1 GB/s, latency: 0 ns}]}\n"
    )
    design = ar.load_design(path)
    assert design.workload == ar.Trace(os.path.join(folder, "traces", "a.*.et"), groups="/abs/g.json")
    ar.dump_design(design, folder / "copy.yaml")
    assert "path: traces/a.*.et" in (folder / "copy.yaml").read_text()
    assert ar.load_design(folder / "copy.yaml") == design
    assert sorted(os.listdir(folder)) == ["copy.yaml", "design.yaml"]
