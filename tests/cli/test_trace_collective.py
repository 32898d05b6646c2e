"""`astrarium trace collective`: algorithms and kernels as traces, MSCCL programs and MSCCL++ plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from astrarium.gpu import read_mscclpp
from astrarium.gpu.msccl.xml import parse_msccl
from astrarium.vocab import CommOp

if TYPE_CHECKING:
    from tests.commands import Run

REDUCE = ("--op", "all_reduce", "--npus", "4")


def test_a_kernel_becomes_a_plan_or_a_program(run: Run, tmp_path: Path) -> None:
    plan, program = tmp_path / "a.json", tmp_path / "a.xml"
    kernel = ("kernel:one_shot", *REDUCE, "--protocol", "ll", "--workgroups", "2")
    said = run("trace", "collective", *kernel, "--threads", "512", "-o", str(plan))
    assert (said.code, said.out, said.err) == (0, f"wrote {plan}\n", "")
    read = read_mscclpp(plan)
    assert (read.op, read.ll, read.threads) == (CommOp.ALL_REDUCE, True, 512)
    assert [len(gpu.blocks) for gpu in read.gpus] == [2] * 4
    assert run("trace", "collective", *kernel, "-o", str(program)).code == 0
    algo = parse_msccl(program.read_bytes())
    assert (algo.coll, algo.protocol, algo.chunks, len(algo.gpus)) == ("allreduce", "LL", 2, 4)


def test_check_proves_plans_and_programs(run: Run, tmp_path: Path) -> None:
    plan, program = str(tmp_path / "a.json"), str(tmp_path / "a.xml")
    for file in plan, program:
        run("trace", "collective", "kernel:all_pairs", *REDUCE, "-o", file)
    said = run("check", plan, program)
    assert (said.code, said.out) == (0, "")
    assert said.err == "".join(f"astrarium: note: {file}: proved: all_reduce, whatever the timing\n"
                               for file in (plan, program)) + "0 errors, 0 warnings\n"
    text = Path(program).read_text()
    Path(program).write_text(text.replace('type="rrc"', 'type="r"', 1))
    document = json.loads(Path(plan).read_text())
    document["gpus"][1]["threadblocks"][0]["ops"].pop(0)
    Path(plan).write_text(json.dumps(document))
    said = run("check", plan, program)
    assert said.code == 1
    assert f"{plan}: rank 2, threadblock 0" in said.out
    assert f"{program}: all_reduce: GPU 0's output" in said.out
    assert said.err == "2 errors, 0 warnings\n"
    other = tmp_path / "b.json"
    other.write_text("{}")
    assert "not a trace of a known form" in run("check", str(other)).out


def test_check_proves_the_programs_that_a_design_names(run: Run, tmp_path: Path) -> None:
    """A run would take its time and never ask what it computes."""
    program, design = tmp_path / "a.xml", tmp_path / "design.yaml"
    run("trace", "collective", "kernel:all_pairs", *REDUCE, "-o", str(program))
    design.write_text("workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
                      "network: {dims: [{shape: switch, npus: 4, bandwidth: 100 GB/s, latency: 1 us}]}\n"
                      f"collective: {{custom: {{all_reduce: {program}}}}}\n")
    said = run("check", str(design))
    assert (said.code, said.out) == (0, "")
    assert f"note: {program}: proved: all_reduce, whatever the timing\n0 errors, 0 warnings\n" in said.err
    program.write_text(program.read_text().replace('type="rrc"', 'type="r"', 1))
    said = run("check", str(design))
    assert (said.code, said.err) == (1, "1 error, 0 warnings\n")
    assert f"{program}: all_reduce: GPU 0's output" in said.out


def test_what_a_plan_does_not_carry_is_said(run: Run, tmp_path: Path) -> None:
    said = run("trace", "collective", "kernel:ring", *REDUCE, "-o", str(tmp_path / "a.json"), "--json")
    assert said.code == 0
    assert "astrarium: note: sums that only go to peers are also stored in the output" in said.err
    assert json.loads(said.out)["notes"] == sorted(json.loads(said.out)["notes"])


@pytest.mark.parametrize(("words", "expected"), [
    (("kernel:rign", "-o", "a.json"), "did you mean 'ring'"),
    (("kernel:ring", "-o", "a"), "expected NAME.xml (MSCCL) or NAME.json (MSCCL++)"),
    (("kernel:ring", "-o", "a.xml", "--direction", "get"), "expected put: a ring writes"),
    (("kernel:ring", "-o", "a.xml", "--threads", "9"), "MSCCL has no place for them"),
    (("kernel:ring", "-o", "a.json", "--size", "1 MB"), "for any payload"),
    (("ring", "-o", "a.json"), "MSCCL++ plans are kernels, such as kernel:all_pairs"),
    (("ring", "-o", "a.xml", "--protocol", "ll"), "expected a kernel, such as kernel:all_pairs"),
    (("ring", "-o", "a"), "--size: is missing"),
])
def test_what_does_not_go_together_is_refused(words: tuple[str, ...], expected: str, run: Run) -> None:
    said = run("trace", "collective", *words, *REDUCE)
    assert said.code == 1
    assert expected in said.err
