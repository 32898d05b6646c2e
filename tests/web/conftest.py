"""One server for all tests that change little."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.web.workbench import Server, Visitor, folder_in, served

pytest.importorskip("fastapi", reason="the workbench needs the extra web")
pytest.importorskip("uvicorn", reason="the workbench needs the extra web")


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A workbench over a folder with small.yaml and space.yaml."""
    with served(folder_in(tmp_path_factory.mktemp("web"))) as found:
        yield found


@pytest.fixture
def visitor(server: Server) -> Visitor:
    """A new visitor."""
    return Visitor(server)
