#!/usr/bin/env python3
"""The pictures of docs/gallery.md: runs the page's commands and writes what they make to docs/gallery/.

`python tools/gallery.py` makes all of them; with names (`gallery.py plan_page.png`) it writes only these. NAME.svg is a
file that a command writes, NAME.png is the page NAME.html as Chromium shows it, 1,280 pixels wide (needs the package
playwright and a Chromium on the PATH).
"""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import prose
from forks import Forks

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "gallery.md"
PICTURE = re.compile(r"!\[[^\]]+\]\(gallery/([\w.]+)\)")
MARK = re.compile(r"^<!-- not run: .*-->\n", re.MULTILINE)      # for the tests; here the blocks run
WIDE, HIGH = 1280, 800


def pictures(text: str) -> list[str]:
    """The files of docs/gallery that a page shows, in order."""
    return PICTURE.findall(text)


def photograph(pages: Sequence[Path], into: Path) -> None:
    """Write the upper part of each page as Chromium shows it in light colours: NAME.html as `into`/NAME.png."""
    driver: Any = importlib.import_module("playwright.sync_api")
    with driver.sync_playwright() as program:
        browser = program.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": WIDE, "height": HIGH}, color_scheme="light")
        for page in pages:
            shown.goto(page.as_uri())
            shown.screenshot(path=into / f"{page.stem}.png")
        browser.close()


def main(arguments: Sequence[str]) -> int:
    """Run the commands in one folder and copy the pictures; 1 if a command fails."""
    text, into = PAGE.read_text(encoding="utf-8"), PAGE.with_suffix("")
    wanted = [name for name in pictures(text) if not arguments or name in arguments]
    into.mkdir(exist_ok=True)
    with prose.scratch() as folder, Forks() as forks:
        for block in prose.blocks(PAGE.name, MARK.sub("", text)):
            ran = block.run(folder, forks)
            if ran.returncode != block.exits:
                sys.stderr.write(f"{block.where} failed:\n{ran.stderr}")
                return 1
        for name in wanted:
            if name.endswith(".svg"):
                shutil.copyfile(folder / name, into / name)
        pages = [(folder / name).with_suffix(".html") for name in wanted if name.endswith(".png")]
        if pages:
            photograph(pages, into)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
