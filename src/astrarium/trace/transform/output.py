"""Writing what transforms made: a file per rank and the file of the groups, all or none."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

from astrarium.errors import InputError
from astrarium.trace.read import refuse_leftovers
from astrarium.trace.transform.files import Job
from astrarium.trace.write import write_files

__all__ = ["WrittenJob", "write_job"]


@dataclass(frozen=True)
class WrittenJob:
    """Ranks and bytes (decompressed) written; the path of the groups' file, None where there are no groups."""

    ranks: int
    bytes: int
    groups: str | None


def write_job(job: Job, prefix: str | os.PathLike[str], *, compress: bool = False) -> WrittenJob:
    """Writes PREFIX.RANK.et, and PREFIX.groups.json where there are groups. No file is replaced before all are written.

    Group names that are no whole numbers above 0 stay out of the groups' file, which cannot hold them; metadata nodes
    define them. InputError where a file cannot be written, or the prefix has traces of further ranks.
    """
    where = os.fspath(prefix)
    if not os.path.isdir(os.path.dirname(where) or "."):
        raise InputError(where, "is in no folder that exists", expected="a prefix in a folder that exists")
    refuse_leftovers(where, len(job.files))
    named = {name: list(members) for name, members in job.groups.items() if name.isdecimal() and name.strip("0")}
    groups = f"{where}.groups.json" if named else None
    size = [0]

    def files() -> Iterator[tuple[str, bytes]]:
        for rank, data in enumerate(job.files):
            size[0] += len(data)
            yield f"{where}.{rank}.et", gzip.compress(data, mtime=0) if compress else data
        if groups is not None:
            yield groups, (json.dumps(named) + "\n").encode()

    write_files(files())
    return WrittenJob(len(job.files), size[0], groups)
