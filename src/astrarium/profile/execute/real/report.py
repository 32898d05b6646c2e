"""What a plan can run and what it cannot, before anything runs; what it took, after."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.profile.execute.real.plan import Item, Plan
from astrarium.vocab import CommOp

__all__ = ["Findings", "Missing", "findings", "most_bytes", "refuse_faults"]

MOST_NAMED = 6
GATHERING = (CommOp.ALL_GATHER, CommOp.GATHER, CommOp.SCATTER)


class Missing(Struct, frozen=True):
    """Operators of one name that cannot run, for one reason; `node`: id of the first; `us`: their recorded time."""

    name: str
    fault: str
    count: int
    node: int
    us: int


class Findings(Struct, frozen=True):
    """What a replay of one rank would run; `bytes`: of its tensors, at most at a time."""

    source: str
    operators: int
    communications: int
    kinds: int
    bytes: int
    us: int
    missing: tuple[Missing, ...]
    missing_count: int


def findings(plan: Plan, device: str) -> Findings:
    """The findings of a plan."""
    good = [item for item in plan.items if item.call is not None and not item.fault]
    bad = defaultdict[tuple[str, str], list[Item]](list)
    for item in plan.items:
        if item.fault:
            bad[item.name, item.fault].append(item)
    missing = [Missing(name, fault, len(items), plan.node_ids[items[0].head], sum(map(plan.recorded_us, items)))
               for (name, fault), items in bad.items()]
    return Findings(plan.source, len(good), len(plan.program.messages), len({item.name for item in good}),
                    most_bytes(plan, device), sum(map(plan.recorded_us, good)),
                    tuple(sorted(missing, key=lambda each: -each.us)), sum(each.count for each in missing))


def refuse_faults(plan: Plan) -> None:
    """InputError where items cannot run, or none is there; it names the operators."""
    found = findings(plan, "cpu")
    if not found.operators and not found.missing:
        raise InputError(plan.source, "has no operators with a schema", expected="a trace that `astrarium trace link` "
                         "wrote from a host trace (ExecutionTraceObserver) and a device trace")
    if found.missing:
        named = "; ".join(f"{each.name[:60]} (node {each.node}, {each.count} of them, {each.us / 1e3:.1f} ms): "
                          f"{each.fault}" for each in found.missing[:MOST_NAMED])
        more = len(found.missing) - MOST_NAMED
        raise InputError(plan.source, f"cannot be replayed whole: {named}" + (f"; {more} more" if more > 0 else ""),
                         expected="operators of this PyTorch on this device, or --skip, with which they take their "
                         "recorded time")


def most_bytes(plan: Plan, device: str) -> int:
    """Bytes of tensors at most at a time on `device`, with a buffer for each size of communication."""
    sizes = {(message.op, message.size, len(message.group) or plan.program.ranks)
             for message in plan.program.messages.values()}
    wire = sum(size * (1 + members if op in GATHERING else 2) for op, size, members in sizes)
    peaks: dict[str, Any] = {each: plan.storages.peak(each) for each in ("cpu", "cuda")}
    return int(wire + (sum(peaks.values()) if device == "cpu" else peaks[device]))
