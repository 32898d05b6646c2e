"""Host nodes and timed operators: which are the same, by record function id or by name and order."""

from __future__ import annotations

from array import array
from collections import defaultdict

from msgspec import Struct

from astrarium.profile.link.host import HostTrace
from astrarium.profile.link.records import DeviceTrace

__all__ = ["Join", "joined"]

LEAST = 0.5      # of the nodes that could be joined: fewer are those of two runs that are alike by chance


class Join(Struct, frozen=True):
    """[operators] the host node of each, -1 where there is none; how many host nodes were found, and how; of how many
    that could be; how many had the id of an operator of another name, and so are not joined."""

    host: array[int]
    count: int
    by: str
    most: int = 0
    misnamed: int = 0

    @property
    def doubtful(self) -> bool:
        """Whether so few were found that the traces are likely to be of different runs."""
        return self.count < LEAST * self.most


def joined(host: HostTrace | None, trace: DeviceTrace) -> Join:
    """Joins by `rf_id` == `Record function id`, where names agree; where the device trace has no such ids, the k-th
    node of a name is the k-th operator of that name, if there are as many; if there are several times as many, the host
    trace is one step of several."""
    operators = trace.operators
    found = array("q", [-1]) * len(operators.name)
    if host is None:
        return Join(found, 0, "nothing")
    node_of: dict[int, int] = {}
    for node, number in enumerate(host.rf_id):
        if number > 0:
            node_of.setdefault(number, node)
    most, misnamed = min(len(node_of), sum(number > 0 for number in operators.key)), 0
    for operator, number in enumerate(operators.key):
        node = node_of.pop(number, -1) if number > 0 else -1
        same = node >= 0 and host.name[node] == operators.name[operator]
        misnamed += node >= 0 and not same
        found[operator] = node if same else -1
    count = sum(node >= 0 for node in found)
    if most or any(number > 0 for number in operators.key):
        return Join(found, count, "rf_id" if count else "nothing", most, misnamed)
    return _by_name(host, trace, found)


def _by_name(host: HostTrace, trace: DeviceTrace, found: array[int]) -> Join:
    nodes, timed = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for node, name in enumerate(host.name):
        nodes[name].append(node)
    start = trace.operators.start
    for operator in sorted(range(len(found)), key=lambda op: (start[op], op)):
        timed[trace.operators.name[operator]].append(operator)
    count = 0
    for name, operators in timed.items():
        of_name = nodes.get(name, ())
        if of_name and len(operators) % len(of_name) == 0:
            count += len(of_name)
            for turn, operator in enumerate(operators):
                found[operator] = of_name[turn % len(of_name)]
    return Join(found, count, "name and order" if count else "nothing", min(host.nodes, len(found)))
