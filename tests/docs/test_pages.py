"""Pages say what the code does, where a list or a fragment can be compared; navigation and code blocks are complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from astrarium.config import decode
from astrarium.config.yamlfile import parse_yaml
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.network.granularity import GRANULARITY

FENCE = re.compile(r"^(<!-- [^\n]* -->\n)?```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SMALL = {"workload": {"source": "collective", "op": "all_reduce", "payload": "1 MB"},
         "network": {"dims": [{"shape": "switch", "npus": 8, "bandwidth": "1 GB/s", "latency": "1 us"}] * 2}}
RUN = {"python", "console", "text"}


def pages(root: Path) -> list[Path]:
    """Every page but the written ones."""
    return [page for page in sorted((root / "docs").rglob("*.md")) if page.parent.name != "reference"]


def source(root: Path, *patterns: str) -> str:
    """The text of some source files."""
    return "\n".join(path.read_text(encoding="utf-8") for pattern in patterns for path in sorted(root.glob(pattern)))


def nav_of(part: Any) -> list[str]:
    """The files that a piece of mkdocs' nav names."""
    if isinstance(part, str):
        return [part]
    values = part.values() if isinstance(part, dict) else part
    return [name for value in values for name in nav_of(value)]


def test_the_navigation_names_every_page_once(root: Path) -> None:
    named = nav_of(yaml.safe_load((root / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    there = [page.relative_to(root / "docs").as_posix() for page in (root / "docs").rglob("*.md")]
    assert sorted(named) == sorted(there)


@pytest.mark.parametrize("folder", ["tutorial", "guides"])
def test_every_block_is_run_or_checked_or_says_why_not(root: Path, folder: str) -> None:
    loose = []
    for page in pages(root):
        for mark, language, rest, _ in FENCE.findall(page.read_text(encoding="utf-8")):
            checked = language in RUN or language == "yaml" or "title=" in rest or "not run:" in mark
            if page.parent.name == folder and not checked:
                loose.append(f"{page.name}: {language}{rest}")
    assert loose == []


def fragments(root: Path) -> list[tuple[str, str]]:
    """(page, text) of YAML blocks that are not files."""
    return [(page.name, text) for page in pages(root)
            for mark, language, rest, text in FENCE.findall(page.read_text(encoding="utf-8"))
            if language == "yaml" and "title=" not in rest and "not run:" not in mark]


def test_fragments_of_designs_are_legal(root: Path) -> None:
    found = fragments(root)
    assert found
    for _, text in found:
        decode(Design, {**SMALL, **parse_yaml(text, "fragment").data})


def test_a_fragment_that_is_wrong_is_noticed() -> None:
    with pytest.raises(InputError, match="chunk"):
        decode(Design, {**SMALL, **parse_yaml("collective: {chunk: 4}", "fragment").data})


def test_the_doctor_s_codes_are_all_in_the_guide(root: Path) -> None:
    text = source(root, "src/astrarium/trace/_check_*.py")
    codes = set(re.findall(r'"(?:error|warning)", "([a-z_]+)"', text))
    codes |= set(re.findall(r'code, fix = "([a-z_]+)"', text))
    codes |= {"unmatched_send", "unmatched_receive", "missing_comm_src", "missing_comm_dst", "collective_order"}
    guide = (root / "docs" / "guides" / "traces.md").read_text(encoding="utf-8")
    table = guide[guide.index("| code | what it means |"):]
    said = set(re.findall(r"`([a-z_]+)`", "".join(line.split("|")[1] for line in table.splitlines() if "|" in line)))
    assert len(codes) > 20
    assert codes - said == set()


def test_the_granularity_of_every_back_end_is_on_its_page(root: Path) -> None:
    page = (root / "docs" / "background" / "agreement.md").read_text(encoding="utf-8")
    said = dict(re.split(r" {2,}", line) for line in page.split("```text\n")[1].split("```")[0].splitlines())
    assert said == {name: each.sentence for name, each in GRANULARITY.items()}


def test_every_reason_not_to_fold_is_on_its_page(root: Path) -> None:
    code = source(root, "native/engine/**/*.cpp", "native/engine/**/*.hpp")
    reasons = set(re.findall(r'\.never_folds = "([^"]+)"', code))
    for body in re.findall(r"never_folds\(const Plan& plan\) \{\n(.*?)\n\}", code, re.DOTALL):
        reasons |= set(re.findall(r'"([^"]+)"', body))
    reasons |= set(re.findall(r'(?:Unfoldable|Endless|Asymmetric)\{\{?"([^"]+)"\}', code))
    for name in set(re.findall(r"Unfoldable\{(\w+)\}", code)):
        reasons |= set(re.findall(rf'const char\* {name} = "([^"]+)"', code))
    page = (root / "docs" / "background" / "folding.md").read_text(encoding="utf-8")
    first = "".join(line.split("|")[1] for line in page.splitlines() if line.startswith("|"))
    assert len(reasons) > 10
    assert set(re.findall(r"`([^`]+)`", first)) == reasons


def test_every_model_says_what_it_cannot_predict(root: Path) -> None:
    models = ["closed_form", "contention", "collectives", "roofline", "replay", "memory", "clock"]
    for name in models:
        text = (root / "docs" / "background" / f"{name}.md").read_text(encoding="utf-8")
        for heading in ("## Tests", "## Limits"):
            assert heading in text, name


def test_the_tests_that_pages_name_exist(root: Path) -> None:
    missing, path = [], re.compile(r"`((?:tests|examples|design|tools|benchmarks)/[\w./-]+)`")
    for page in pages(root):
        for name in path.findall(page.read_text(encoding="utf-8")):
            if not (root / name).exists():
                missing.append(f"{page.name}: {name}")
    assert missing == []
