"""What a replay of one rank runs: calls of operators in recorded order, with the nodes whose time each explains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container

from msgspec import Struct, field

from astrarium.profile.execute.program import Message, Program, program
from astrarium.profile.execute.real.checks import Checker
from astrarium.profile.execute.real.order import waits_of
from astrarium.profile.execute.real.recorded import Recording, recording
from astrarium.profile.execute.real.resolve import Call
from astrarium.profile.execute.real.storages import Storages, storages
from astrarium.trace._torch import torch_module
from astrarium.trace.columns import Traces
from astrarium.vocab import NodeKind

__all__ = ["Item", "Plan", "device_for", "plan_of"]

ALONE = "a communication with ranks whose traces are not given"
NO_SCHEMA = "launches a kernel, and is no operator of PyTorch's (Triton, another library)"
NO_ARGUMENTS = "its schema and arguments are not recorded (in no host trace, or in one of fewer steps)"


class Item(Struct):
    """One thing that a replay starts: a `call`, or a `message` with `more` that go on together; neither where only time
    passes. `fault`: why it cannot run.

    `head`: the node at whose place it starts; `nodes`: those that have its time. `waits`: items that must have ended
    (those of one lane follow each other anyway).
    """

    head: int
    nodes: list[int] = field(default_factory=list)
    call: Call | None = None
    message: Message | None = None
    more: list[Message] = field(default_factory=list)
    lane: tuple[object, ...] = ()
    waits: tuple[int, ...] = ()
    fault: str = ""
    name: str = ""


class Plan(Struct, frozen=True):
    """A rank's replay. `gpu`: whether a GPU was recorded; then only what it did is replayed."""

    rank: int
    source: str
    program: Program
    items: list[Item]
    storages: Storages
    gpu: bool
    node_ids: list[int]
    durations: list[int]     # us, as recorded

    def where(self, item: Item) -> str:
        """File, node and operator, for messages."""
        return f"{self.source}: node {self.node_ids[item.head]}: {item.name}"

    def recorded_us(self, item: Item) -> int:
        """us as recorded; messages that go on together take the time of each."""
        times = [self.durations[node] for node in item.nodes]
        return max(times) if item.more else sum(times)


def device_for(traces: Traces) -> str:
    """Where a recording is replayed: on a GPU (cuda) if it was recorded on one and one is found, else on the CPU."""
    recorded = any(((each.is_cpu_op == 0) & (each.type == NodeKind.COMP)).any() for each in traces.classes)
    return "cuda" if recorded and torch_module().cuda.is_available() else "cpu"


def plan_of(traces: Traces, rank: int, device: str) -> Plan:
    """The replay of `rank` on `device` (cpu, cuda); items that it cannot run say why.

    Raises InputError where the trace cannot be executed at all, or ranks disagree on their collectives."""
    steps, columns = program(traces, rank, communicates=traces.ranks > 1), traces.of(rank)[0]
    found = recording(columns)
    checker = Checker(device)
    calls, owner = _calls(found, checker)
    gpu = any(lane is not None for lane in found.lane)
    items = _items(found, calls, owner, steps, set(columns.comm_node.tolist()), gpu, checker)
    kept = {item.head for item in items if item.call is not None and not item.fault}
    plan = Plan(rank, traces.sources[rank], steps, items, storages(found, calls, kept), gpu,
                columns.node_id.tolist(), columns.duration.tolist())
    for item, waits in zip(items, waits_of(steps, items), strict=True):
        item.waits = waits
    return plan


def _calls(found: Recording, checker: Checker) -> tuple[dict[int, Call], list[int]]:
    """Node -> call, of the outermost operators that do more than call others; [nodes] the call that each is part of."""
    calls: dict[int, Call] = {}
    launching = {found.above[node] for node, lane in enumerate(found.lane) if lane is not None}
    owner = [-1] * len(found.above)
    for node, above in enumerate(found.above):
        owner[node] = owner[above] if 0 <= above < node else -1
        if node not in found.operators or owner[node] >= 0:
            continue
        call = checker.call(found.operators[node], node in launching)
        if call is not None:
            calls[node] = call
            owner[node] = node
    return calls, owner


def _items(found: Recording, calls: dict[int, Call], owner: list[int], steps: Program, comms: Container[int],
           gpu: bool, checker: Checker) -> list[Item]:
    """In the order in which the host starts them."""
    items: dict[tuple[int, int], Item] = {}
    wires: dict[int, Item] = {}
    parts = defaultdict[int, list[int]](list)
    for node, mine in enumerate(owner):
        if node in steps.messages:
            above = found.above[node]
            head = above if found.lane[node] is not None and above >= 0 else node
            message = steps.messages[node]
            first = wires.get(above)
            if first is not None:      # a further message of one kernel
                first.more.append(message)
                first.nodes.append(node)
                continue
            wires[node] = items[head, node] = Item(
                head, [node], message=message, lane=_wire_lane(message),
                name="send or receive" if message.op is None else message.op.name.lower())
        elif node in comms or (found.lane[node] is not None and mine < 0):
            above = found.above[node]
            head = above if above >= 0 else node
            lane = ("stream", *_lane(found, node)) if gpu else ()
            name = found.name(node if node in comms else head)
            items[head, node] = Item(head, [node], lane=lane, name=name,
                                     fault=ALONE if node in comms else _reason(found, above, name, checker))
        elif mine >= 0 and (found.lane[node] is not None or not gpu):
            parts[mine].append(node)
    for head, nodes in parts.items():
        call = calls[head]
        if gpu or not call.known.views:
            lane = ("stream", *_lane(found, nodes[0])) if gpu else ()
            items[head, -1] = Item(head, nodes, call, lane=lane, fault=call.fault, name=call.known.name)
    return [items[key] for key in sorted(items)]


def _lane(found: Recording, node: int) -> tuple[int, int]:
    return found.lane[node] or (0, 0)


def _wire_lane(message: Message) -> tuple[object, ...]:
    return ("wire", *message.group) if message.op is not None else ("peer", message.peer, message.sends)


def _reason(found: Recording, above: int, name: str, checker: Checker) -> str:
    if above in found.operators:
        return checker.fault(found.operators[above])
    return NO_ARGUMENTS if "::" in name.partition("(")[0] and above >= 0 else NO_SCHEMA
