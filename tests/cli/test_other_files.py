"""Files given to the wrong verb or key: what they are, and what to write instead."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.fabric.test_htsim import TINY

from astrarium.registry import built_ins
from astrarium.trace.readers import EXAMPLES

if TYPE_CHECKING:
    from tests.commands import Run

MATRIX = "Nodes 16\nConnections 2\n0->1 id 1 start 0 size 2000000\n2->1 id 2 start 0 size 2000000\n"
ALGO = '<algo name="x" proto="LL128" nchannels="1" nchunksperloop="1" ngpus="2" coll="allgather" inplace="0">'
SCRIPT = "#!/bin/bash\ntorchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32\n"


@pytest.mark.parametrize(("name", "text", "what", "instead"), [
    ("leaf.topo", TINY, "a topology of htsim", "`network: {fabric: {file: leaf.topo}}` in a design, or `astr"),
    ("flows.cm", MATRIX, "a connection matrix of htsim", "`workload: {source: micro, pattern: all_to_all"),
    ("pair.xml", ALGO, "an algorithm of MSCCL", "`collective: {custom: {OPERATION: pair.xml}}` in a design"),
    ("host.xml", "<system version=\"1\">", "a host's topology of NCCL", "`network: {fabric: {file: host.xml}}`"),
    ("config.json", '{"architectures": ["LlamaForCausalLM"]}', "a model's config.json", "`astrarium plan config.json"),
    ("job.sh", SCRIPT, "a launch script or log", "`astrarium plan --from job.sh`"),
    ("job.log", "[rank0]:[titan] INFO - Running with configs: {", "a launch script or log", "`astrarium plan --from"),
    ("d.yaml", "# mine\ncompute: a100_sxm_80gb\nnetwork:\n  dims: []\n", "a design", "`astrarium run d.yaml`")])
def test_a_file_that_is_no_trace(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str,
                                 what: str, instead: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    said = run("trace", "convert", name, "-o", "x")
    assert said.code == 1
    assert f"is {what}" in said.err
    assert "not a trace; expected" in said.err
    assert instead in said.err


def test_a_file_that_is_no_design(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("leaf.topo").write_text(TINY)
    Path("flows.cm").write_text(MATRIX)
    assert "leaf.topo: is a topology of htsim, not a design; expected `network:" in run("run", "leaf.topo").err
    assert "is a connection matrix of htsim (messages), not a design" in run("run", "flows.cm").err
    assert run("show", "leaf.topo").out.startswith("fabric: leaf.topo:")
    Path("d.yaml").write_text("workload: {source: micro, pattern: ring, payload: 1 MB, npus: 16}\n"
                              "network: {fabric: {file: flows.cm}}\n")
    assert "flows.cm: is a connection matrix of htsim (messages), not a network" in run("run", "d.yaml").err


def test_forms_are_listed_with_an_example(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    said = run("trace", "convert", tmp_path / "a.txt", "-o", tmp_path / "x").err
    assert "begins with 'hello': not a trace of a known form; expected one of chakra (binary, run.0.et); kin" in said
    assert EXAMPLES.keys() == built_ins("reader").keys()
    assert all(f"{name} ({begin})" in said for name, begin in EXAMPLES.items())


@pytest.mark.parametrize(("protocol", "sends"), [("LL", "2 bytes for 1"), ("LL128", "16 bytes for 15"), ("Simple", "")])
def test_protocols_of_msccl_are_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str,
                                      sends: str) -> None:
    monkeypatch.chdir(tmp_path)
    gpus = "".join(f"""<gpu id="{rank}" i_chunks="1" o_chunks="2" s_chunks="0">
<tb id="0" send="{1 - rank}" recv="{1 - rank}" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="{rank}" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="{1 - rank}" cnt="1" depid="-1" deps="-1" hasdep="0"/>
</tb></gpu>""" for rank in range(2))
    Path("pair.xml").write_text(ALGO.replace("LL128", protocol).replace('nchunksperloop="1"', 'nchunksperloop="2"')
                                + gpus + "</algo>")
    Path("d.yaml").write_text("workload: {source: collective, op: all_gather, payload: 4 MB}\n"
                              "network: {dims: [{shape: switch, npus: 2, bandwidth: 100 GB/s, latency: 500 ns}]}\n"
                              "collective: {custom: {all_gather: pair.xml}}\n")
    said = run("run", "d.yaml")
    assert said.code == 0
    assert (f"pair.xml says proto {protocol}, which has no effect here" in said.err) == bool(sends)
    assert f"({protocol} sends {sends})" in said.err or not sends
