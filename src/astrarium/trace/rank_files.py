"""The files of the ranks of a trace: of a prefix (`<prefix>.<rank>.et`), or of a pattern with *, ? or [...]."""

from __future__ import annotations

import glob
import os
import re

from astrarium.errors import InputError

__all__ = ["EXAMPLE", "files_by_rank", "is_pattern", "path_of_rank", "ranks_of", "single_file"]

EXAMPLE = "such as 'step.*.et' or 'host_[01].json', in which the last *, ? or [...] is in the number of the rank"
_WILD = re.compile(r"\*|\?|\[!?[^\]]+\]")


def is_pattern(workload: str) -> bool:
    """Whether the name of a file has *, ? or [...] and is neither a file nor a prefix with a file of rank 0."""
    return bool(_WILD.search(os.path.basename(workload))) and not os.path.isfile(workload) and not os.path.exists(
        f"{workload}.0.et")


def single_file(workload: str) -> bool:
    """Whether `workload` is a file and no prefix."""
    return os.path.isfile(workload) and not os.path.exists(f"{workload}.0.et")


def ranks_of(workload: str) -> list[int]:
    """Ranks of a prefix or a pattern that have a file, ascending."""
    return list(files_by_rank(workload))


def files_by_rank(workload: str) -> dict[int, str]:
    """The files of a prefix or a pattern, by rank, ascending. Raises InputError if two files have one rank."""
    folder, name = os.path.split(workload)
    number, whole = _pattern(name if is_pattern(workload) else f"{glob.escape(name)}.*.et")
    try:
        names = sorted(os.listdir(folder or "."))
    except (OSError, ValueError):      # ValueError: a name that no folder can have
        return {}
    found: dict[int, str] = {}
    for each in names:
        rank = _rank(each, number, whole)
        if rank is None:
            continue
        if rank in found:
            raise InputError(workload, f"names two files of rank {rank}: {os.path.basename(found[rank])} and {each}",
                             expected=f"a file of each rank: a pattern {EXAMPLE}")
        found[rank] = os.path.join(folder, each)
    return dict(sorted(found.items()))


def path_of_rank(workload: str, rank: int) -> str:
    """The name that the file of `rank` has or would have."""
    if not is_pattern(workload):
        return f"{workload}.{rank}.et"
    last = list(_WILD.finditer(workload))[-1]
    return files_by_rank(workload).get(rank) or f"{workload[:last.start()]}{rank}{workload[last.end():]}"


def _pattern(name: str) -> tuple[re.Pattern[str], bool]:
    """The pattern with a group for its last wildcard, and whether that is a *."""
    parts, at = [], 0
    wild = list(_WILD.finditer(name))
    for found in wild:
        text = found[0]
        some = re.sub(r"^!", "^", re.sub(r"([\\\[])", r"\\\1", text[1:-1]))
        inside = {"*": ".*", "?": "."}.get(text, f"[{some}]")
        parts += [re.escape(name[at:found.start()]), f"({inside})" if found is wild[-1] else inside]
        at = found.end()
    return re.compile("".join([*parts, re.escape(name[at:])]), re.DOTALL), wild[-1][0] == "*"


def _rank(name: str, number: re.Pattern[str], whole: bool) -> int | None:
    """The number in which the group of `number` is; None of another name, and of a number with leading zeros. A * is
    the whole number, ? and [...] may have digits before and behind."""
    found = number.fullmatch(name)
    if found is None:
        return None
    start, end = found.span(1)
    if not whole:
        while start and name[start - 1].isdigit():
            start -= 1
        while end < len(name) and name[end].isdigit():
            end += 1
    digits = name[start:end]
    return int(digits) if re.fullmatch("0|[1-9][0-9]*", digits) else None
