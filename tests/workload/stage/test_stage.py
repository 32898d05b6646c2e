"""STAGE's traces node for node: against digests of what STAGE itself wrote, and its published figures."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import astrarium as ar
from astrarium.config import decode
from astrarium.errors import InputError
from astrarium.trace import Traces, read_groups, read_traces
from astrarium.trace.export import write_generated
from astrarium.trace.node import decode_node
from astrarium.trace.write import node_messages
from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.config import Workload
from astrarium.workload.generate import generate
from astrarium.workload.stage.config import Stage
from astrarium.workload.stage.flags import from_stage_flags, stage_command

SMALL = {"seq": 96, "dmodel": 128, "dff": 256, "dvocal": 1000}

# Flags of main.py and the digest of the 1 to 32 files that it wrote for them (symbolic_tensor_graph 3a7f49c, run
# 2026-11-21 with Python 3.11): every node in order of id with name, type, operations, sizes, ranks of its group, peer,
# and what it waits for; all but ids, tags (random there) and the names of tensors.
WRITTEN: list[tuple[dict[str, Any], str]] = [
    ({"dp": 2, "num_stacks": 1}, "08f103f1459f610b"),
    ({"tp": 2, "num_stacks": 1}, "051961c122ce74c5"),
    ({"dp": 2, "tp": 2, "num_stacks": 1}, "1635cb7796ce5689"),
    ({"dp": 2, "tp": 2, "ep": 2, "num_stacks": 1}, "d3da38c0f06e94dc"),
    ({"dp": 2, "tp": 2, "sp": 2, "num_stacks": 1}, "64a60776779cd487"),
    ({"dp": 2, "tp": 2, "sp": 2, "num_stacks": 1, "tpsp": False}, "38f4361207a8f15d"),
    ({"dp": 2, "tp": 2, "sp": 2, "num_stacks": 2, "weight_sharded": True}, "b1c51d1584e67f8d"),
    ({"dp": 2, "sp": 2, "num_stacks": 1, "weight_sharded": True, "tpsp": False}, "bf5838e331c201e0"),
    ({"dp": 2, "tp": 2, "pp": 2, "num_stacks": 3, "micro_batch": 16}, "e9477fdbcde44f2e"),
    ({"dp": 2, "tp": 2, "pp": 3, "num_stacks": 4}, "c26f85b5a2970d4e"),
    ({"dp": 2, "tp": 2, "sp": 2, "pp": 2, "num_stacks": 3, "tpsp": False, "weight_sharded": True, "batch": 32,
      "micro_batch": 16}, "0218eb8710217cfa"),
    ({"dp": 4, "tp": 3, "pp": 2, "num_stacks": 2, "batch": 10, "seq": 100, "dmodel": 90, "dff": 100, "dvocal": 101},
     "8ed5475046de56e1"),
    # --model_type moe, which runs in astra-sim/stage 9ec6c02 only (the code for dense models is the same)
    ({"dp": 2, "tp": 2, "ep": 2, "num_stacks": 1, "experts": 4}, "a8b14aadba46af9a"),
    ({"dp": 2, "num_stacks": 1, "experts": 3, **SMALL}, "8cc95fa907220efa"),
    ({"dp": 2, "tp": 2, "sp": 2, "ep": 2, "num_stacks": 2, "experts": 2, **SMALL}, "5ab1d317d590424a"),
    ({"dp": 2, "tp": 2, "sp": 2, "ep": 2, "pp": 2, "num_stacks": 3, "experts": 4, "weight_sharded": True, "batch": 16,
      "micro_batch": 8, **SMALL}, "ccbdd61018c15945"),
]


def nodes_of(traces: Traces, groups: dict[str, tuple[int, ...]], rank: int) -> list[tuple[Any, ...]]:
    """What is compared of one rank, by ascending id."""
    nodes = sorted(map(decode_node, list(node_messages(traces.file_bytes(rank)))[1:]), key=lambda node: node.id)
    place = {node.id: number for number, node in enumerate(nodes)}
    found = []
    for node in nodes:
        said = {each.name: each.value for each in node.attrs}
        group = groups.get(str(said.get("pg_name", "")))
        message = node.type in (NodeKind.COMM_SEND, NodeKind.COMM_RECV)
        found.append((node.name, node.type, said.get("num_ops"),
                      said.get("tensor_size") if node.type == NodeKind.COMP else None, said.get("comm_type"),
                      said.get("comm_size"), None if group is None else list(group),
                      said.get("comm_dst", said.get("comm_src")) if message else None,
                      sorted({place[dep] for dep in node.data_deps})))
    return found


@pytest.mark.parametrize(("fields", "digest"), WRITTEN, ids=lambda value: value if isinstance(value, str) else "")
def test_traces_are_those_that_stage_wrote(fields: dict[str, Any], digest: str, tmp_path: Path) -> None:
    write_generated(generate(decode(Workload, {"source": "stage", **fields})), tmp_path / "w")
    traces, groups = read_traces(tmp_path / "w"), read_groups(tmp_path / "w.groups.json")
    text = json.dumps([nodes_of(traces, groups, rank) for rank in range(traces.ranks)])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest


def figures(work: Stage) -> dict[str, tuple[int, int]]:
    """Name -> (operations or operation, elements) of the first rank's nodes."""
    trace = generate(work).classes[0]
    assert trace.names is not None
    return {trace.names(node): (int(trace.num_ops[node]), int(trace.tensor_size[node]))
            if trace.type[node] == NodeKind.COMP else (int(trace.comm_type[node]), int(trace.comm_size[node]))
            for node in range(trace.type.size)}


