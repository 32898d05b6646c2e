"""The tools that hold contracts and limits can say no; that all hold here, `make contracts` and `make lint` say."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.loading import tool


def tree(folder: Path, **files: str) -> Path:
    """A checkout with src/astrarium/<key>.py = value."""
    for name, text in files.items():
        path = folder / "src" / "astrarium" / (name.replace("__slash__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "native").mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("line", [
    "import astrarium._core",
    "from astrarium import _core",
    "from astrarium._core import run",
    "from .. import _core",
    "import importlib\nc = importlib.import_module('astrarium._core')",
])
def test_core_import_outside_native_is_a_breach(tmp_path: Path, line: str) -> None:
    contracts = tool("contracts")
    assert len(contracts.breaches(tree(tmp_path, trace__slash__reader=line))) == 1
    tree(tmp_path, trace__slash__reader="")
    assert contracts.breaches(tree(tmp_path, trace__slash___native=line)) == []


@pytest.mark.parametrize("code", [
    "if compat:\n    pass",
    "if design.compat is None:\n    pass",
    "x = 1 if self.is_compat else 2",
    "if mode == 'astra_sim':\n    pass",
    "while not compat:\n    pass",
    "match compat:\n    case 1:\n        pass",
    "match mode:\n    case 'astra_sim':\n        pass",
    "x = [a for a in b if a.compat]",
])
def test_branch_on_compat_is_a_breach(tmp_path: Path, code: str) -> None:
    contracts = tool("contracts")
    assert len(contracts.breaches(tree(tmp_path, lower__slash__plan=code))) == 1
    tree(tmp_path, lower__slash__plan="")
    assert contracts.breaches(tree(tmp_path, lower__slash__compat=code)) == []


def test_branch_on_compat_in_the_core_is_a_breach(tmp_path: Path) -> None:
    (tree(tmp_path) / "native" / "x.cpp").write_text("int f(bool compat) {\n  if (compat) return 1;\n  return 0;\n}\n")
    assert len(tool("contracts").breaches(tmp_path)) == 1


@pytest.mark.parametrize("back", [
    "from astrarium.trace.a import x",
    "from astrarium.trace import a",
    "def f():\n    from astrarium.trace.a import x",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import astrarium.trace.a",
])
def test_a_circle_of_imports_is_a_breach(tmp_path: Path, back: str) -> None:
    tree(tmp_path, trace__slash__a="from astrarium.trace.b import y", trace__slash__b="import astrarium.trace.c",
         trace__slash__c="", trace__slash__d="import astrarium.trace.a")
    assert tool("contracts").breaches(tmp_path) == []
    tree(tmp_path, trace__slash__c=back)
    assert tool("contracts").breaches(tmp_path) == [
        "import each other: astrarium.trace.a, astrarium.trace.b, astrarium.trace.c"]


def test_the_verb_enters_rooms_by_their_doors(tmp_path: Path) -> None:
    tree(tmp_path, simulate="from astrarium.trace import read\nfrom astrarium.design import Design", design="",
         trace__slash____init__="", trace__slash__reader="")
    assert tool("contracts").breaches(tmp_path) == []
    tree(tmp_path, simulate="def f():\n    from astrarium.trace.reader import read")
    assert tool("contracts").breaches(tmp_path) == [
        "astrarium.simulate: imports astrarium.trace.reader, which is inside a room"]


def test_every_circle_that_may_be_is_one(tmp_path: Path) -> None:
    """That there are no others is what `make contracts` finds."""
    contracts = tool("contracts")
    root = Path(contracts.__file__).parents[1] / "src"
    for circle in contracts.CIRCLES:
        trees = {name: contracts.ast.parse((root / f"{name.replace('.', '/')}.py").read_text()) for name in circle}
        assert [*contracts.circles({name: contracts.imports_of(each, trees) - {name} for name, each in trees.items()})
                ] == [circle]


def test_limits_count_lines_without_the_docstring(tmp_path: Path) -> None:
    limits = tool("limits")
    body = "\n".join(f"    x{i} = {i}" for i in range(59))
    (tmp_path / "a.py").write_text(f'def f():\n    """One.\n\n    Two.\n    """\n{body}\n')
    assert limits.functions(tmp_path / "a.py") == [(60, 1, "f")]
    (tmp_path / "a.py").write_text(f"def f():\n{body}\n    return 1\n")
    assert any("f has 61 lines" in c for c in limits.offenders([tmp_path]))


def test_includes_that_point_upward_and_questions_about_the_rule_book_are_breaches(tmp_path: Path) -> None:
    contracts = tool("contracts")
    for name, text in {"plan/plan.hpp": '#include "media/ports.hpp"\n',
                       "astra/astra.cpp": '#include "run/native.hpp"\n', "accelerate/fold.cpp": "if (astra_) return;\n",
                       "run/native.cpp": '#include "accelerate/fold.hpp"\n', "loose.cpp": ""}.items():
        path = tmp_path / "native" / "engine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = contracts.breaches(tree(tmp_path))
    named = [line.partition(":")[0].rpartition("/")[2] for line in found]
    assert named == ["fold.cpp", "astra.cpp", "loose.cpp", "plan.hpp", "native.cpp"]


def test_the_workbench_computes_nothing_itself() -> None:
    imports = {"astrarium.service.web.app": {"astrarium.planner.shortlist", "astrarium.simulate", "astrarium.units"},
               "astrarium.service.operations.run": {"astrarium.simulate"}}
    assert [*tool("contracts").own_logic(imports)] == [
        "astrarium.service.web.app: imports astrarium.simulate; only service/operations may"]


def test_the_longest_chain_of_a_room_is_found() -> None:
    imports = {"p.a": {"p.a.x", "p.b"}, "p.a.x": {"p.a.y", "p.b"}, "p.a.y": {"p.a.z"}, "p.a.z": {"p.b"}, "p.b": set()}
    assert tool("contracts").chain("p.a", imports) == ["p.a", "p.a.x", "p.a.y", "p.a.z"]


def test_the_order_of_rooms_is_that_of_pyproject(tmp_path: Path) -> None:
    rooms = tool("rooms")
    tree(tmp_path, cli__slash____init__="", trace__slash____init__="", errors="", config="")
    layers = 'layers = [\n    "(cli) | (web)",\n    "(trace) | (config)",\n    "(errors)",\n]\n'
    (tmp_path / "pyproject.toml").write_text(layers)
    (tmp_path / "CONTRIBUTING.md").write_text("a\n\n    cli > errors\n       > config\n\nb\n")
    assert rooms.page(tmp_path) == "a\n\n    cli > trace | config > errors\n\nb\n"
