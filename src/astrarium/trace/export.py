"""Writing what a workload generator made as Chakra execution traces: one file per rank, and the file of the groups."""

from __future__ import annotations

import errno
import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Literal

from msgspec import Struct

from astrarium.config.whole import write_whole
from astrarium.errors import InputError
from astrarium.trace._encode import ClassFiles, Template, class_files
from astrarium.trace.groups import group_key
from astrarium.trace.read import refuse_leftovers
from astrarium.trace.work import Generated
from astrarium.trace.write import clear_leftovers

__all__ = ["Link", "Written", "group_names", "write_generated"]

Link = Literal["hard", "copy", "symlink"]
Progress = Callable[[int, int], None]
AHEAD = 4           # files under way per thread


class Written(Struct, frozen=True):
    """What `write_generated` wrote: `files` of their own, `linked` further ranks that are equal to one of those,
    `bytes` of the files of their own, `groups` the path of the group file."""

    ranks: int
    files: int
    linked: int
    bytes: int
    groups: str


def write_generated(generated: Generated, prefix: str | os.PathLike[str], *, jobs: int | None = None,
                    link: Link = "hard", compress: bool = False, tensors: bool = False,
                    progress: Progress | None = None) -> Written:
    """Writes `<prefix>.<rank>.et` for every rank and `<prefix>.groups.json`, the groups' names and ranks.

    `jobs` threads write (all cores). Ranks whose files are equal share one: `link` makes the others hard links,
    symbolic links or copies of it. `compress` writes gzip. `tensors` writes what every node reads and writes as
    `inputs` and `outputs`, from which memory over time is known. `progress(done, ranks)` is told of every file.

    Every file appears whole or not at all, the groups' last: without it not all traces are there. The same workload
    gives the same bytes. Groups keep names that are whole
    numbers above 0, which is what ASTRA-sim reads; where one is not, all are numbered from 1 in their order. Raises
    InputError where files cannot be written, and where the prefix has traces of further ranks.
    """
    where = os.fspath(prefix)
    ranks = sum(trace.ranks.size for trace in generated.classes)
    _check(where, ranks, link, jobs)
    names = group_names(generated)
    groups = f"{where}.groups.json"
    text = json.dumps({name: group.tolist() for name, group in zip(names, generated.groups, strict=True)})
    _remove(groups)
    out = _Output(where, link, compress, ranks, progress)
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        for number, trace in enumerate(generated.classes):
            found = class_files(trace, names, generated.tensors[number] if tensors else None)
            out.write(pool, found, trace.ranks.tolist(), AHEAD * (jobs or os.cpu_count() or 1))
    _place(groups, f"{text}\n".encode())
    clear_leftovers([groups, *map(out.path, range(ranks))])
    return Written(ranks, out.files, out.done - out.files, out.bytes, groups)


def group_names(generated: Generated) -> tuple[str, ...]:
    """The names of the groups as files say them: whole numbers above 0, as text."""
    names = generated.names
    kept = all(name.isascii() and name.isdigit() and group_key(name) == name != "0" for name in names)
    return names if kept else tuple(str(number) for number in range(1, len(names) + 1))


def _check(prefix: str, ranks: int, link: str, jobs: int | None) -> None:
    folder = os.path.dirname(prefix) or "."
    if not os.path.isdir(folder):
        raise InputError(prefix, f"there is no folder {folder!r}", expected="a prefix in a folder that exists")
    if link not in ("hard", "copy", "symlink"):
        raise InputError("link", f"{link!r} is not known", expected="one of hard, copy, symlink")
    if jobs is not None and jobs < 1:
        raise InputError("jobs", f"{jobs} threads", expected="at least 1")
    refuse_leftovers(prefix, ranks)


class _Output:
    """Writes files and counts them."""

    def __init__(self, prefix: str, link: str, compress: bool, ranks: int, progress: Progress | None) -> None:
        self.prefix, self.link, self.compress = prefix, link, compress
        self.ranks, self.progress = ranks, progress
        self.files = self.done = self.bytes = 0

    def path(self, rank: int) -> str:
        """Where a rank's file goes."""
        return f"{self.prefix}.{rank}.et"

    def write(self, pool: ThreadPoolExecutor, found: ClassFiles, ranks: Sequence[int], ahead: int) -> None:
        """The files of one class: those with their own content first, then the links to them."""
        followers: list[list[int]] = [[] for _ in range(len(found.rows))]
        for row, place in enumerate(found.same.tolist()):
            if row != found.rows[place]:
                followers[place].append(ranks[row])
        for places, template in found.contents():
            tasks = ((self._content, template, place, ranks[int(found.rows[place])], followers[place])
                     for place in places)
            for files, size, done in _bounded(pool, tasks, ahead):
                self.files, self.bytes = self.files + files, self.bytes + size
                self.done += done
                if self.progress:
                    self.progress(self.done, self.ranks)

    def _content(self, template: Template, place: int, rank: int, followers: Sequence[int]) -> tuple[int, int, int]:
        """Writes one content and what is equal to it; (files, their bytes, ranks)."""
        data: bytes | memoryview = template.file(place).data
        if self.compress:
            data = gzip.compress(data, mtime=0)
        files = 1
        _place(self.path(rank), data)
        source = self.path(rank)
        for follower in followers:
            if self.link == "copy" or not _linked(source, self.path(follower), self.link):
                source = self.path(follower)    # copies; or the file has as many links as its file system allows
                _place(source, data)
                files += 1
        return files, files * len(data), 1 + len(followers)


def _bounded(pool: ThreadPoolExecutor, tasks: Iterable[tuple[object, ...]], ahead: int,
             ) -> Iterator[tuple[int, int, int]]:
    """The results of the tasks as they come, with at most `ahead` of them under way; the first error ends them all."""
    under_way: set[Future[tuple[int, int, int]]] = set()
    try:
        for task in tasks:
            under_way.add(pool.submit(*task))      # type: ignore[arg-type]
            if len(under_way) >= ahead:
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        while under_way:
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    finally:
        for future in under_way:
            future.cancel()


def _remove(path: str) -> None:
    """A file of earlier traces, if there is one."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise InputError(path, f"cannot be written ({error.strerror or error})") from None


def _place(path: str, data: bytes | memoryview) -> None:
    """One file, whole or not at all."""
    with write_whole(path) as file:
        file.write(data)


def _linked(source: str, path: str, link: str) -> bool:
    """Makes `path` a link to `source`; False where the file system allows no more links to it."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.link")
    try:
        if link == "hard":
            os.link(source, temporary)
        else:
            os.symlink(os.path.basename(source), temporary)
        os.replace(temporary, path)
    except OSError as error:
        if error.errno == errno.EMLINK:
            return False
        raise InputError(path, f"cannot be made a link ({error.strerror or error})", expected="link: copy") from None
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)
    return True