def test_figures_that_are_known() -> None:
    """Of the defaults with dp 4, tp 4, pp 2 and 4 layers: elements and multiply-adds (STAGE's issue 29)."""
    found = figures(Stage(dp=4, tp=4, pp=2, num_stacks=4))
    layer = "mb0.transformer.0."
    assert found[f"{layer}mha.qkv@0_COMP"] == (16 * 1024 * 8192 * 6144, 16 * 1024 * 6144)      # 8.246e11
    assert found[f"{layer}mha.qkv@0_X1COMM"] == (CommOp.ALL_GATHER, 33_554_432)                # 16 * 256 * 8192
    assert found[f"{layer}mha.attn_kernel.qkv@0_COMP"][0] == 100_663_296                       # no square of 1,024
    assert found["in_emb.w@1_X2_COMM"] == (CommOp.ALL_REDUCE, 262_144_000)                     # 32,000 * 8,192
    assert found["mb0.in_emb.y@0_COMP"][0] == 1_073_741_824_000


def test_the_honest_model_of_the_same_flags() -> None:
    """Bytes are 2 per element, FLOPs 2 per multiply-add, and attention has its term in the square of the sequence."""
    flags = ["--dp", "4", "--tp", "4", "--pp", "2", "--num_stacks", "4"]
    honest = from_stage_flags(flags)
    assert (honest.ranks, honest.order, honest.tp_sequence) == (32, "stage", True)
    trace = generate(honest).classes[0]
    assert trace.names is not None
    sizes = {trace.names(node).split("forward.")[-1]: node for node in range(trace.type.size)}
    assert int(trace.comm_size[sizes["layer.h.all_gather"]]) == 2 * 33_554_432
    assert float(trace.num_ops[sizes["layer.q+k+v"]]) == pytest.approx(2 * 824_633_720_832)
    assert float(trace.num_ops[sizes["layer.attention"]]) >= 4 * 16 * 1024**2 * 2048
    assert from_stage_flags([*flags, "--activation_recompute", "true"]).recompute == "full"


def test_it_runs() -> None:
    work = Stage(dp=2, tp=2, pp=2, num_stacks=3, batch=8, micro_batch=2, seq=64, dmodel=64, dff=128, dvocal=1000)
    design = ar.Design(workload=work, compute=ar.Roofline("10 TFLOP/s"), memory=ar.Memory(bandwidth="1 TB/s"),
                       network=ar.Network([ar.Switch(8, bandwidth="50 GB/s", latency="1 us")]))
    assert ar.simulate(design).makespan_ps == ar.simulate(design, fold="off").makespan_ps > 0


def test_the_command_line_of_main_py() -> None:
    command = stage_command({"output_dir": "out", "output_name": "w.%d.et", "micro_batch": "-1", "tpsp": "False",
                             "weight_sharded": "Yes", "head": "32", "model_type": "llama"})
    assert (command.prefix, command.groups, command.ignored) == ("out/w", "out/w.json", ("--head",))
    assert (command.work.micro_batch, command.work.tpsp, command.work.weight_sharded) == (None, False, True)


@pytest.mark.parametrize(("flags", "words"), [
    ({"output_name": "w"}, "--output_dir: is missing"), ({"model_type": "debug"}, "'debug' is not reproduced"),
    ({"mixed_precision": "true"}, "mixed_precision"), ({"output_name": "w.%d"}, "ends in"), ({"dp": "x"}, "--dp"),
    ({"dp": "0"}, "above 0"), ({"dp": "9999999"}, "9999999 ranks"),
    ({"dmodel": "9" * 12}, "2.60 elements"), ({"dmodel": "9" * 18}, "dmodel: 9+ is impossible"),
    ({"pp": "81"}, "at most 80"),
    ({"micro_batch": "7"}, "does not divide 64")])
def test_what_is_not_reproduced_is_refused(flags: dict[str, str], words: str) -> None:
    given = {"output_dir": "out", "output_name": "w", **flags}
    if words.startswith("--output_dir"):
        del given["output_dir"]
    with pytest.raises(InputError, match=words):
        stage_command(given)


def test_experts() -> None:
    given = {"output_dir": "out", "output_name": "w", "model_type": "moe", "ep": "4", "dp": "2", "kvhead": "16"}
    command = stage_command(given)
    assert (command.work.experts, command.work.kvhead, command.ignored, command.work.ranks) == (8, 16, (), 8)
    for name, text, words in (("ep", "3", "does not divide 8 experts"), ("tpsp", "false", "as STAGE demands")):
        with pytest.raises(InputError, match=words):
            stage_command({**given, name: text})
    honest = from_stage_flags(["--model_type", "moe", "--ep", "4", "--dp", "2", "--tp", "2", "--num_stacks", "2"])
    assert (honest.ranks, honest.ep, honest.dp) == (16, 4, 8)
    assert generate(honest).classes[0].type.size > 0


def test_flags_that_main_py_does_not_have() -> None:
    with pytest.raises(InputError, match=r"--comm_group_file.*not a flag"):
        from_stage_flags(["--comm_group_file", "x"])
    with pytest.raises(InputError, match="has no value"):
        from_stage_flags(["--dp"])
