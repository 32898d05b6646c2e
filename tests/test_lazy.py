"""Names that are imported when first used."""

from __future__ import annotations

import importlib

import pytest

PACKAGES = ("astrarium.trace", "astrarium.gpu", "astrarium.engine", "astrarium.engine.plugins",
            "astrarium.lower", "astrarium.profile", "astrarium.result")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if getattr(module, name) is None] == []
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'no_such_name'"):
        _ = module.no_such_name
