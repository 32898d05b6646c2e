"""Store trials in one SQLite file (WAL) with one writer: a trial is a row, written once with its results.

Rows are written in transactions, so a process that is killed leaves whole trials or none of them. The lock file
(`.lock`) keeps a second process from writing; the operating system frees it when its owner ends. The end of a study
removes it, and the last connection that may write removes `-wal` and `-shm`; a process that is killed leaves them, and
the next one takes them over. A damaged file is replaced by one with every trial that can be read. Trials before the
first unreadable one stay trials; results of later ones are `given`: their designs are not simulated again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import IO, Any
from urllib.parse import quote

import msgspec

from astrarium.errors import InputError
from astrarium.search.axes import Point
from astrarium.search.trial import Trial, Verdict

__all__ = ["APPLICATION", "FILES", "MEMORY", "Store", "damaged", "disk_error", "readable", "reading",
           "replace_damaged", "trials_in", "uri_of"]

FILES = ("", "-wal", "-shm")      # a database, its log of newer pages, and the index of the log
AGAIN = "the same command again: it goes on from the trials that are stored"
SMALLEST = 40                     # bytes of a trial at least
MEMORY = ":memory:"               # the name of a store that is never written to disk
APPLICATION = 0x41537472      # "AStr": what `file` and a careless `--study design.yaml` are told apart by
PAUSE = 0.05                  # seconds between transactions

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE trial (
    number INTEGER PRIMARY KEY, round INTEGER NOT NULL, point TEXT NOT NULL, design BLOB NOT NULL, same_as INTEGER,
    "values" TEXT, figures TEXT NOT NULL, slacks TEXT NOT NULL, problem TEXT NOT NULL, seconds REAL NOT NULL,
    bound REAL);
CREATE INDEX trial_design ON trial (design) WHERE same_as IS NULL;
"""
_ANSWERS = "CREATE TABLE IF NOT EXISTS answer (round INTEGER PRIMARY KEY, points TEXT NOT NULL)"
_ANSWER = "INSERT INTO answer VALUES (?, ?)"
_COLUMNS = 'number, round, point, design, same_as, "values", figures, slacks, problem, seconds, bound'
_INSERT = f"INSERT INTO trial ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FROM = f"SELECT {_COLUMNS} FROM trial WHERE number >= ? ORDER BY number"
_SALVAGED = "CREATE TABLE salvaged AS SELECT * FROM trial"
_DESCRIBE = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_NAN = float("nan")
_NUMBERS = msgspec.json.Decoder(tuple[float | None, ...])
_POINT: msgspec.json.Decoder[Point] = msgspec.json.Decoder(tuple[int | float, ...])
_POINTS: msgspec.json.Decoder[list[Point]] = msgspec.json.Decoder(list[tuple[int | float, ...]])


