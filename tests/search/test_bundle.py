"""Bundles: the same bytes twice, the same trials elsewhere, and nothing but what bundle.json says."""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
import zipfile
from pathlib import Path

import pytest
from tests.fabric.fabrics import saved, two_hosts
from tests.search.designs import small_space

import astrarium as ar
from astrarium.cli import main
from astrarium.errors import InputError
from astrarium.search import Space, search
from astrarium.search.bundle import read_bundle, rerun, write_bundle
from astrarium.search.studyfile import load_study


def bundle(path: Path, name: str = "one", **more: object) -> Path:
    """A study with refused and repeated designs, and its bundle."""
    search(small_space(), "makespan", require="makespan < 2e7", agent="genetic", trials=100, seed=3,
           study=path / f"{name}.study", **more)      # type: ignore[arg-type]
    assert write_bundle(load_study(path / f"{name}.study"), str(path / f"{name}.zip")) == 100
    return path / f"{name}.zip"


def test_equal_studies_make_equal_bytes_and_run_again(tmp_path: Path) -> None:
    one, two = bundle(tmp_path), bundle(tmp_path, "two", jobs=2)
    assert one.read_bytes() == two.read_bytes()
    found = rerun(str(one), jobs=2)
    assert (found.trials, found.differs, found.study.trials) == (100, None, 100)
    with zipfile.ZipFile(one) as archive:
        about = json.loads(archive.read("bundle.json"))
        assert about["versions"]["astrarium"] == ar.__version__
        assert set(about["sha256"]) == {"study.json", "trials.jsonl"}
        assert len(archive.read("trials.jsonl").splitlines()) == 100


def trace_space(folder: Path, root: Path) -> Space:
    """A space over the quick start's traces, copied into a folder."""
    shutil.copytree(root / "examples" / "quickstart", folder)
    return Space(ar.load_design(folder / "design.yaml"), {"collective.chunks": [1, 2, 4, 8],
                                                          "network.dims[1].bandwidth": ["25 GB/s", "50 GB/s"]})


def test_traces_travel(root: Path, tmp_path: Path) -> None:
    """The bundle runs where the traces are gone; one made from another folder is the same file."""
    bundles = []
    for name in ("here", "there"):
        space = trace_space(tmp_path / name, root)
        search(space, "makespan", agent="random", trials=6, study=tmp_path / f"{name}.study")
        write_bundle(load_study(tmp_path / f"{name}.study"), str(tmp_path / f"{name}.zip"))
        shutil.rmtree(tmp_path / name)
        bundles.append((tmp_path / f"{name}.zip").read_bytes())
    assert bundles[0] == bundles[1]
    assert rerun(str(tmp_path / "here.zip")).differs is None
    with pytest.raises(InputError, match="there is no file"):
        write_bundle(load_study(tmp_path / "here.study"), str(tmp_path / "late.zip"))
    assert not (tmp_path / "late.zip").exists()


def test_problems_do_not_say_where_files_lay(root: Path, tmp_path: Path) -> None:
    space = trace_space(tmp_path / "here", root)
    (tmp_path / "here" / "traces" / "layer.7.et").write_bytes(b"no trace")
    search(space, "makespan", agent="random", trials=2, study=tmp_path / "s.study")
    write_bundle(load_study(tmp_path / "s.study"), str(tmp_path / "s.zip"))
    with zipfile.ZipFile(tmp_path / "s.zip") as archive:
        text = archive.read("trials.jsonl").decode()
    assert "layer.7.et" in text
    assert str(tmp_path) not in text
    assert rerun(str(tmp_path / "s.zip")).differs is None


def altered(source: Path, target: Path, change: dict[str, bytes]) -> str:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in {**dict.fromkeys(old.namelist()), **change}:
            new.writestr(name, change.get(name) or old.read(name))
    return str(target)


