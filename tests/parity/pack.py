"""Packs a folder of ASTRA-sim cases into one archive that holds every distinct trace once.

    python tests/parity/pack.py FOLDER ARCHIVE [--without GLOB]...

FOLDER holds one folder per case: `et/<stem>.<rank>.et`, system.json, network.yml, memory.json, perhaps
comm_groups.json, args.json, `custom/<stem>.<position>.et`, and expected.json (per back end what ASTRA-sim measured).
The archive is a tar.xz with `blobs/<number>` (file contents, each once, in order of first use) and `cases.json` (see
cases.py). The same folder gives the same bytes.
"""

from __future__ import annotations

import argparse
import fnmatch
import io
import json
import lzma
import re
import tarfile
from pathlib import Path
from typing import Any

KEPT = ("usable", "status", "finish_ns", "exposed_ns", "user_s", "maxrss_kb")
NUMBERED = re.compile(r"(?P<stem>.+)\.(?P<rank>\d+)\.et")


def pack(folder: Path, archive: Path, without: list[str]) -> int:
    """Writes `archive`; returns how many cases it holds."""
    numbers: dict[bytes, int] = {}
    cases = []
    for path in sorted(folder.iterdir()):
        if (path / "expected.json").exists() and not any(fnmatch.fnmatch(path.name, glob) for glob in without):
            cases.append(_case(path, numbers))
    members = [("cases.json", json.dumps(cases, separators=(",", ":")).encode())]
    members += [(f"blobs/{number:05}", data) for data, number in numbers.items()]
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    archive.write_bytes(lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    return len(cases)


def _case(path: Path, numbers: dict[bytes, int]) -> dict[str, Any]:
    expected = json.loads((path / "expected.json").read_text())
    backends = {name: _answer(expected[name]) for name in ("unaware", "aware") if name in expected}
    series: dict[str, dict[int, int]] = {}
    files: dict[str, int] = {}
    for file in sorted(path.rglob("*")):
        if file.is_dir() or file.name == "expected.json":
            continue
        number = numbers.setdefault(file.read_bytes(), len(numbers))
        matched = NUMBERED.fullmatch(file.relative_to(path).as_posix())
        if matched:
            series.setdefault(matched["stem"], {})[int(matched["rank"])] = number
        else:
            files[file.relative_to(path).as_posix()] = number
    traces = {stem: _runs([of[rank] for rank in range(len(of))]) for stem, of in sorted(series.items())}
    return {"name": path.name, "npus": expected["npus"], "files": files, "traces": traces, "expected": backends}


def _answer(measured: dict[str, Any]) -> dict[str, Any]:
    answer = {key: measured[key] for key in KEPT if key in measured}
    for key in ("finish_ns", "exposed_ns"):
        values = measured[key]
        if isinstance(values, list) and len(set(values)) == 1:
            answer[key] = {"all": values[0]}
    return answer


def _runs(values: list[int]) -> list[list[int]]:
    """[[value, how many times in a row], …]"""
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return runs


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--without", action="append", default=[], metavar="GLOB", help="leave out cases of this name")
    options = parser.parse_args()
    count = pack(options.folder, options.archive, options.without)
    print(f"{count} cases, {options.archive.stat().st_size} bytes")


if __name__ == "__main__":
    main()
