"""What `--json` prints begins with its format, has one unit per quantity, and is on docs/reference/json.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.loading import tool


@pytest.fixture(scope="module")
def formats() -> Any:
    """tools/json_formats.py as a module."""
    return tool("json_formats")


def sections(text: str) -> dict[str, str]:
    """Format -> its part of docs/reference/json.md."""
    return {part.partition("\n")[0]: part for part in text.split("\n### ")[1:]}


def test_fields_have_one_unit_and_are_on_the_page(formats: Any) -> None:
    with formats.scratch():
        found = formats.formats(formats.CHEAP)
    page = sections(formats.PAGE.read_text(encoding="utf-8"))
    for name, (_, fields) in found.items():
        assert formats.wrong(fields) == [], f"{name}: another unit than that of the quantity"
        missing = [path for path, kinds in fields.items() if path not in ("format", "astrarium")
                   and not formats.held(path, kinds, fields) and f"| `{path}` |" not in page[name]]
        assert missing == [], f"{name}: run python tools/json_formats.py"


@pytest.mark.exam
def test_the_page_is_current(formats: Any) -> None:
    assert formats.main(["--check"]) == 0
    with formats.scratch():
        for name, (_, fields) in formats.formats([*formats.CHEAP, *formats.DEAR]).items():
            assert formats.wrong(fields) == [], name


def test_every_format_is_on_the_page_or_said_not_to_be(formats: Any, root: Path) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (root / "src" / "astrarium").rglob("*.py"))
    listed = sections(formats.PAGE.read_text(encoding="utf-8"))
    known = {name.removesuffix("/1") for name in listed} | {*formats.NOT_RUN}
    assert set(re.findall(r'(?:print_json|json_text|stamp)\("([a-z -]+)"', text)) == known


@pytest.mark.parametrize(("name", "expected"), [
    ("makespan_ns", "ns"), ("tokens_per_s_per_npu", "1/s"), ("busbw_gb_per_s", "GB/s"), ("peak_flop_per_ns", "FLOP/ns"),
    ("bytes", "byte"), ("requests_per_s_with_longer_steps", "1/s"), ("ranks", ""), ("columns", ""), ("patterns", "")])
def test_the_unit_of_a_name(formats: Any, name: str, expected: str) -> None:
    assert formats.unit(name) == expected


@pytest.mark.parametrize("name", ["step_s", "wait_us", "times_ps[].compute_ms", "clock_mhz", "size_mb", "used_percent"])
def test_other_units_are_found(formats: Any, name: str) -> None:
    assert formats.wrong({name: {"number"}}) == [name]
