"""Scopes of a trace's nodes as a tree, opened where most of the time goes until there are enough of them."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

__all__ = ["Path", "opened"]

Path = tuple[str, ...]
FAN = 12        # scopes that are shown of one that is opened: the others are one


def opened(paths: Sequence[Path], weight: Sequence[float], limit: int, whole: bool = False) -> list[Path]:
    """A scope for every node, at most `limit` different ones (but at least two).

    Args:
        paths: [nodes] names from the outermost scope to the node.
        weight: [nodes] what counts: the heaviest scope is opened first.
        limit: scopes.
        whole: a scope is opened only if all that are in it can be shown; else the smallest of many are one.
    """
    total = dict[Path, float]()
    children = dict[Path, dict[Path, None]]()
    ends = set(paths)
    for path, each in zip(paths, weight, strict=True):
        for depth in range(len(path) + 1):
            total[path[:depth]] = total.get(path[:depth], 0.0) + each
            if depth:
                children.setdefault(path[:depth - 1], {})[path[:depth]] = None
    shown, rest = _open(total, children, ends, max(limit, 2), whole)
    known = {path: _scope(path, shown, rest) for path in ends}
    return [known[path] for path in paths]


def _open(total: Mapping[Path, float], children: Mapping[Path, Mapping[Path, None]], ends: set[Path],
          limit: int, whole: bool) -> tuple[set[Path], dict[Path, int]]:
    """The scopes that are shown, and opened scope -> how many of its own are put together."""
    shown, rest, count = set[Path]([()]), dict[Path, int](), 1
    heap: list[tuple[float, Path]] = [(-total[()], ())]
    while heap:
        _, scope = heapq.heappop(heap)
        own = sorted(children.get(scope, ()), key=lambda each: (-total[each], each))
        room = limit - count + (scope not in ends)       # its box goes, unless it is a node by itself
        kept = own if len(own) <= min(room, FAN) else own[:min(room, FAN) - 1]
        if not kept or room < 1 or (whole and len(kept) < len(own)):
            continue
        rest[scope] = len(own) - len(kept)
        count += len(kept) + (rest[scope] > 0) - (scope not in ends)
        shown.update(kept)
        for each in kept:
            heapq.heappush(heap, (-total[each], each))
    return shown, rest


def _scope(path: Path, shown: set[Path], rest: Mapping[Path, int]) -> Path:
    """The innermost scope that is shown; of those that are put together, their sum."""
    depth = 0
    while path[:depth] in rest and depth < len(path):
        if path[:depth + 1] not in shown:
            return (*path[:depth], f"{rest[path[:depth]]:,} other scopes")
        depth += 1
    return path[:depth] or ("the trace",)
