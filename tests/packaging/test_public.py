"""The public API is what its snapshot says, and README, docs and examples of plug-ins import nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.loading import tool

api, prose = tool("public_api"), tool("prose")
FREE = ("astrarium.search.gym", "astrarium.trace.graphs")      # of extras; their names are on their pages
INSIDE = ("astra3", "comet", "cosmic", "disaggregation", "wafer")      # studies of papers: of one version


def test_the_public_api_is_that_of_the_snapshot() -> None:
    """Names, signatures, fields. On purpose? Then `python tools/public_api.py`, and a line in the changelog."""
    assert list(api.lines()) == api.SNAPSHOT.read_text(encoding="utf-8").splitlines()


def imported(code: str) -> Iterator[tuple[str, str]]:
    """(module, name) of what a program imports from the package."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "astrarium":
            yield from ((node.module or "", each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.startswith("astrarium."))


def test_pages_and_examples_import_public_names_only(root: Path) -> None:
    public = {tuple(line.split("(")[0].split(":")[0].split()[0].rsplit(".", 1)) for line in api.lines()}
    public |= {("astrarium", name) for name in api.astrarium.NAMESPACES}
    programs = [(name, body) for name, body in code_of_pages()]
    programs += [(path.name, path.read_text(encoding="utf-8")) for path in sorted((root / "examples").rglob("*.py"))
                 if not set(path.parts) & set(INSIDE)]
    private = {f"{where}: {module}.{name}" for where, code in programs for module, name in imported(code)
               if (module, name) not in public and module not in FREE}
    assert private == set()


def code_of_pages() -> Iterator[tuple[str, str]]:
    """(page, program) of each Python block of README and docs (the reference shows signatures)."""
    for page in (page for page in prose.pages() if page.parent.name != "reference"):
        for fence in prose.FENCE.finditer(page.read_text(encoding="utf-8")):
            if fence.group(1) in ("python", "py"):
                yield page.name, fence.group(2)
