"""The registry: every line leads somewhere, plug-ins join, unknown names get the nearest match."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest
from msgspec import Struct
from tests.commands import Run

from astrarium import registry
from astrarium.config import Config
from astrarium.errors import InputError
from astrarium.network.config import Dim


@pytest.mark.parametrize("kind", registry.kinds())
def test_every_line_has_a_sentence_and_a_target_that_loads(kind: str) -> None:
    for name, entry in registry.entries(kind).items():
        assert entry.sentence.endswith("."), (kind, name)
        assert entry.name == name
        if entry.target:
            found = registry.load(kind, name)
            assert callable(found) or isinstance(found, Struct)
            if isinstance(found, type) and issubclass(found, Config):
                assert found.tag == name
        else:
            with pytest.raises(InputError, match="there is no object behind it"):
                registry.load(kind, name)


def test_unknown_names() -> None:
    with pytest.raises(InputError, match=r"shape: 'rign' is not known; expected one of ring, .*did you mean 'ring'"):
        registry.load("shape", "rign")
    with pytest.raises(InputError, match=r"shapes: unknown kind; .*did you mean 'shape'"):
        registry.names("shapes")


def _plugins(monkeypatch: pytest.MonkeyPatch, *points: tuple[str, str]) -> None:
    found = [importlib.metadata.EntryPoint(name, value, registry.GROUP) for name, value in points]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found if group == registry.GROUP else [])
    monkeypatch.setattr("astrarium.entry_points._mentioned", lambda: True)
    registry._plugins.cache_clear()


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> object:
    yield
    monkeypatch.undo()
    registry._plugins.cache_clear()


def test_an_installed_package_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[astrarium.plugins]\nshape.mine = astrarium.network.config:Ring\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._plugins.cache_clear()
    assert registry.entries("shape")["mine"].package == "mine"


def test_a_plug_in_joins_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    _plugins(monkeypatch, ("shape.mine", "astrarium.network.config:Ring"), ("flavour.sweet", "math:sqrt"))
    assert registry.names("shape")[-1] == "mine"
    assert issubclass(registry.load("shape", "mine"), Dim)
    assert registry.names("flavour") == ("sweet",)
    assert registry.load("flavour", "sweet")(4) == 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ring", "math:sqrt", "is not the name of a plug-in; expected kind.name"),
        ("shape.ring", "math:sqrt", "shape.ring: is taken by another one"),
    ],
)
def test_plug_ins_that_cannot_join(monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str) -> None:
    _plugins(monkeypatch, (name, value))
    with pytest.raises(InputError, match=message):
        registry.names("shape")


def test_a_broken_plug_in_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _plugins(monkeypatch, ("shape.mine", "no_such_module_at_all:X"))
    with pytest.raises(InputError, match="an installed package: no_such_module_at_all:X: the plug-in cannot be loaded"):
        registry.load("shape", "mine")


def test_a_file_of_plug_ins(run: Run, root: Path, tmp_path: Path) -> None:
    design, file = tmp_path / "line.yaml", root / "examples" / "plugins" / "line_gather.py"
    design.write_text("workload: {source: collective, op: all_gather, payload: 1 MB}\n"
                      "network: {dims: [{shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 1 us}]}\n"
                      "collective: {all_gather: [line_gather]}\n")
    assert "'line_gather' is not known" in run("run", design).err
    assert run("run", design, "--plugin", file).code == 0
    assert "line_gather" in run("list", "algorithm", "--plugin", file).out
    assert "line_gather" not in run("list", "algorithm").out


@pytest.mark.parametrize(("name", "text", "said"), [
    ("absent.py", None, "is no file of plug-ins"), ("one two.py", "PLUGINS = {}", "is no file of plug-ins"),
    ("json.py", "PLUGINS = {}", "json is another module"), ("raises.py", "1 / 0", "ZeroDivisionError"),
    ("without.py", "", "cannot be loaded"), ("odd.py", "PLUGINS = [1]", "PLUGINS is"),
    ("taken.py", "PLUGINS = {'shape.ring': 'X'}", "is taken by another one"),
    ("nameless.py", "PLUGINS = {'ring': 'X'}", "is not the name of a plug-in")])
def test_files_that_are_none(run: Run, tmp_path: Path, name: str, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    found = run("list", "shape", "--plugin", tmp_path / name)
    assert (found.code, said in found.err) == (1, True), found.err
    assert str(tmp_path) not in sys.path[:-1]      # it hides no module of the same name
