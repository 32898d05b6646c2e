"""Names of files: inside the folder, or refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from astrarium.errors import InputError
from astrarium.service.folder import Folder
from astrarium.service.limits import Limits, limits_of

HOSTILE = ["../secret.yaml", "/etc/passwd", "a/../../secret.yaml", "..", ".", "", "./a.yaml", ".hidden.yaml",
           "a\\b.yaml", "C:\\a.yaml", "a\0.yaml", "a\n.yaml", "~/a.yaml", "$HOME/a.yaml", "%2e%2e/a.yaml",
           "a/b/c/d/e.yaml", "a//b.yaml", "x" * 300, "aux:.yaml", "file:///etc/passwd", "out/secret.yaml",
           "out.yaml", "pipe.yaml"]


@pytest.fixture
def inside(tmp_path: Path) -> Folder:
    """A folder beside a secret, with links out of it."""
    root = tmp_path / "work"
    root.mkdir()
    (tmp_path / "secret.yaml").write_text("secret: 1")
    (root / "a.yaml").write_text("a: 1")
    (root / "out.yaml").symlink_to(tmp_path / "secret.yaml")
    (root / "out").symlink_to(tmp_path)
    (root / "in.yaml").symlink_to(root / "a.yaml")
    os.mkfifo(root / "pipe.yaml")
    return Folder(str(root.resolve()))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_leaves_the_folder_is_refused(inside: Folder, name: str) -> None:
    for way in (inside.path, inside.new):
        with pytest.raises(InputError, match=r"not a file" if name == "pipe.yaml" and way == inside.new else "folder"):
            way(name)


def test_files_and_links_inside_are_found(inside: Folder) -> None:
    assert [each.name for each in inside.files()] == ["a.yaml", "in.yaml"]
    assert inside.path("in.yaml").endswith("in.yaml")
    with pytest.raises(InputError, match=r"did you mean 'a\.yaml'"):
        inside.path("a.yml")


@pytest.mark.parametrize("name", ["a.py", "a.so", "a", "a.yaml.exe", "a.et"])
def test_other_endings_are_not_written(inside: Folder, name: str) -> None:
    with pytest.raises(InputError, match="ending"):
        inside.write(name, "x")


def test_a_full_and_a_read_only_folder_take_nothing(inside: Folder) -> None:
    assert inside.write("new.yaml", "x: 1") == "new.yaml"
    assert Path(inside.root, "new.yaml").read_text() == "x: 1"
    for folder, words in ((Folder(inside.root, limit=3), "full"), (Folder(inside.root, writable=False), "read-only")):
        with pytest.raises(InputError, match=words):
            folder.write("more.yaml", "x: 1")
    assert not Path(inside.root, "more.yaml").exists()


def test_limits_are_read_and_checked() -> None:
    assert limits_of(["2 s", "2 GB", "5 designs"]) == Limits(2.0, 2e9, 5)
    assert limits_of([]) == Limits()
    for wrong in (["1 MB"], ["0 s"], ["5"], ["0 designs"], ["1 s", "2 s"], ["nan s"]):
        with pytest.raises(InputError, match="limit"):
            limits_of(wrong)