class Store:
    """The trials of a study; write to it inside `with`. `count`: trials, written or waiting; `given`: design -> its
    known verdict. Raises InputError if the file is not a study or is in use."""

    def __init__(self, path: str):
        self.path = path
        self._lock: IO[bytes] | None = None
        self._waiting: list[tuple[Any, ...]] = []
        self._written = time.monotonic()
        self._data: sqlite3.Connection | None = None
        self.count = 0      # trials that are written or wait to be
        self.given: dict[bytes, Verdict] = {}      # design -> what it is worth, where that needs no run

    def __enter__(self) -> Store:
        if self.path != MEMORY:
            self._own()
        try:
            self._data = self._opened()
            with self._disk():
                self.count = self._data.execute("SELECT ifnull(max(number) + 1, 0) FROM trial").fetchone()[0]
                self.given = _salvaged(self._data)
        except InputError:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            if self._data is not None:
                self.flush()
        finally:
            self._close()

    def _close(self) -> None:
        if self._data is not None:
            self._data.close()
        if self._lock is not None:
            with contextlib.suppress(OSError):
                os.unlink(f"{self.path}.lock")
            self._lock.close()

    @contextlib.contextmanager
    def _disk(self) -> Iterator[None]:
        """Turn errors of the disk into InputError, after a damaged file was replaced."""
        try:
            yield
        except (sqlite3.Error, msgspec.DecodeError) as error:
            raise (self._repaired(error) if damaged(error) else disk_error(self.path, error)) from None

    def _repaired(self, error: Exception) -> InputError:
        """Replace the file by one of all rows that can be read; returns the error for the user."""
        data, about = self.data, dict[str, str]()
        try:
            with contextlib.suppress(sqlite3.Error):
                about = dict(data.execute("SELECT key, value FROM meta"))
            mark = _mark(about) if about else data.execute("PRAGMA user_version").fetchone()[0]
            found = {row[0]: row for row in readable(data, self.path, _FROM) if _whole(row)}
            found |= {row[0]: row for row in self._waiting}
            answers = _answers(data)
            whole = next(number for number in range(len(found) + 1) if number not in found)
            data.close()
            self._data = None
            kept = replace_damaged(self.path, f"{_SCHEMA} {_SALVAGED}; {_ANSWERS};"
                                   f" PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {mark};", [
                (_DESCRIBE, list(about.items())), (_ANSWER, answers),
                (_INSERT, [found[number] for number in range(whole)]),
                (_INSERT.replace("trial", "salvaged", 1), [row for number, row in found.items() if number > whole])])
        except (sqlite3.Error, OSError) as other:
            return InputError(self.path, f"is damaged ({error}), and cannot be repaired ({other})",
                              expected="another file, or a disk that works")
        return InputError(self.path, f"was damaged ({error}); {len(found):,} trials can be read and are stored again "
                          f"(the damaged file is {kept})", expected="the same command again: it runs the others")

    @property
    def data(self) -> sqlite3.Connection:
        """The open connection."""
        if self._data is None:
            raise InputError(self.path, "the study is not open")
        return self._data

    def _own(self) -> None:
        """Lock the file. Another process may have removed it after it was opened here: such a lock keeps nobody out."""
        while not self._locked():
            pass

    def _locked(self) -> bool:
        """Lock the lock file. Returns whether it is still there. Raises InputError if another process has it."""
        name = f"{self.path}.lock"
        try:
            self._lock = open(name, "ab")      # noqa: SIM115
        except OSError as error:
            raise InputError(self.path, f"cannot be written ({error.strerror or error})") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise InputError(self.path, "another process works on this study",
                             expected="another file, or wait until it has ended") from None
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(self._lock.fileno()), os.stat(name)):
                return True
        self._lock.close()
        return False

    def _opened(self) -> sqlite3.Connection:
        try:
            data = self._data = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            known = data.execute("PRAGMA application_id").fetchone()[0]
            tables = data.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if tables and known != APPLICATION:
                raise InputError(self.path, "is a database, but not a study")
            data.execute("PRAGMA journal_mode = WAL")
            data.execute("PRAGMA synchronous = NORMAL")
            if not tables:
                data.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {APPLICATION}; COMMIT;")
            data.execute(_ANSWERS)
        except sqlite3.Error as error:
            raise (InputError(self.path, f"is not a study ({error})") if damaged(error)
                   else disk_error(self.path, error)) from None
        return data

    def meta(self) -> dict[str, str]:
        """The description of the study, as `describe` wrote it."""
        with self._disk():
            return dict(self.data.execute("SELECT key, value FROM meta"))

    def describe(self, entries: Mapping[str, str]) -> None:
        """Write the description of the study in one transaction. Raises InputError if the file holds trials of another
        study whose description was lost with a damaged page."""
        with self._disk():
            if self.count and self.data.execute("PRAGMA user_version").fetchone()[0] != _mark(entries):
                raise InputError(self.path, "holds another study", expected="the same command, or another file")
            self._write(_DESCRIBE, list(entries.items()))
            self.data.execute(f"PRAGMA user_version = {_mark(entries)}")

    def _write(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write rows in one transaction, after a rollback of one that an error or a signal interrupted."""
        if self.data.in_transaction:
            self.data.execute("ROLLBACK")
        self.data.execute("BEGIN IMMEDIATE")
        self.data.executemany(statement, rows)
        self.data.execute("COMMIT")

    def add(self, trial: Trial) -> None:
        """Add the next trial; it is on disk after the next `flush`, at most PAUSE seconds of trials later."""
        self._waiting.append(_row(trial))
        self.count += 1
        if time.monotonic() - self._written >= PAUSE:
            self.flush()

    def flush(self) -> None:
        """Write the waiting trials in one transaction."""
        if self._waiting:
            with self._disk():
                self._write(_INSERT, self._waiting)
            self._waiting.clear()
        self._written = time.monotonic()

    def answer(self, round_: int) -> list[Point] | None:
        """The points that an agent outside answered in a round; None if it was not asked."""
        with self._disk():
            row = self.data.execute("SELECT points FROM answer WHERE round = ?", (round_,)).fetchone()
            return None if row is None else _POINTS.decode(row[0])

    def keep_answer(self, round_: int, points: Sequence[Point]) -> None:
        """Store an answer, before its designs run."""
        with self._disk():
            self._write(_ANSWER, [(round_, _text(points))])

    def known(self, designs: Sequence[bytes]) -> dict[bytes, tuple[int, Verdict]]:
        """Design -> number and verdict of its first trial, for those of `designs` that have one."""
        found: dict[bytes, tuple[int, Verdict]] = {}
        wanted = frozenset(designs)
        for row in self._waiting:
            if row[4] is None and row[3] in wanted:
                found[row[3]] = (row[0], _verdict(row))
        for at in range(0, len(designs), 500):
            part = designs[at:at + 500]
            marks = ",".join("?" * len(part))
            query = f"SELECT {_COLUMNS} FROM trial WHERE same_as IS NULL AND design IN ({marks})"
            with self._disk():
                for row in self.data.execute(query, part):
                    found[row[3]] = (row[0], _verdict(row))
        return found

    def trials(self, first: int = 0) -> Iterator[Trial]:
        """Yield the trials from number `first` on, in order."""
        self.flush()
        with self._disk():
            yield from trials_in(self.data, first)


def trials_in(data: sqlite3.Connection, first: int) -> Iterator[Trial]:
    """Yield the trials of an open database from number `first` on, in order."""
    for row in data.execute(_FROM, (first,)):
        yield _trial(row)


def _trial(row: tuple[Any, ...]) -> Trial:
    """The trial of a row. Raises msgspec.DecodeError for a row that is not a trial."""
    return Trial(row[0], row[1], _POINT.decode(row[2]), row[3], row[4], _verdict(row))


def _whole(row: tuple[Any, ...]) -> bool:
    try:
        return _trial(row).number >= 0
    except (msgspec.DecodeError, TypeError):
        return False


def _salvaged(data: sqlite3.Connection) -> dict[bytes, Verdict]:
    """Design -> verdict, of the trials after the first lost one."""
    if not data.execute("SELECT count(*) FROM sqlite_master WHERE name = 'salvaged'").fetchone()[0]:
        return {}
    return {row[3]: _verdict(row) for row in data.execute(f"SELECT {_COLUMNS} FROM salvaged")}


def _answers(data: sqlite3.Connection) -> list[tuple[int, str]]:
    """The answers that can be read."""
    found: list[tuple[int, str]] = []
    with contextlib.suppress(sqlite3.Error):
        for row in data.execute("SELECT round, points FROM answer ORDER BY round"):
            found.append(row)
    return found


def _mark(entries: Mapping[str, str]) -> int:
    """The checksum of a description, which the head of the file holds."""
    return zlib.crc32(msgspec.json.encode(sorted(entries.items()))) >> 1


def _row(trial: Trial) -> tuple[Any, ...]:
    verdict, text = trial.verdict, _text
    return (trial.number, trial.round, text(trial.point), trial.design, trial.same_as,
            None if verdict.values is None else text(verdict.values), text(verdict.figures), text(verdict.slacks),
            verdict.problem, verdict.seconds, verdict.bound)


def _text(values: Sequence[Any]) -> str:
    return msgspec.json.encode(values).decode()


def _numbers(text: str) -> tuple[float, ...]:
    return tuple([_NAN if value is None else value for value in _NUMBERS.decode(text)])


def _verdict(row: tuple[Any, ...]) -> Verdict:
    values = None if row[5] is None else _numbers(row[5])
    return Verdict(values, _numbers(row[6]), _numbers(row[7]), row[8], row[9], row[10])


def damaged(error: Exception) -> bool:
    """Whether an error means a damaged file, not a full or unreadable disk: any error but OperationalError, and one
    about text that is not UTF-8."""
    return not isinstance(error, sqlite3.OperationalError) or "UTF-8" in str(error)


def disk_error(path: str, error: Exception) -> InputError:
    """The error of a disk for the user."""
    if damaged(error):
        return InputError(path, f"is damaged ({error})", expected="astrarium search with this study: it keeps every "
                          "trial that can be read, and runs the others again")
    if "full" in str(error):
        return InputError(path, f"cannot be written ({error})", expected=f"more space, then {AGAIN}")
    if "no such column" in str(error):
        return InputError(path, "is a study of another version of Astrarium", expected="the version that wrote it")
    if "locked" in str(error):
        return InputError(path, "another program has locked this file", expected=f"that program closed, then {AGAIN}")
    return InputError(path, f"cannot be read or written ({error})", expected=f"a disk that works, then {AGAIN}")


def uri_of(path: str) -> str:
    """SQLite's name of a file to read. It may be written where the file and its folder may: the last connection then
    removes `-wal` and `-shm`, which one that can only read leaves behind."""
    mode = "rw" if os.access(path, os.W_OK) and os.access(os.path.dirname(path) or ".", os.W_OK) else "ro"
    return f"file:{quote(path)}?mode={mode}"


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn errors of reading into InputError."""
    try:
        yield
    except (sqlite3.Error, msgspec.DecodeError) as error:
        raise disk_error(path, error) from None


def readable(data: sqlite3.Connection, path: str, query: str) -> Iterator[tuple[Any, ...]]:
    """Yield the readable rows of `query`, which selects rows by ascending number from `?` on."""
    number = 0
    with contextlib.suppress(sqlite3.Error):
        for row in data.execute(query, (number,)):
            yield row
            number = row[0] + 1
    most = sum(os.path.getsize(path + end) for end in FILES if os.path.exists(path + end)) // SMALLEST
    for each in range(number, most):
        with contextlib.suppress(sqlite3.Error):
            row = data.execute(query, (each,)).fetchone()
            if row is not None and row[0] == each:
                yield row


def replace_damaged(path: str, script: str, tables: Sequence[tuple[str, Sequence[tuple[Any, ...]]]]) -> str:
    """Write a new database in place of a damaged one; returns the new name of the damaged one. `script` makes the
    tables, `tables` are statements with their rows."""
    kept, fresh = f"{path}.damaged", f"{path}.repaired"
    if os.path.exists(fresh):
        os.unlink(fresh)
    data = sqlite3.connect(fresh, isolation_level=None)
    try:
        data.executescript(script)
        data.execute("BEGIN")
        for statement, rows in tables:
            data.executemany(statement, rows)
        data.execute("COMMIT")
    except sqlite3.Error:
        data.close()
        os.unlink(fresh)
        raise
    data.close()
    for end in FILES:
        if os.path.exists(path + end):
            os.replace(path + end, kept + end)
    os.replace(fresh, path)
    return kept
