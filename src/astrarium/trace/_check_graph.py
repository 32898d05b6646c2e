"""Doctor: dependencies that dangle, cycles, and nodes that can never run."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from astrarium.errors import short_name
from astrarium.trace.columns import Columns
from astrarium.trace.finding import Findings
from astrarium.trace.graph import Graph

__all__ = ["check", "find_cycles"]

_SHOWN = 12   # nodes of a cycle that are printed


def check(columns: Columns, graph: Graph, order: npt.NDArray[np.int32], ranks: npt.NDArray[np.intp],
          found: Findings) -> None:
    """`order` is what can run; the rest is explained."""
    members = ranks.tolist()
    _dangling(columns, graph, members, found)
    if len(order) == columns.nodes:
        return
    blocked = np.ones(columns.nodes, np.bool_)
    blocked[order] = False
    parents = {int(i): [int(p) for p in graph.parent[graph.ptr[i]:graph.ptr[i + 1]] if p >= 0 and blocked[p]]
               for i in np.flatnonzero(blocked)}
    explained = {int(i) for i in np.searchsorted(columns.data_ptr, graph.dangling_data, side="right") - 1}
    for component, cycle in find_cycles(parents):
        explained |= component
        steps = [_label(columns, i) for i in cycle[:_SHOWN]]
        left_out = f" -> … {len(cycle) - _SHOWN} more" if len(cycle) > _SHOWN else ""
        path = " -> ".join(steps) + left_out + f" -> {steps[0]}"
        found.add("error", "cycle", members, f"dependency cycle of {len(cycle)} node{'s' * (len(cycle) > 1)} "
                  f"(each waits for the next): {path}", "remove one of these dependencies",
                  int(columns.node_id[cycle[0]]), columns.name(cycle[0]))
    behind = sorted(parents.keys() - explained)
    if behind:
        names = ", ".join(_label(columns, i) for i in behind[:5]) + (", …" if len(behind) > 5 else "")
        found.add("error", "unreachable", members, f"{len(behind)} node{'s' * (len(behind) > 1)} behind a cycle or a "
                  f"missing node can never run: {names}", "mend the cycle or the missing dependency",
                  int(columns.node_id[behind[0]]), columns.name(behind[0]))


def _dangling(columns: Columns, graph: Graph, members: list[int], found: Findings) -> None:
    cases = (("error", "dangling_data_dep", "data", graph.dangling_data, columns.data_ptr, columns.data_dep,
              "add the missing node or remove the dependency"),
             ("warning", "dangling_ctrl_dep", "control", graph.dangling_ctrl, columns.ctrl_ptr, columns.ctrl_dep,
              "it is ignored here; ASTRA-sim refuses it: remove the dependency"))
    for severity, code, word, edges, ptr, ids, fix in cases:
        nodes = np.searchsorted(ptr, edges, side="right") - 1
        for done, (edge, node) in enumerate(zip(edges.tolist(), nodes.tolist(), strict=True)):
            if found.full(code):
                found.more("error" if severity == "error" else "warning", code, len(edges) - done)
                break
            found.add("error" if severity == "error" else "warning", code, members,
                      f"{word} dependency on node {int(ids[edge])}, which is not in the trace", fix,
                      int(columns.node_id[node]), columns.name(node))


def _label(columns: Columns, index: int) -> str:
    name = short_name(columns.name(index))
    return f"{int(columns.node_id[index])} ({name})" if name else str(int(columns.node_id[index]))


def find_cycles(parents: dict[int, list[int]]) -> list[tuple[set[int], list[int]]]:
    """Per strongly connected component with a cycle: its nodes, and a shortest cycle through its lowest node.

    `parents` maps a node to those that it waits for, which are all keys too. Tarjan's algorithm with its own stack.
    """
    cycles = []
    for component in _components(parents):
        lowest = min(component)
        if len(component) > 1 or lowest in parents[lowest]:
            cycles.append((component, _shortest(parents, component, lowest)))
    return sorted(cycles, key=lambda found: found[1][0])


def _components(parents: dict[int, list[int]]) -> list[set[int]]:
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    waiting: list[int] = []
    inside: set[int] = set()
    found = []
    for root in parents:
        work = [(root, 0)] if root not in number else []
        while work:
            node, at = work.pop()
            if at == 0:
                number[node] = low[node] = len(number)
                waiting.append(node)
                inside.add(node)
            elif parents[node][at - 1] in inside:
                low[node] = min(low[node], low[parents[node][at - 1]])
            while at < len(parents[node]) and parents[node][at] in number:
                if parents[node][at] in inside:
                    low[node] = min(low[node], number[parents[node][at]])
                at += 1
            if at < len(parents[node]):
                work += [(node, at + 1), (parents[node][at], 0)]
            elif low[node] == number[node]:
                component: set[int] = set()
                while node not in component:
                    component.add(waiting.pop())
                found.append(component)
                inside -= component
    return found


def _shortest(parents: dict[int, list[int]], component: set[int], start: int) -> list[int]:
    """A shortest way from `start` along `parents` back to it, inside the component."""
    came: dict[int, int] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for parent in parents[node]:
            if parent == start:
                path = [node]
                while path[-1] != start:
                    path.append(came[path[-1]])
                return path[::-1]
            if parent in component and parent not in came:
                came[parent] = node
                queue.append(parent)
    return [start]
