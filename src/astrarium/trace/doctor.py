"""The doctor: everything that is wrong with a set of traces, found before they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from astrarium.trace import _check_collectives, _check_graph, _check_nodes, _check_peers
from astrarium.trace.columns import Columns, Traces
from astrarium.trace.finding import Finding, Findings
from astrarium.trace.graph import Dependencies, graph_of, ready_order
from astrarium.trace.groups import group_key, groups_of
from astrarium.trace.node import TRACE_KINDS, decode_metadata, trace_kind
from astrarium.vocab import NodeKind

__all__ = ["check"]

OTHERS = frozenset(("member_outside", "not_member", "peer_outside", "wrong_owner", "self_send", "unmatched_send",
                    "unmatched_receive"))      # what cannot be told where ranks are missing


def check(traces: Traces, groups: Mapping[str, Sequence[int]] | None = None, *, deps: Dependencies = "data+ctrl",
          limit: int = 1000) -> list[Finding]:
    """All findings, errors first; equal ones of several ranks are one finding.

    `groups` maps group names to ranks (None: those that the traces define). `deps` is the dependency semantics.
    At most `limit` findings of one code are made, the rest are counted. An error means that the traces cannot run as
    they are; a warning, that they can but probably do not say what was meant. Of profiled traces that are not all
    ranks of their job, which replay by their recorded times, nothing is said about the missing ones but one warning.
    """
    given = groups_of(traces) if groups is None else groups
    known = {group_key(str(name)): tuple(members) for name, members in given.items()}
    found = Findings(limit)
    orders = []
    for number, columns in enumerate(traces.classes):
        ranks = traces.members(number)
        graph = graph_of(columns, deps)
        order = ready_order(columns, graph)
        orders.append(columns.issue_order.astype(np.int32) if columns.is_recorded else order)
        _check_nodes.check(columns, ranks, found)
        _check_graph.check(columns, graph, order, ranks, found)
    _check_kinds(traces, found)
    _check_peers.check(traces, found)
    _check_collectives.check(traces, known, orders, deps, found)
    return _of_part(traces, known, found.all())


def _check_kinds(traces: Traces, found: Findings) -> None:
    """Ranks whose traces were made in different ways, and words that are no kind."""
    kinds = [trace_kind(columns.metadata) for columns in traces.classes]
    for number, kind in enumerate(kinds):
        if kind is not None and kind not in TRACE_KINDS:
            found.add("warning", "unknown_kind", traces.members(number).tolist(), f"kind {kind[:40]!r}",
                      f"use one of {', '.join(TRACE_KINDS)}")
    if len(set(kinds)) > 1:
        words = sorted(kind or "none" for kind in set(kinds))
        found.add("warning", "mixed_kinds", (), f"traces of kinds {', '.join(words)} in one job",
                  "take all ranks from one source")


def _of_part(traces: Traces, groups: Mapping[str, Sequence[int]], findings: list[Finding]) -> list[Finding]:
    described = [{a.name: a.value for a in decode_metadata(columns.metadata).attrs} for columns in traces.classes]
    if any(trace_kind(columns.metadata) != "profiled" for columns in traces.classes):
        return findings
    worlds = [world for each in described if isinstance(world := each.get("world_size"), int)]
    job = max(worlds or [1 + max((member for members in groups.values() for member in members), default=0)])
    rest = [each for each in findings if each.code not in OTHERS]
    silent = len(rest) == len(findings) and not (worlds and any(map(_calls_all, traces.classes)))
    if job <= traces.ranks or silent:
        return findings
    return [*rest, Finding("warning", "part_of_job", (), None, None,
                           f"{traces.ranks} of {job} ranks are here; their communication with the others is not "
                           "checked",
                           "run one by its recorded times (run --trace --rank R), or add the other ranks")]


def _calls_all(columns: Columns) -> bool:
    """Whether the class has a collective without a named group, which is one of all ranks of the job."""
    return bool((columns.group[:, columns.type[columns.comm_node] == NodeKind.COMM_COLL] == -1).any())
