"""Prose is tested: the code blocks of README and docs run, and print what the page says (rules: tools/prose.py)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.loading import tool

from astrarium.engine import HAVE_CORE

ROOT = Path(__file__).resolve().parent.parent.parent


prose = tool("prose")
PAGES = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in prose.pages()}
BLOCKS = {name: prose.blocks(name, text) for name, text in PAGES.items()}


@pytest.mark.skipif(not HAVE_CORE, reason="pages fold and run at scale, which needs the compiled core")
@pytest.mark.parametrize("name", [name for name, blocks in BLOCKS.items() if any(not block.exam for block in blocks)])
def test_page_does_what_it_says(name: str, forks: Any) -> None:
    found = prose.complaints(name, PAGES[name], forks, exam=False)
    assert not found, "\n".join(found)


@pytest.mark.exam
@pytest.mark.skipif(not HAVE_CORE, reason="pages fold and run at scale, which needs the compiled core")
@pytest.mark.parametrize("name", [name for name, blocks in BLOCKS.items() if any(block.exam for block in blocks)])
def test_page_with_its_long_blocks_does_what_it_says(name: str, forks: Any) -> None:
    found = prose.complaints(name, PAGES[name], forks)
    assert not found, "\n".join(found)


def test_the_readme_starts_with_the_two_commands() -> None:
    first = prose.FENCE.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert first is not None
    assert [line.split("#")[0].strip() for line in first.group(2).splitlines()] == ["make run", "make test"]


def test_the_readme_example_has_15_lines_and_output() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    example = next(block for block in prose.blocks("README.md", text) if "import astrarium" in block.command[-1])
    assert len([line for line in example.command[-1].splitlines() if line.strip()]) <= 15
    assert example.expected.strip()


PAGE = """```python
print(1)
```
prints

```text
1
```
<!-- not run: slow -->
```python
1/0
```
```console
$ astrarium list
ab
$ make run
```
"""


def test_blocks_are_found_and_compared() -> None:
    first, second = prose.blocks("page", PAGE)
    assert (first.where, first.expected, PAGE[first.start:first.end]) == ("page:1", "1\n", "1\n")
    assert (second.where, second.expected, PAGE[second.start:second.end]) == ("page:13", "ab\n", "ab\n")
    assert second.command == (*prose.CLI, "list")
    assert prose.same("1\n", "1 \n")
    assert prose.same("a ... c", "a b c\n")
    assert not prose.same("1\n", "2\n")


def test_files_and_failures_of_a_page() -> None:
    page = ('```yaml title="a/b.txt"\nx\n```\n```python\nprint(open("a/b.txt").read())\n```\n```text\nx\n```\n'
            '```py title="c.py"\nraise SystemExit("bad")\n```\n<!-- exits 1 -->\n```console\n$ python c.py\nbad\n```\n')
    assert prose.complaints("page", page) == []
    assert prose.refreshed("page", page.replace("\nbad", "\nworse")) == page
    assert "page:4 prints:\nx" in prose.complaints("page", page.replace("text\nx", "text\ny"))[0]
    assert "page:14 failed with 1:\nbad" in prose.complaints("page", page.replace("exits 1", "exit 1"))[0]


def test_blocks_of_the_exam_run_on_request() -> None:
    page = ("<!-- exam: long -->\n```python\nprint(1)\n```\n```text\n2\n```\n"
            "<!-- exam: long -->\n```console\n$ python absent.py\n```\n```python\nprint(3)\n```\n```text\n4\n```\n")
    assert [block.exam for block in prose.blocks("page", page)] == [True, True, False]
    assert prose.complaints("page", page, exam=False) == ["page:12 prints:\n3\n"]
    first, second = prose.complaints("page", page)
    assert first == "page:2 prints:\n1\n"
    assert second.startswith("page:9 failed with 2")


def test_output_is_refreshed_in_place() -> None:
    page = "```python\nprint(2)\n```\n```text\n1\n```\nafter\n"
    assert prose.refreshed("page", page) == page.replace("1\n", "2\n")
    with pytest.raises(RuntimeError, match="page:1 failed"):
        prose.refreshed("page", page.replace("print(2)", "1/0"))


def test_links_to_files_of_the_checkout_exist() -> None:
    broken = []
    for page in [*prose.pages(), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert broken == []
