"""Vega's scripts are bundled once per version of vl-convert."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from astrarium.errors import InputError
from astrarium.report.pages.bundle import vega_bundle


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What a vl-convert of version 7 has bundled; the cache is `tmp_path`."""
    texts: list[str] = []

    def bundle() -> str:
        texts.append(f"let vega = {len(texts)};\n")
        return texts[-1]

    monkeypatch.setitem(__import__("sys").modules, "vl_convert",
                        SimpleNamespace(__version__="7", javascript_bundle=bundle))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return texts


def test_a_version_bundles_once(made: list[str], tmp_path: Path) -> None:
    assert vega_bundle() == vega_bundle() == "let vega = 0;\n"
    assert len(made) == 1
    (kept,) = (tmp_path / "astrarium").iterdir()
    assert kept.name == "vega-7.js"


@pytest.mark.parametrize("damage", [b"", b"// 00\nlet vega = 5;\n", b"\xff\xfe"])
def test_a_damaged_file_is_made_again(made: list[str], tmp_path: Path, damage: bytes) -> None:
    vega_bundle()
    (tmp_path / "astrarium" / "vega-7.js").write_bytes(damage)
    assert [vega_bundle(), vega_bundle()] == ["let vega = 1;\n"] * 2


def test_a_folder_that_cannot_be_written_costs_time_alone(made: list[str], tmp_path: Path) -> None:
    (tmp_path / "astrarium").write_text("a file")
    assert [vega_bundle(), vega_bundle()] == ["let vega = 0;\n", "let vega = 1;\n"]
    assert (tmp_path / "astrarium").read_text() == "a file"


def test_a_worker_that_may_not_read_the_cache_makes_it(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    vega_bundle()

    def refused(path: object, *_: object, **__: object) -> None:
        raise InputError(str(path), "is outside the folder")

    monkeypatch.setattr("builtins.open", refused)
    assert vega_bundle() == "let vega = 1;\n"
