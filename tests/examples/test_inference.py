"""The inference examples print what their folder says: they stand in the guide, whose blocks are run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from astrarium.cli import main


@pytest.mark.parametrize(("command", "name", "shown", "expected"), [
    ("run", "examples/inference/h100.yaml", "examples/inference/h100.yaml", "run.txt"),
    ("run", "examples/inference/split.yaml", "own/split.yaml", "split.txt"),
    ("serve", "examples/inference/chat.yaml", "own/chat.yaml", "serve.txt")])
def test_the_guide_prints_them(command: str, name: str, shown: str, expected: str, root: Path) -> None:
    """tests/packaging/test_readme.py runs the guide's blocks; a design that stands in the guide is the folder's."""
    printed = (root / "examples" / "inference" / expected).read_text(encoding="utf-8").replace(name, shown)
    page = "serving.md" if command == "serve" else "inference.md"
    guide = (root / "docs" / "guides" / page).read_text(encoding="utf-8")
    assert f"$ astrarium {command} {shown}\n{printed}```" in guide
    if shown != name:
        written = guide.split(f'```yaml title="{shown}"\n')[1].split("```")[0].replace("../examples/inference/", "")
        assert yaml.safe_load(written) == yaml.safe_load((root / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(("name", "gpus"), [("llama3_8b", 1), ("qwen3_32b_tp2", 2), ("qwen3_30b_a3b_dp2", 2)])
def test_a_log_is_compared_with_the_set_ups_of_llmservingsim(name: str, gpus: int, root: Path, tmp_path: Path,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    line = ('{{"request_id": "bench-{0}", "input_toks": 900, "output_toks": 20, "arrival_time": 177714489{0}.5, '
            '"queued_ts": {0}.51, "scheduled_ts": {0}.52, "first_token_ts": {0}.9, "last_token_ts": {1}.5}}\n')
    log = tmp_path / "requests.jsonl"
    log.write_text("".join(line.format(number, number + 1) for number in range(2)), encoding="utf-8")
    folder = root / "examples" / "inference" / "llmservingsim"
    assert main(["validate", "--serving", str(folder / f"{name}_serve.yaml"), str(log)]) == 0
    assert re.search("tpot mean +2 +31.58 ms", capsys.readouterr().out)
    host = yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))["network"]["dims"]
    assert host == [{"like": "rtx_pro_6000_pcie5_host", "npus": gpus}]
