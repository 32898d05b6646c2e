"""Who asks when, and for how much."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.config import Config, Knob, Problem
from astrarium.config.spec import Variants
from astrarium.errors import InputError
from astrarium.registry import Kind
from astrarium.workload.inference.use_cases import USE_CASES

__all__ = ["Arrivals", "ClosedLoop", "Poisson", "RequestTrace", "Requests", "requests_of"]

I64 = npt.NDArray[np.int64]
PS = 10**12
MOST = 1_000_000            # requests
LONGEST = 10_000_000        # tokens of one request
MOST_TOKENS = 100_000_000
LARGEST = 200_000_000       # characters of a file
FRACTION = re.compile(r"\.(\d+)")
Rules = tuple[Callable[[Any], Iterable[Problem]], ...]


class Requests(Struct, frozen=True, eq=False):
    """Arrival in ps (ascending), tokens of the prompt, tokens to generate [requests].

    `concurrency`: of a closed loop; then request i arrives when request i - concurrency or a later one has finished,
    and `arrival` is 0.
    """

    arrival: I64
    prompt: I64
    output: I64
    concurrency: int | None = None

    def __len__(self) -> int:
        return len(self.arrival)


class Arrivals(Config, frozen=True):
    """A stream of requests."""

    variants: ClassVar[Variants | None] = Kind("arrivals")
    tag_key: ClassVar[str] = "kind"


def _lengths_rule(stream: Poisson | ClosedLoop) -> Iterator[Problem]:
    for field in ("prompt", "output"):
        given = getattr(stream, field)
        if stream.use_case is not None and given is not None:
            yield Problem(field, "means nothing beside use_case", f"no {field}, or no use_case")
        if stream.use_case is None and given is None:
            yield Problem(field, "is missing", "tokens, or a use_case")


class Poisson(Arrivals, frozen=True, kw_only=True):
    """Requests at random: the time between two is exponential. The same seed gives the same stream."""

    tag: ClassVar[str] = "poisson"
    rules: ClassVar[Rules] = (_lengths_rule,)
    rate: Annotated[float, Knob("Requests per second.", gt=0)]
    count: Annotated[int, Knob("Requests.", ge=1, lt=MOST + 1)]
    seed: Annotated[int, Knob("Seed of the generator (NumPy's PCG64).", ge=0, lt=2**63)]
    use_case: Annotated[str | None, Knob("Named lengths, in place of prompt and output.", choices=tuple(USE_CASES))
                        ] = None
    prompt: Annotated[int | None, Knob("Tokens of a prompt.", ge=1, lt=LONGEST)] = None
    output: Annotated[int | None, Knob("Tokens to generate, the first one included.", ge=1, lt=LONGEST)] = None


class ClosedLoop(Arrivals, frozen=True, kw_only=True):
    """So many users, each with one request at a time: the next one comes when the last is answered."""

    tag: ClassVar[str] = "closed_loop"
    rules: ClassVar[Rules] = (_lengths_rule,)
    concurrency: Annotated[int, Knob("Users.", ge=1, lt=MOST)]
    count: Annotated[int, Knob("Requests in all.", ge=1, lt=MOST + 1)]
    use_case: Annotated[str | None, Knob("Named lengths, in place of prompt and output.", choices=tuple(USE_CASES))
                        ] = None
    prompt: Annotated[int | None, Knob("Tokens of a prompt.", ge=1, lt=LONGEST)] = None
    output: Annotated[int | None, Knob("Tokens to generate, the first one included.", ge=1, lt=LONGEST)] = None


class RequestTrace(Arrivals, frozen=True, kw_only=True):
    """A CSV file: arrival (seconds), prompt, output; or Azure's TIMESTAMP, ContextTokens, GeneratedTokens."""

    tag: ClassVar[str] = "trace"
    path: Annotated[str, Knob("The file.", file=True)]
    first: Annotated[int | None, Knob("Only so many requests, from the start; left out: all.", ge=1)] = None


def requests_of(arrivals: Arrivals) -> Requests:
    """The stream. Raises InputError for a file that cannot be read, and for more than MOST_TOKENS to generate."""
    found = _requests(arrivals)
    total = int(found.output.sum())
    if total > MOST_TOKENS:
        raise InputError("requests", f"{total:,} tokens to generate, one by one", expected=f"at most {MOST_TOKENS:,}")
    return found


