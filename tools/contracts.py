#!/usr/bin/env python3
"""Contracts that import-linter cannot state. Exit status 1 and one line per breach.

1. Only files named `_native.py` import the compiled core `astrarium._core`.
2. Compatibility with ASTRA-sim is two tables, not branches: no `if` (or `match`, `while`, conditional expression) asks
   about `compat` outside the files that hold the tables.
3. A folder of the compiled engine (native/engine) includes from itself and from those below it (design/0008).
4. No circle of imports between modules, counting imports inside functions and for type checkers only.
5. The verb, simulate.py, enters rooms by their doors: it imports packages and root modules, nothing inside them.
6. No chain of imports inside a room is longer than LONGEST allows.
7. The workbench (service/web) imports no room that computes: it asks the operations of the service.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

TABLES = re.compile(r"(^|/)(_?compat(_[a-z_]+)?|compatibility)(/[a-z_]+)?\.py$")
CPP_BRANCH = re.compile(r"\b(if|while|switch)\s*\([^;{]*compat|compat\w*\s*\?", re.IGNORECASE)
ASTRA_SIM = "astra_sim"
INCLUDE = re.compile(r'^#include "([^"]+)"')
RULE_BOOK = re.compile(r"\bastra_|\brun_astra")
EITHER_RULE_BOOK = ("clock", "plugins", "nodes", "run", "accelerate")      # folders that must not ask which
PIECES = ("plan", "clock", "plugins", "nodes", "media")
FOLDERS = {                             # of native/engine, and what else each may include from
    "plan": (), "clock": ("plan",), "plugins": ("plan",), "nodes": ("plan", "clock"), "gpu": ("plan", "clock"),
    "media": ("plan", "clock", "plugins"), "run": PIECES, "accelerate": (*PIECES, "run"),
    "astra": (*PIECES, "accelerate"), "bind": (*PIECES, "run", "accelerate", "astra", "gpu"),
}
COMPUTES = ("simulate", "planner", "search", "serving", "lower", "validate", "provision")
TYPES = {"astrarium.planner.shortlist", "astrarium.search.studyfile"}      # of these rooms, which views may name
LONGEST = {"search": 8}                 # room -> modules in a chain of imports inside it, at most
CIRCLES = {                             # that may be, and why
    frozenset({"astrarium.workload.model.base", "astrarium.workload.model.hugging_face"}):
        "text stands for a Model, also the name of a config.json, whose reader makes a Model",
    frozenset(f"astrarium.report.plot.{name}" for name in ("frame", "plot", "save", "svg", "svg_marks", "vega")):
        "a Plot saves and shows itself, with the renderers, which read Plots",
}


def core_imports(tree: ast.AST) -> Iterator[int]:
    """Line numbers at which a module imports astrarium._core, in any spelling."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(a.name.startswith("astrarium._core") for a in node.names):
            yield node.lineno
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            in_package = node.level > 0 or module == "astrarium"
            if module.endswith("_core") or (in_package and any(a.name == "_core" for a in node.names)):
                yield node.lineno
        elif isinstance(node, ast.Call) and any(
            isinstance(a, ast.Constant) and a.value == "astrarium._core" for a in node.args
        ):
            yield node.lineno


def asks_about_compat(test: ast.AST) -> bool:
    """Whether a condition mentions a name with `compat` in it or compares with the string 'astra_sim'."""
    for node in ast.walk(test):
        if isinstance(node, ast.Name) and "compat" in node.id.lower():
            return True
        if isinstance(node, ast.Attribute) and "compat" in node.attr.lower():
            return True
        if isinstance(node, ast.Constant) and node.value == ASTRA_SIM:
            return True
    return False


def compat_branches(tree: ast.AST) -> Iterator[int]:
    """Line numbers of branches on compatibility."""
    for node in ast.walk(tree):
        tests: list[ast.expr | ast.pattern] = []
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            tests = [node.test]
        elif isinstance(node, ast.Match):
            tests = [node.subject, *(c.pattern for c in node.cases)]
        elif isinstance(node, ast.comprehension):
            tests = list(node.ifs)
        yield from (test.lineno for test in tests if asks_about_compat(test))


