"""What the doctor found: one line per fault, equal faults of several ranks folded into one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from astrarium.errors import short_name
from astrarium.trace.read import spans

__all__ = ["Finding", "Findings", "Severity"]

Severity = Literal["error", "warning"]


class Finding(Struct, frozen=True):
    """One fault. `node` is a node id. `code` is stable, for filters."""

    severity: Severity
    code: str
    ranks: tuple[int, ...]
    node: int | None
    name: str | None
    message: str
    fix: str

    @property
    def rank(self) -> int | None:
        """The first rank concerned, None where the fault is not a rank's."""
        return self.ranks[0] if self.ranks else None

    def __str__(self) -> str:
        where = []
        if self.ranks:
            where.append(f"rank{'s' if len(self.ranks) > 1 else ''} {spans(self.ranks)}")
        if self.node is not None:
            where.append(f"node {self.node}" + (f" ({short_name(self.name)})" if self.name else ""))
        place = f"{', '.join(where)}: " if where else ""
        return f"{self.severity}: {place}{self.message}; {self.fix}"


class Findings:
    """Collects findings; equal ones of several ranks become one, and a code stops at `limit` findings."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._found: dict[tuple[Severity, str, int | None, str | None, str, str], list[int]] = {}
        self._count: dict[str, int] = {}
        self._left_out: dict[tuple[Severity, str], int] = {}

    def add(self, severity: Severity, code: str, ranks: Iterable[int], message: str, fix: str,
            node: int | None = None, name: str | None = None) -> None:
        key = (severity, code, node, name, message, fix)
        if key not in self._found:
            if self._count.get(code, 0) >= self._limit:
                self._left_out[severity, code] = self._left_out.get((severity, code), 0) + 1
                return
            self._count[code] = self._count.get(code, 0) + 1
        self._found.setdefault(key, []).extend(ranks)

    def full(self, code: str) -> bool:
        """Whether further findings of this code would only be counted."""
        return self._count.get(code, 0) >= self._limit

    def more(self, severity: Severity, code: str, count: int) -> None:
        """Counts findings that are not worth making."""
        if count > 0:
            self._left_out[severity, code] = self._left_out.get((severity, code), 0) + count

    def all(self) -> list[Finding]:
        """Errors first, then by rank and node."""
        found = [Finding(key[0], key[1], tuple(sorted(set(ranks))), key[2], key[3], key[4], key[5])
                 for key, ranks in self._found.items()]
        found.sort(key=lambda f: (f.severity, f.ranks[:1] or (-1,), -1 if f.node is None else f.node, f.code))
        found += [Finding(severity, code, (), None, None, f"{count} more findings {code!r} are not shown",
                          "mend those above first, or raise the limit")
                  for (severity, code), count in sorted(self._left_out.items())]
        return found