def _requests(arrivals: Arrivals) -> Requests:
    if isinstance(arrivals, Poisson):
        generator = np.random.Generator(np.random.PCG64(arrivals.seed))
        gaps = generator.exponential(PS / arrivals.rate, arrivals.count)
        if float(gaps.sum()) > 2**62:
            raise InputError("requests.rate", f"{arrivals.rate:g} per second is too slow for the clock",
                             expected="all requests within 53 days")
        return _alike(np.rint(np.cumsum(gaps)).astype(np.int64), arrivals)
    if isinstance(arrivals, ClosedLoop):
        return _alike(np.zeros(arrivals.count, np.int64), arrivals, arrivals.concurrency)
    if isinstance(arrivals, RequestTrace):
        return _read(arrivals)
    raise InputError("requests", f"{type(arrivals).__name__} is not known",
                     expected=", ".join(Kind("arrivals").names()))


def _alike(arrival: I64, stream: Poisson | ClosedLoop, concurrency: int | None = None) -> Requests:
    """Requests of one length. A use case's `generated` are those after the first."""
    if stream.use_case is not None:
        case = USE_CASES[stream.use_case]
        prompt, output = case.prompt, case.generated + 1
    else:
        prompt, output = stream.prompt or 1, stream.output or 1
    return Requests(arrival, np.full(len(arrival), prompt), np.full(len(arrival), output), concurrency)


COLUMNS = (("arrival", "prompt", "output"), ("TIMESTAMP", "ContextTokens", "GeneratedTokens"))


def _read(trace: RequestTrace) -> Requests:
    try:
        with open(trace.path, encoding="utf-8", newline="") as file:
            text = file.read(LARGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(trace.path, f"cannot be read ({error})", expected="a CSV file") from error
    if len(text) > LARGEST:
        raise InputError(trace.path, f"more than {LARGEST:,} characters", expected="a smaller file")
    try:
        return _parsed(trace, csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise InputError(trace.path, f"is no CSV file ({error})", expected="lines of values with commas") from error


def _parsed(trace: RequestTrace, reader: Iterator[list[str]]) -> Requests:
    header = [name.strip() for name in next(reader, [])]
    names = next((names for names in COLUMNS if set(names) <= set(header)), None)
    if names is None:
        raise InputError(f"{trace.path}, line 1", f"columns {', '.join(header)[:80]}",
                         expected="arrival, prompt, output or " + ", ".join(COLUMNS[1]))
    places = [header.index(name) for name in names]
    rows: list[tuple[float, int, int]] = []
    for number, row in enumerate(reader, start=2):
        if not row or (trace.first is not None and len(rows) >= trace.first):
            continue
        rows.append(_row(f"{trace.path}, line {number}", row, places))
        if len(rows) > MOST:
            raise InputError(trace.path, f"more than {MOST:,} requests", expected="fewer, or first:")
    if not rows:
        raise InputError(trace.path, "has no requests", expected="at least one row")
    start = min(row[0] for row in rows)
    rows.sort(key=lambda row: row[0])
    return Requests(np.array([round((row[0] - start) * PS) for row in rows], np.int64),
                    np.array([row[1] for row in rows], np.int64), np.array([row[2] for row in rows], np.int64))


def _row(where: str, row: list[str], places: list[int]) -> tuple[float, int, int]:
    try:
        when, prompt, output = (row[place].strip() for place in places)
        second = _seconds(when)
        found = (second, int(prompt), int(output))
    except (ValueError, IndexError) as error:
        raise InputError(where, f"{','.join(row)[:60]!r} is no request", expected="a time and two numbers") from error
    if not (0 <= found[0] < 1e12 and 1 <= found[1] < LONGEST and 1 <= found[2] < LONGEST):
        raise InputError(where, f"{','.join(row)[:60]!r} is out of range", expected="a time and at least 1 token each")
    return found


def _seconds(text: str) -> float:
    """Seconds, or a date and time (its fraction of any length)."""
    try:
        return float(text)
    except ValueError:
        fraction = FRACTION.search(text)
        moment = datetime.fromisoformat(FRACTION.sub("", text, count=1))
        since = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return since.timestamp() + (float(fraction[0]) if fraction else 0.0)
