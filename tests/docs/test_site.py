"""The site: no page is too long, the search finds what users look for, the gallery's pictures exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.loading import tool

MOST = 3_000      # words of a page
LOOKED_FOR = {"overhead": "reference/glossary/#overhead", "rental": "reference/glossary/#rental",
              "comm_streams": "guides/system/#streams"}


def test_no_page_is_too_long(root: Path) -> None:
    words = {page: len(page.read_text(encoding="utf-8").split()) for page in (root / "docs").rglob("*.md")
             if page.parent.name != "reference"}
    assert {page.name: count for page, count in words.items() if count > MOST} == {}


def separator(root: Path) -> str:
    """What separates the words of the site's search."""
    plugins: list[Any] = yaml.safe_load((root / "mkdocs.yml").read_text(encoding="utf-8"))["plugins"]
    return next(each["search"]["separator"] for each in plugins if "search" in each)


@pytest.mark.parametrize("word", LOOKED_FOR)
def test_the_search_has_the_words_that_users_look_for(root: Path, word: str) -> None:
    page, anchor = LOOKED_FOR[word].split("/#")
    text = (root / "docs" / f"{page}.md").read_text(encoding="utf-8").lower()
    section = next(part for part in re.split(r"^#+ ", text, flags=re.MULTILINE) if part.startswith(f"{anchor}\n"))
    assert word in re.split(separator(root), section.replace("`", " "))


def test_the_gallery_has_a_command_for_every_picture(root: Path) -> None:
    text = (root / "docs" / "gallery.md").read_text(encoding="utf-8")
    names = tool("gallery").pictures(text)
    assert sorted(names) == sorted(path.name for path in (root / "docs" / "gallery").iterdir())
    for name in names:
        after = text.split(f"(gallery/{name})")[1].split("\n## ")[0]
        made = name if name.endswith(".svg") else f"{Path(name).stem}.html"
        assert re.search(rf"^\$ astrarium .* {re.escape(made)}$", after, re.MULTILINE), name


@pytest.mark.exam
def test_the_site_is_built_and_its_search_finds(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="no MkDocs here: make docs installs it")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path], cwd=root,
                   check=True, timeout=120)
    index = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    for word, where in LOOKED_FOR.items():
        found = [each["location"] for each in index["docs"]
                 if word in re.split(index["config"]["separator"], f"{each['title']} {each['text']}".lower())]
        assert where in found, word
