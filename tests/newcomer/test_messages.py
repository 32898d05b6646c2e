"""Messages to someone who types a command for the first time: what is wrong, and which values would do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.commands import Run

PLAN = "plan llama3-8b --device h100 --global-batch 8"


@pytest.mark.parametrize(("command", "message"), [
    ("plan llama3-8b --devices h100 --gpus 8", "plan: error: unknown argument --devices; did you mean --device? ("),
    ("plan --model llama3-8b --device h100 --gpus 8", "unknown argument --model; MODEL is written without a flag ("),
    ("run --design one.yaml", "unknown argument --design; DESIGN.yaml is written without a flag ("),
    ("trace lnk a b", "; did you mean link? ("), (f"{PLAN} --gpus 8 --objective tim", "; did you mean time? ("),
    ("trace link --outt x host.json", "trace link: error: unknown argument --outt; did you mean --out? (")])
def test_a_usage_error_is_one_line_that_says_what_was_meant(run: Run, command: str, message: str) -> None:
    """A flag that does not exist is said before arguments that are missing: `--devices` left out --device."""
    said = run(*command.split())
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert message in said.err


def test_a_flag_of_astra_sim_that_is_ignored_hides_no_missing_one(run: Run) -> None:
    assert "arguments are required: --system-configuration" in run(
        "astra-sim", "--unheard-of=1", "--workload-configuration", "w", "--network-configuration", "n").err


@pytest.mark.parametrize(("words", "message"), [
    ("llama3-8b --device h2000", "astrarium: device: 'h2000' is not known; expected a name that `astrarium list "
     "devices` prints; did you mean 'h200_sxm'?"),
    ("llama3-9b --device h200", "astrarium: model: 'llama3-9b' is not a model of the catalog; ")])
def test_the_argument_is_named_and_the_nearest_row(run: Run, words: str, message: str) -> None:
    assert run("plan", *words.split(), "--gpus", "8").err.startswith(message)


def test_of_many_fields_the_near_ones_are_listed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "d.yaml").write_text(
        "workload: {source: transformer, model: llama3-8b, global_batch: 8}\n"
        "network: {dims: [{shape: ring, npus: 1, bandwidth: 1 GB/s, latency: 1 us}]}\n")
    said = run("run", tmp_path / "d.yaml", "--set", "workload.tpp=2").err.strip()
    assert re.search(r"unknown key 'tpp'; expected one of tp, .{1,30} or \d+ others; did you mean 'tp'\?$", said)


@pytest.mark.parametrize(("more", "message"), [
    ("--gpus 8 --fix tp=3", "with tp 3 is allowed: none meets 'tp * cp * pp * dp == 8'; expected tp 1 or 2 or 4 or 8, "
     "or other sizes"),
    ("--gpus 24 --fix tp=3", 'none meets "tp divides heads"'),
    ("--gpus 16 --fix dp=16", 'of 16 NPUs and 8 samples with dp 16 is allowed: none meets "dp divides global_batch"; '
     "expected dp 1 or 2 or 4 or 8, or other sizes"),
    ("--gpus 7", 'none meets \'tp * cp * pp * dp == 7\' and "tp divides heads" and "cp (times tp with tp_sequence) '
     'divides seq" and "dp divides global_batch" together; expected 4 or 8 NPUs, or other sizes'),
    ("--gpus 100000000", "gpus: 100,000,000; expected 1 to 1,048,576"),
    ("--gpus 8 --fix tp", "--fix tp: has no values; expected PART=V[,V...], such as tp=4,8"),
    ("--gpus 8 --set network.dims[0].npus=4", "--set network.dims[0].npus: is not a field of the workload")])
def test_a_layout_that_does_not_exist(run: Run, more: str, message: str) -> None:
    said = run(*PLAN.split(), *more.split())
    assert said.code == 1
    assert message in said.err


def test_one_gpu_is_too_small(run: Run) -> None:
    said = run("plan", "llama3-70b", "--device", "h100", "--gpus", "1", "--global-batch", "8")
    assert "GB are left to it (1.06" in said.err
    assert "TB are missing); expected more NPUs (about 16 if all memory is sharded)" in said.err
    words = "plan llama3-405b --for serving --device h100 --gpus 1 --prompt 100 --output 10 --ttft 9s --tpot 9s"
    said = run(*words.split())
    assert "has no room for a cache: weights take 410.1 GB of the 76.97 GB that an NPU has for all" in said.err
    assert "expected more GPUs (about 8)" in said.err


@pytest.mark.parametrize(("word", "first"), [
    ("Models", "gpt2-small"), ("topologies", "ring"), ("collectives", "all_reduce"), ("rentals", "h100_node_2024_08"),
    ("fabrics", "clos")])
def test_kinds_have_the_names_that_people_use(run: Run, word: str, first: str) -> None:
    assert run("list", word).out.startswith(first)


def test_a_flag_means_one_thing(run: Run) -> None:
    """`--set` takes paths of the design in `plan`, too; `--objective` is `--minimize` in both verbs that have it."""
    both = [run(*PLAN.split(), "--gpus", "8", "--top", "1", "--fix", "tp=2", "--fix", "pp=1", "--set", text).out
            for text in ("precision.gradients=fp32", "workload.precision.gradients=fp32")]
    assert both[0] == both[1] != ""
    assert "unknown argument" not in run("search", "none.yaml", "--objective", "makespan").err
