"""A coverage-guided fuzzer of ASTRA-sim's input files, in plain Python: no dependency, reproducible from its seed.

    python tests/fuzz/guided.py --seconds 60 [--seed 0] [--save FOLDER]

Inputs are (system JSON, network YAML, memory JSON, groups JSON), mutated as bytes and as tokens. Covered are the pairs
of lines (from, to) of the modules that read and lower them, by sys.settrace; an input that covers a new pair joins the
pool. Anything but an answer or an AstrariumError meant for the user is a finding: it is raised, and saved with
`--save`, which also keeps the pool.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

if __package__ is None or __package__ == "":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from fuzz.dropin import answer, parse
    from fuzz.strategies import ALGORITHMS, GROUPS, MEMORY, NETWORK, OPS, SYSTEM_EXTRA, as_json, as_yaml, system
else:
    from .dropin import answer, parse
    from .strategies import ALGORITHMS, GROUPS, MEMORY, NETWORK, OPS, SYSTEM_EXTRA, as_json, as_yaml, system

from astrarium.errors import AstrariumError, InternalError
from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp

Files = tuple[bytes, bytes, bytes, bytes]
ROOMS = ("/astrarium/lower/", "/astrarium/engine/_native", "/fuzz/dropin.py")
TOKENS = [*(f'"{word}"' for word in [*ALGORITHMS, *SYSTEM_EXTRA, "baseline", "localBWAware", "FIFO", "EXPLICIT",
                                     "MEMORY_POOL", "NO_MEMORY_EXPANSION", "PER_NPU_MEMORY_EXPANSION"]),
          *(f"{op}-implementation" for op in OPS), "Ring", "Switch", "FullyConnected", "null", "true", "[]", "{}", "[",
          "]", "0", "1", "2", "3", "8", "-1", "0.5", "1e300", "1e-300", "NaN", "Infinity", "2147483648",
          "18446744073709551616", ",", ":", "\n", "- ", "&a", "*a", "!!", "#", "'", '"', "\\u0000", "\x00", "\xff"]


def seeds() -> list[Files]:
    """Good inputs of one and of two dims."""
    one = {key: value[:1] for key, value in NETWORK.items()} | {"npus_count": [4]}
    return [(as_json(system(dims)), as_yaml(network), as_json(MEMORY), as_json(GROUPS))
            for dims, network in ((1, one), (2, NETWORK))]


def workload() -> list[bytes]:
    """Four ranks: compute, every collective, a group, a shift, remote memory."""
    files = []
    for rank in range(4):
        trace = TraceBuilder()
        trace.comp("c", 1, num_ops=10**6, tensor_size=10**3)
        for op in (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL):
            trace.coll("k", op, 4096 + rank // 4)
        trace.coll("g", CommOp.ALL_REDUCE, 100, group=1 + rank // 2, after=[4])
        trace.send("s", (rank + 1) % 4, 1000, after=[5])
        trace.recv("r", (rank - 1) % 4, 1000, after=[5])
        trace.memory("m", 4096, after=[7])
        files.append(trace.encode())
    return files


WORKLOAD = workload()


def target(files: Files, folder: Path, backend: str) -> None:
    """Parses, lowers and runs; errors meant for the user are an answer."""
    try:
        inputs = parse(folder, *files, backend)
    except InternalError:
        raise
    except AstrariumError as error:
        if len(str(error)) < 4000:
            return
        raise
    if inputs.npus <= 64:
        answer(inputs, WORKLOAD, fold=True)


class Coverage:
    """Pairs of consecutive lines in the rooms under test."""

    def __init__(self) -> None:
        self.pairs: set[tuple[CodeType, int, int]] = set()
        self._watched: dict[str, bool] = {}

    def run(self, call: Callable[[], None]) -> set[tuple[CodeType, int, int]]:
        """What `call` covers. Its exceptions come through."""
        self.pairs = set()
        sys.settrace(self._enter)
        try:
            call()
        finally:
            sys.settrace(None)
        return self.pairs

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        watched = self._watched.get(code.co_filename)
        if watched is None:
            watched = self._watched[code.co_filename] = any(room in code.co_filename for room in ROOMS)
        if not watched:
            return None
        last = [code.co_firstlineno]

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "line":
                self.pairs.add((code, last[0], frame.f_lineno))
                last[0] = frame.f_lineno
            return line

        return line


def mutate(rng: random.Random, files: Files, other: Files) -> Files:
    """One to four changes in one or two of the files."""
    changed = list(files)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        which = rng.randrange(4)
        data = bytearray(changed[which])
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((0, 0, 1, 2, 4, 16)))
        match rng.randrange(5):
            case 0:
                data[at:end] = rng.choice(TOKENS).encode("latin-1")
            case 1:
                data[at:end] = bytes(rng.randrange(256) for _ in range(rng.randrange(4)))
            case 2:
                data[at:end] = b""
            case 3:
                _replace_word(rng, data)
            case _:
                data[at:] = other[which][at:]
        changed[which] = bytes(data[:4096])
    return (changed[0], changed[1], changed[2], changed[3])


def _replace_word(rng: random.Random, data: bytearray) -> None:
    """A number or word between separators becomes another token."""
    edges = [-1, *(i for i, byte in enumerate(data) if byte in b'[]{},: \n'), len(data)]
    spans = [(a + 1, b) for a, b in pairwise(edges) if b - a > 1]
    if spans:
        start, end = rng.choice(spans)
        data[start:end] = rng.choice(TOKENS).encode("latin-1")


def fuzz(seconds: float, seed: int, save: Path | None = None, start: Iterable[Files] = ()) -> tuple[int, list[Files]]:
    """(inputs tried, the pool). Raises what `target` raises, after saving the input."""
    rng, coverage = random.Random(seed), Coverage()
    pool: list[Files] = []
    known: set[tuple[CodeType, int, int]] = set()
    waiting = [*start, *seeds()]
    tried, end = 0, time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while waiting or time.monotonic() < end:
            files = waiting.pop() if waiting else mutate(rng, rng.choice(pool), rng.choice(pool))
            backend = "aware" if tried % 3 == 2 else "unaware"
            tried += 1
            try:
                covered = coverage.run(lambda files=files, backend=backend: target(files, Path(folder), backend))  # type: ignore[misc]
            except Exception:
                if save is not None:
                    write(save, "finding", [files])
                raise
            if not covered <= known:
                known |= covered
                pool.append(files)
    if save is not None:
        write(save, "input", pool)
    return tried, pool


def write(folder: Path, name: str, pool: list[Files]) -> None:
    """Saves inputs as text where they are text."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [[base64.b64encode(data).decode() for data in files] for files in pool]
    (folder / f"{name}.json").write_text(json.dumps(rows, indent=0) + "\n")


def read(path: Path) -> list[Files]:
    """What `write` wrote."""
    rows = json.loads(path.read_text())
    return [(a, b, c, d) for a, b, c, d in ([base64.b64decode(text) for text in row] for row in rows)]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="folder for findings and for the pool")
    options = parser.parse_args()
    tried, pool = fuzz(options.seconds, options.seed, options.save)
    print(f"{tried} inputs, {len(pool)} kept")


if __name__ == "__main__":
    main()
