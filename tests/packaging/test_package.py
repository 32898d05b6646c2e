"""What an installed Astrarium holds, and what importing it costs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib import resources

import pytest

import astrarium

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HEAVY = ("numpy", "yaml", "msgspec", "astrarium._core")


def python(code: str) -> str:
    """Standard output of a fresh interpreter that runs `code`."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_loads_nothing_heavy() -> None:
    loaded = python("import sys, astrarium; print(*sys.modules)").split()
    assert "astrarium" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_import_takes_under_150_ms() -> None:
    code = "import time; t = time.process_time(); import astrarium; print(time.process_time() - t)"
    assert min(float(python(code)) for _ in range(5)) < 0.150


def test_every_public_name_is_there() -> None:
    assert sorted(set(astrarium.__all__)) == sorted(astrarium.__all__)
    for name in astrarium.__all__:
        assert getattr(astrarium, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = astrarium.no_such_name


def test_package_data_is_there() -> None:
    files = resources.files("astrarium")
    assert (files / "py.typed").is_file()
    tables = [file for file in (files / "catalog").iterdir() if file.name.endswith(".toml")]
    assert tables
    for table in tables:
        assert tomllib.loads(table.read_text(encoding="utf-8"))


def test_the_core_is_there_or_the_package_knows() -> None:
    from astrarium.trace import HAVE_CORE

    spec = importlib.util.find_spec("astrarium._core")
    assert (spec is not None and spec.origin is not None) == HAVE_CORE
