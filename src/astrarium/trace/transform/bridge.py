"""Leaving nodes out of a graph: what waited for them waits for what they waited for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from astrarium.errors import TraceError
from astrarium.trace.columns import Columns
from astrarium.trace.graph import graph_of, index_of, ready_order
from astrarium.trace.transform.patch import Change
from astrarium.vocab import NodeKind

__all__ = ["BARRIER", "bridged", "ordered"]

FEW = 4                 # dependencies of a node that are not looked at: some may say what others imply
SHARED, WIDE = 8, 64    # dependencies beyond which a node that goes stays as a barrier: with several users, with one
BARRIER = "order of nodes left out"
Waits = tuple[tuple[int, ...], tuple[int, ...]]      # ids: data, control


def ordered(columns: Columns, source: str) -> npt.NDArray[np.int32]:
    """Indexes of all nodes, each after what it waits for. TraceError where some can never run."""
    order = ready_order(columns, graph_of(columns))
    if len(order) != columns.nodes:
        raise TraceError(source, f"{columns.nodes - len(order)} nodes wait for a cycle or for a node that is missing",
                         expected="a trace that `astrarium check` finds no error in")
    return order


def bridged(columns: Columns, keep: npt.NDArray[np.bool_], source: str) -> dict[int, Change | None]:
    """Changes that leave out the nodes where `keep` [nodes] is False and keep every order among the others.

    A way through left-out nodes that has a control dependency in it becomes one, else a data dependency; dependencies
    on missing nodes go with the node or stay. A left-out node through which many would wait for many stays as a
    barrier: an empty host node named BARRIER that takes no time. So there are never more than WIDE times as many
    dependencies as before.
    """
    found: dict[int, Change | None] = dict.fromkeys(np.flatnonzero(~keep).tolist())
    if not found:
        return {}
    order = ordered(columns, source)
    dropped = set(columns.node_id[~keep].tolist())
    touched, users = _touched(columns, keep), _users(columns, order, keep)
    waits: dict[int, Waits] = {}
    chains = _chains(columns, order[keep[order]])
    for node in order.tolist():
        if not (touched[node] if keep[node] else users[node]):
            continue
        data, ctrl = (_latest(ids, chains) for ids in _waits(columns, node, dropped, waits))
        if keep[node]:
            found[node] = Change(data_deps=data, ctrl_deps=ctrl)
            continue
        number, size = int(columns.node_id[node]), len(data) + len(ctrl)
        if size > WIDE or (size > SHARED and users[node] > 1):
            found[node] = _barrier(data, ctrl)
            data, ctrl = (number,), ()
        waits[number] = (data, ctrl)
    return found


def _barrier(data: tuple[int, ...], ctrl: tuple[int, ...]) -> Change:
    return Change(name=BARRIER, type=int(NodeKind.COMP), duration=0, data_deps=data, ctrl_deps=ctrl, bare=True,
                  values={"is_cpu_op": True}, without=lambda name: True)


def _users(columns: Columns, order: npt.NDArray[np.int32], keep: npt.NDArray[np.bool_]) -> list[int]:
    """[nodes] how many wait for the node that stay, or go and are waited for themselves."""
    graph, found, stays = graph_of(columns), [0] * columns.nodes, keep.tolist()
    ptr, parent = graph.ptr.tolist(), graph.parent.tolist()
    for node in reversed(order.tolist()):
        if stays[node] or found[node]:
            for before in set(parent[ptr[node]:ptr[node + 1]]):
                if before >= 0:
                    found[before] += 1
    return found


def _touched(columns: Columns, keep: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """[nodes] whether the node waits for one that goes."""
    out = np.zeros(columns.nodes, np.bool_)
    for ptr, ids in ((columns.data_ptr, columns.data_dep), (columns.ctrl_ptr, columns.ctrl_dep)):
        at = index_of(columns, ids)
        gone = (at >= 0) & ~keep[np.maximum(at, 0)]
        out[np.repeat(np.arange(columns.nodes), np.diff(ptr))[gone]] = True
    return out


def _chains(columns: Columns, order: npt.NDArray[np.int32]) -> dict[int, tuple[int, int]]:
    """Node id -> (chain, place in it) of the nodes in `order`: along a chain every one has a data dependency on the one
    before."""
    ids, ptr, deps = columns.node_id.tolist(), columns.data_ptr.tolist(), columns.data_dep.tolist()
    found: dict[int, tuple[int, int]] = {}
    tails: dict[int, int] = {}      # id of a chain's last node -> the chain
    for node in order.tolist():
        before = next((each for each in deps[ptr[node]:ptr[node + 1]] if each in tails), None)
        chain = len(found) if before is None else tails.pop(before)
        found[ids[node]] = (chain, 0 if before is None else found[before][1] + 1)
        tails[ids[node]] = chain
    return found


def _latest(ids: tuple[int, ...], chains: dict[int, tuple[int, int]]) -> tuple[int, ...]:
    """Keep only the last id of each chain: it waits for the others. Ids of missing nodes stay."""
    if len(ids) <= FEW:
        return ids
    last: dict[int, int] = {}
    for number in ids:
        chain, place = chains.get(number, (-1 - number, 0))
        if chain not in last or place > chains[last[chain]][1]:
            last[chain] = number
    return tuple(last.values())


def _waits(columns: Columns, node: int, dropped: set[int], waits: dict[int, Waits]) -> Waits:
    data: dict[int, None] = {}
    ctrl: dict[int, None] = {}
    for ptr, ids, into in ((columns.data_ptr, columns.data_dep, data), (columns.ctrl_ptr, columns.ctrl_dep, ctrl)):
        for number in ids[int(ptr[node]):int(ptr[node + 1])].tolist():
            if number not in dropped:
                into[number] = None
                continue
            before = waits.get(number, ((), ()))
            into.update(dict.fromkeys(before[0]))
            ctrl.update(dict.fromkeys(before[1]))
    return tuple(data), tuple(ctrl)
