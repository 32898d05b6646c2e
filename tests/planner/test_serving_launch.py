"""Launch arguments of serving engines: written, read back equal; what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from astrarium.errors import InputError
from astrarium.planner.serving import ServingPlan, launch_text, plan_serving_from, read_launched
from astrarium.planner.serving.engine import CHECKPOINT, Engine
from astrarium.serving.layout import Layout
from astrarium.serving.policy import Policy

POLICY = Policy(max_tokens=4096, max_batch=192, memory_share=0.85)
ENDS = {"vllm": "sh", "sglang": "sh", "trtllm": "yaml"}
ALL = tuple(ENDS)
ENGINES: Mapping[str, tuple[Engine, bool, tuple[str, ...]]] = {
    "one": (Engine(Layout(1), CHECKPOINT, "bf16"), False, ALL),
    "tensors": (Engine(Layout(8), "fp8", "fp8"), False, ALL),
    "stages": (Engine(Layout(4, 1, 2), "fp8", "bf16"), False, ALL),
    "experts over tp": (Engine(Layout(8, 1, 1, 8), CHECKPOINT, "fp8"), True, ALL),
    "experts cut": (Engine(Layout(8), CHECKPOINT, "fp8"), True, ALL),
    "attention apart": (Engine(Layout(1, 8, 1, 8), CHECKPOINT, "bf16"), True, ALL),
    "attention in twos": (Engine(Layout(2, 4, 1, 8), "fp8", "fp8"), True, ("vllm", "sglang")),
    "nvfp4": (Engine(Layout(4), "nvfp4", "fp8"), False, ("trtllm",)),
}


@pytest.mark.parametrize(("framework", "name"), [(framework, name) for name, (_, _, some) in ENGINES.items()
                                                 for framework in some])
def test_written_and_read_back(framework: str, name: str, tmp_path: Path) -> None:
    engine, experts, _ = ENGINES[name]
    share = 0.0 if framework == "trtllm" else POLICY.memory_share
    wanted = replace(engine, tokens=POLICY.max_tokens, batch=POLICY.max_batch, share=share)
    file = tmp_path / f"launch.{ENDS[framework]}"
    file.write_text(launch_text(framework, "llama3-8b", engine, POLICY))
    found = read_launched(str(file), lambda _: experts)
    assert found.engine == wanted
    assert found.engines == 1
    assert found.model == (None if framework == "trtllm" else "llama3-8b")


@pytest.mark.parametrize("command", [
    "docker run --rm -it --device=/dev/kfd --group-add video -e A=1 rocm/vllm:latest \\\n  vllm serve llama3-8b",
    "docker run --runtime nvidia --gpus all -v models:/models -p 8000:8000 --ipc=host "
    "vllm/vllm-openai:latest --model llama3-8b",
    "vllm serve llama3-8b"])
def test_options_of_docker_are_not_the_engines(command: str, tmp_path: Path) -> None:
    file = tmp_path / "vllm.sh"
    file.write_text(f"{command} --tensor-parallel-size 2 --swap-space 16\n")
    found = read_launched(str(file), lambda _: False)
    assert (found.engine.layout, found.model) == (Layout(2), "llama3-8b")
    assert any("swapped" in each for each in found.assumed)


def test_replicas_and_short_flags(tmp_path: Path) -> None:
    file = tmp_path / "vllm.sh"
    file.write_text("TP=2\nvllm serve llama3-8b -tp $TP -dp=3 --port 8000 --max-model-len 8192\n")
    found = read_launched(str(file), lambda _: False)
    assert (found.engine.layout, found.engines) == (Layout(2), 3)
    assert found.ignored == ("port",)
    assert any("max_model_len" in each for each in found.assumed)
    file.write_text("python3 -m sglang.launch_server --model llama3-8b --tp 2 --dp 3")
    found = read_launched(str(file), lambda _: False)
    assert (found.stack, found.engine.layout, found.engines) == ("sglang", Layout(2), 3)


@pytest.mark.parametrize(("text", "part"), [
    ("vllm serve m --enforce-eager", "enforce_eager"), ("vllm serve m --tensor-paralel-size 2", "tensor_parallel_size"),
    ("vllm serve m --quantization awq", "awq"), ("vllm serve m --enable-expert-parallel", "no experts"),
    ("torchrun train.py", "no known engine"),
    ("python -m sglang.launch_server --model m --tp 2 --speculative-algorithm EAGLE", "draft")])
def test_what_is_refused(text: str, part: str, tmp_path: Path) -> None:
    file = tmp_path / "launch.sh"
    file.write_text(text)
    with pytest.raises(InputError, match=part):
        read_launched(str(file), lambda _: False)
    if "eager" in text:
        assert read_launched(str(file), lambda _: False, ["enforce_eager"]).engine.layout == Layout(1)


@pytest.mark.parametrize(("engine", "framework"), [
    (Engine(Layout(2, 4, 1, 8), "fp8", "fp8"), "trtllm"), (Engine(Layout(1), "nvfp4", "fp8"), "vllm")])
def test_what_is_not_launched(engine: Engine, framework: str) -> None:
    with pytest.raises(InputError):
        launch_text(framework, "m", engine, POLICY)


def planned(tmp_path: Path, text: str, **more: Any) -> ServingPlan:
    """The plan of what a script launches."""
    file = tmp_path / "today.sh"
    file.write_text(text)
    return plan_serving_from(str(file), "H100", prompt=20, output=2, ttft="1ms", tpot="1ms", compute="roofline",
                             collectives="simulated", fixed={"weights": ["bf16"], "cache": ["bf16"], "tp": [1]}, **more)


@pytest.mark.exam
def test_today_is_a_line(tmp_path: Path) -> None:
    """Of a checkpoint, whose name is an alias of the catalog's."""
    found = planned(tmp_path, "vllm serve openai-community/gpt2 -tp 2", stack="none")
    assert found.today is not None
    assert found.today.trial.candidate.engine.layout == Layout(2)
    assert found.goal.gpus == 2
    assert found.best.trial.candidate.engine.layout == Layout(1)
    assert found.plain["today"]["npus"] == 2


@pytest.mark.parametrize(("text", "more", "part"), [
    ("vllm serve meta-llama/X", {}, "catalog"), ("vllm serve gpt2-small -tp 4", {"gpus": 2}, "at least 4")])
def test_what_is_not_planned(text: str, more: Mapping[str, Any], part: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=part):
        planned(tmp_path, text, stack="none", **more)