def upward_includes(engine: Path) -> Iterator[str]:
    """Includes of the compiled engine that do not point downward, and questions about the rule book."""
    for path in sorted(p for p in engine.rglob("*") if p.suffix in {".cpp", ".hpp", ".inl"}):
        where, here = f"native/engine/{path.relative_to(engine).as_posix()}", path.relative_to(engine).parts[0]
        if here not in FOLDERS:
            yield f"{where}: is in no folder of the engine"
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            there = (found := INCLUDE.match(text)) and found[1].partition("/")[0]
            if there in FOLDERS and there != here and there not in FOLDERS.get(here, ()):
                yield f"{where}:{number}: {here} includes from {there}"
            if here in EITHER_RULE_BOOK and RULE_BOOK.search(text.split("//")[0]):
                yield f"{where}:{number}: names a rule book; only astra/, bind/ and the plan's checks may"


def module_of(path: Path, source: Path) -> str:
    """The dotted name of a file below `source`."""
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(tree: ast.AST, known: Container[str]) -> set[str]:
    """Modules among `known` that a module imports, wherever it does so."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in names.values()}
    return {name for name in found if name in known}


def past_doors(verb: str, imports: Mapping[str, set[str]], packages: Container[str]) -> Iterator[str]:
    """What `verb` imports from the inside of a room."""
    yield from (f"{verb}: imports {name}, which is inside a room" for name in sorted(imports.get(verb, ()))
                if name not in packages and name.count(".") > 1)


def own_logic(imports: Mapping[str, set[str]]) -> Iterator[str]:
    """What the workbench imports from rooms that compute."""
    yield from (f"{module}: imports {name}; only service/operations may" for module in sorted(imports)
                if module.startswith("astrarium.service.web.") for name in sorted(imports[module] - TYPES)
                if name.split(".")[1] in COMPUTES)


def circles(imports: Mapping[str, set[str]]) -> Iterator[frozenset[str]]:
    """Sets of modules that reach each other by imports."""
    reach: dict[str, set[str]] = {}
    for start in imports:
        seen, left = set[str](), list(imports[start])
        while left:
            if (name := left.pop()) not in seen:
                seen.add(name)
                left += imports[name]
        reach[start] = seen
    yield from {frozenset(other for other in reach[name] if name in reach[other])
                for name in imports if name in reach[name]}


def chain(room: str, imports: Mapping[str, set[str]]) -> list[str]:
    """The longest chain of modules of `room` (astrarium.NAME) that import each other; there must be no circle."""
    inside = {name: found for name, found in imports.items() if name == room or name.startswith(f"{room}.")}
    known: dict[str, list[str]] = {}

    def below(name: str) -> list[str]:
        if name not in known:
            known[name] = [name, *max((below(other) for other in sorted(inside[name] & inside.keys())),
                                      key=len, default=[])]
        return known[name]
    return max((below(name) for name in sorted(inside)), key=len, default=[])


def breaches(root: Path) -> list[str]:
    """One sentence per breach under `root` (a checkout: src/astrarium and native)."""
    found: list[str] = []
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted((root / "src").rglob("*.py"))}
    names = {path: module_of(path, root / "src") for path in trees}
    known = frozenset(names.values())
    imports = {name: imports_of(trees[path], known) - {name} for path, name in names.items()}
    found += [f"import each other: {', '.join(sorted(each))}" for each in circles(imports) if each not in CIRCLES]
    if not found:
        found += [f"{room}: {len(way)} modules import each other in a chain, limit {most}: {' > '.join(way)}"
                  for room, most in LONGEST.items() if len(way := chain(f"astrarium.{room}", imports)) > most]
    found += past_doors("astrarium.simulate", imports, {names[path] for path in trees if path.name == "__init__.py"})
    found += own_logic(imports)
    for path, tree in trees.items():
        where = path.relative_to(root).as_posix()
        if path.name != "_native.py":
            found += [f"{where}:{line}: imports astrarium._core; only _native.py may" for line in core_imports(tree)]
        if not TABLES.search(where):
            found += [f"{where}:{line}: branches on compat; put the difference into a compatibility table"
                      for line in compat_branches(tree)]
    for path in sorted(p for p in (root / "native").rglob("*") if p.suffix in {".cpp", ".hpp", ".inl"}):
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if CPP_BRANCH.search(text.split("//")[0]):
                found.append(f"{path.relative_to(root).as_posix()}:{number}: branches on compat")
    return found + list(upward_includes(root / "native" / "engine"))


def main() -> int:
    """Print the breaches of this checkout; 1 when there are any."""
    found = breaches(Path(__file__).resolve().parent.parent)
    for breach in found:
        print(breach)
    print(f"contracts: {len(found)} breaches")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