def test_what_is_no_bundle_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = bundle(tmp_path)
    with pytest.raises(InputError, match=r"trials\.jsonl is not what bundle\.json says"):
        read_bundle(altered(good, tmp_path / "a.zip", {"trials.jsonl": b"{}\n"}), str(tmp_path))
    with zipfile.ZipFile(good) as archive:
        about = json.loads(archive.read("bundle.json"))
    for name in ("files/0/../../x", "files//x", "files/0/a/b"):
        digests = {**about["sha256"], name: hashlib.sha256(b"x").hexdigest()}
        made = altered(good, tmp_path / "b.zip", {"bundle.json": json.dumps({**about, "sha256": digests}).encode(),
                                                  name: b"x"})
        with pytest.raises(InputError, match="holds a file called"):
            read_bundle(made, str(tmp_path / "b"))
    (tmp_path / "c.zip").write_bytes(b"PK nothing" * 100)
    for change in ({"bundle.json": b"[]"}, {"bundle.json": b"{"}, {"bundle.json": b'{"format": "x"}'}):
        with pytest.raises(InputError, match=r"is not a bundle|has the format"):
            read_bundle(altered(good, tmp_path / "d.zip", change), str(tmp_path))
    with pytest.raises(InputError, match="is not a bundle"):
        read_bundle(str(tmp_path / "c.zip"), str(tmp_path))
    monkeypatch.setattr(importlib.import_module("astrarium.search.bundle"), "LARGEST", 100)
    with pytest.raises(InputError, match="is larger than 100 bytes"):
        read_bundle(str(good), str(tmp_path))
    search(small_space(), lambda design, result: result.makespan_ps, trials=2, study=tmp_path / "f.study")
    with pytest.raises(InputError, match="Python function"):
        write_bundle(load_study(tmp_path / "f.study"), str(tmp_path / "f.zip"))


def test_a_bundle_that_does_not_repeat_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = bundle(tmp_path)
    assert main(["search", str(good), "-j", "2"]) == 0
    assert "all 100 trials are those of the bundle" in capsys.readouterr().err
    with zipfile.ZipFile(good) as archive:
        about, lines = json.loads(archive.read("bundle.json")), archive.read("trials.jsonl").splitlines(keepends=True)
    lines[41] = lines[40]
    about["sha256"]["trials.jsonl"] = hashlib.sha256(b"".join(lines)).hexdigest()
    bad = altered(good, tmp_path / "bad.zip", {"bundle.json": json.dumps(about).encode(),
                                               "trials.jsonl": b"".join(lines)})
    assert main(["search", bad]) == 1
    assert "trial 41 is not that of the bundle" in capsys.readouterr().err
    for more in (["--trials", "5"], ["--set", "collective.chunks=8"]):
        assert main(["search", str(good), *more]) == 1
        assert f"{more[0]}: has no effect here" in capsys.readouterr().err


def test_fabric_files_travel(tmp_path: Path) -> None:
    """A design's fabric is read while the design is checked; the bundle holds the file, and runs without the first."""
    bundles = []
    for name in ("here", "there"):
        folder = tmp_path / name
        folder.mkdir()
        saved(two_hosts(), folder)
        (folder / "design.yaml").write_text(
            "workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
            "network: {fabric: {file: fabric.yaml, inside: free}, backend: fluid}\n")
        space = Space(ar.load_design(folder / "design.yaml"), {"collective.chunks": [1, 2, 4]})
        search(space, "makespan", agent="random", trials=3, study=tmp_path / f"{name}.study")
        write_bundle(load_study(tmp_path / f"{name}.study"), str(tmp_path / f"{name}.zip"))
        shutil.rmtree(folder)
        bundles.append((tmp_path / f"{name}.zip").read_bytes())
    assert bundles[0] == bundles[1]
    with zipfile.ZipFile(tmp_path / "here.zip") as archive:
        assert "files/0/fabric.yaml" in archive.namelist()
    assert rerun(str(tmp_path / "here.zip")).differs is None
