"""The line that installs an extra works where this Astrarium came from (users' report, issue 35 line 16)."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from astrarium import errors
from astrarium.errors import install_line

PIP = f"{shlex.quote(sys.executable)} -m pip install "


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, said: object) -> None:
    """An Astrarium installed in `folder`, from where `said` (a direct_url.json) tells; found before any other."""
    about = folder / "astrarium-9.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: astrarium\nVersion: 9\n")
    if said is not None:
        (about / "direct_url.json").write_text(json.dumps(said))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(errors, "__file__", str(folder / "astrarium" / "errors.py"))


def test_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path / "site", monkeypatch, None)
    assert install_line("search") == "pip install 'astrarium[search]'"


def test_a_folder_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "my tree"
    tree.mkdir()
    installed(tmp_path / "site", monkeypatch, {"url": tree.as_uri(), "dir_info": {}})
    assert install_line("search") == f"{PIP}'{tree}[search]'"
    tree.rmdir()
    assert install_line("search") == "pip install 'astrarium[search]'"


def test_a_repository_and_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path / "one", monkeypatch, {
        "url": "https://example.org/a.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}})
    assert install_line("ray") == f"{PIP}'astrarium[ray] @ git+https://example.org/a.git@abc'"
    installed(tmp_path / "two", monkeypatch, {"url": "https://example.org/a.tar.gz", "archive_info": {}})
    assert install_line("ray") == f"{PIP}'astrarium[ray] @ https://example.org/a.tar.gz'"


@pytest.mark.parametrize("editable", [True, False])
def test_a_source_tree_that_runs_itself(editable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "pyproject.toml").touch()
    installed(tmp_path / "site", monkeypatch, {"url": tree.as_uri(), "dir_info": {"editable": editable}})
    monkeypatch.setattr(errors, "__file__", str(tree / "src" / "astrarium" / "errors.py"))
    assert install_line("torch") == f"{PIP}{'-e ' if editable else ''}'{tree}[torch]'"
