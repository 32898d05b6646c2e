"""Strategies for ASTRA-sim's input files: a good file with strange values here and there, and small runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from hypothesis import strategies as st

from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp, NodeKind

ALGORITHMS = ["ring", "direct", "direct1", "direct3", "halvingDoubling", "doubleBinaryTree", "oneRing", "oneDirect",
              "oneHalvingDoubling"]
OPS = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"]
STRANGE: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), 2**31,
                     2**63, 2**64, -(2**63), 10**40, "", "0", "ring", "Ring", "direct0", "direct-1",
                     "direct99999999999999999999", "one", "\u0000", "\ud800", "é" * 9, [], {}, [[]], [None],
                     ["ring", 1], {"a": {"b": [1]}}, "1" * 5000]),
    st.integers(), st.floats(), st.text(max_size=8), st.lists(st.integers(-1, 9), max_size=4))


def system(dims: int) -> dict[str, Any]:
    """A system file that runs."""
    lists = {f"{op}-implementation": ["ring"] * dims for op in OPS}
    return {"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1,
            "preferred-dataset-splits": 4, "collective-optimization": "localBWAware", "local-mem-bw": 1600,
            "roofline-enabled": 0, "peak-perf": 900, **lists}


SYSTEM_EXTRA = ["model-shared-bus", "L", "o", "g", "G", "local-reduction-delay", "replay-only", "trace-enabled",
                "nonsense", "boost-mode", "all-reduce-implementation-custom", "per-node-custom-implementation"]
NETWORK = {"topology": ["Ring", "Switch"], "npus_count": [2, 2], "bandwidth": [50.0, 25.0], "latency": [500.0, 0.0]}
MEMORY = {"memory-type": "PER_NODE_MEMORY_EXPANSION", "num-nodes": 2, "num-npus-per-node": 2, "remote-mem-latency": 100,
          "remote-mem-bw": 50}
GROUPS = {"1": [0, 1], "2": [2, 3]}


@st.composite
def mutated(draw: st.DrawFn, good: Mapping[str, Any], extra: Sequence[str] = ()) -> dict[str, Any]:
    """A file with up to three keys replaced, dropped or added, at the top or inside a list."""
    values = {key: list(value) if isinstance(value, list) else value for key, value in good.items()}
    for _ in range(draw(st.integers(0, 3))):
        key = draw(st.sampled_from([*good, *extra, "?"]))
        old = values.get(key)
        if isinstance(old, list) and old and draw(st.booleans()):
            old[draw(st.integers(0, len(old) - 1))] = draw(STRANGE)
        elif draw(st.integers(0, 4)):
            values[key] = draw(STRANGE)
        else:
            values.pop(key, None)
    return values


def as_json(value: Any) -> bytes:
    """JSON as a lenient writer would have it (NaN, lone surrogates)."""
    return json.dumps(value).encode("utf-8", "surrogatepass")


def as_yaml(value: Any) -> bytes:
    """YAML, likewise."""
    return yaml.safe_dump(value, allow_unicode=False).encode("utf-8", "surrogatepass")


@st.composite
def scratched(draw: st.DrawFn, text: st.SearchStrategy[bytes]) -> bytes:
    """The bytes of a file, now and then with some of them changed, dropped or repeated."""
    data = draw(text)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        width = draw(st.integers(0, 4))
        data = data[:at] + draw(st.one_of(st.binary(max_size=3), st.just(data[at:at + width] * 2))) + data[at + width:]
    return data


SYSTEM_BYTES = scratched(mutated(system(2), SYSTEM_EXTRA).map(as_json))
NETWORK_BYTES = scratched(mutated(NETWORK).map(as_yaml))
MEMORY_BYTES = scratched(mutated(MEMORY).map(as_json))
GROUPS_BYTES = scratched(mutated(GROUPS, ["0", "-1", "03", " 4 ", "²", "abc"]).map(as_json))

SIZES = st.sampled_from([0, 1, 3, 7, 64, 1000, 4096, 1 << 20, 10**9, 2**31, 2**40])


@st.composite
def node(draw: st.DrawFn, trace: TraceBuilder, npus: int, rank: int) -> None:
    """Adds one random node; most depend on earlier ones, a few on later ones or on none that exists."""
    count = len(trace.nodes)
    some = st.integers(0, max(count - 1, 0)) if draw(st.integers(0, 20)) else st.integers(0, count + 3)
    after = draw(st.lists(some, max_size=2)) if count else []
    kind = draw(st.sampled_from(["comp", "coll", "coll", "coll", "send", "recv", "memory", "invalid"]))
    peer = st.integers(0, npus - 1) if draw(st.integers(0, 20)) else st.integers(-1, npus + 1)
    if kind == "comp":
        ops, tensor = draw(st.sampled_from([(None, None), (0, 0), (1, 1), (10**9, 10**6), (10**18, 1), (5, 0)]))
        trace.comp("c", draw(st.sampled_from([0, 1, 7, 10**6, 2**40])), num_ops=ops, tensor_size=tensor,
                   cpu=draw(st.integers(0, 5)) == 0, after=after)
    elif kind == "coll":
        op = draw(st.sampled_from([CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL] * 3 +
                                  [CommOp.BROADCAST, CommOp.BARRIER]))
        group = draw(st.sampled_from([None, None, "0", "1", "2", "7"]))
        more = {"involved_dim": draw(st.lists(st.booleans(), max_size=3))} if draw(st.integers(0, 4)) == 0 else {}
        trace.coll("k", op, draw(SIZES), group=group, after=after, comm_priority=draw(st.integers(0, 3)), **more)
    elif kind == "send":
        trace.send("s", draw(peer), draw(SIZES), draw(st.integers(0, 2)), after=after)
    elif kind == "recv":
        trace.recv("r", draw(peer), draw(SIZES), draw(st.integers(0, 2)), after=after)
    elif kind == "memory":
        trace.memory("m", draw(SIZES), store=draw(st.booleans()), after=after)
    else:
        trace.node(draw(st.sampled_from([NodeKind.INVALID, NodeKind.METADATA])), "x", after=after)


@st.composite
def spmd(draw: st.DrawFn, npus: int, spoil: bool) -> list[bytes]:
    """Traces of `npus` ranks that mostly fit together: shifts by a constant, collectives on all ranks or on pairs.

    `spoil` makes one rank run something else.
    """
    shape = draw(st.lists(st.tuples(st.sampled_from("ckkkgsmx"), SIZES, st.integers(1, max(npus - 1, 1)),
                                    st.sampled_from([0, 2, 6, 7])), min_size=1, max_size=6))
    files = []
    for rank in range(npus):
        trace = TraceBuilder()
        for i, (kind, size, number, op) in enumerate(shape):
            after = [j for j in (i - number,) if 0 <= j < len(trace.nodes)]
            if kind == "c":
                trace.comp("c", number, after=after)
            elif kind in "kg":
                group = None if kind == "k" else str(1 + rank // 2)
                trace.coll("k", CommOp(op), size, group=group, after=after)
            elif kind == "s" and npus > 1:
                trace.send("s", (rank + number) % npus, size, i, after=after)
                trace.recv("r", (rank - number) % npus, size, i, after=after)
            elif kind == "m":
                trace.memory("m", size, after=after)
            else:
                trace.node(NodeKind.INVALID, "x", after=after)
        files.append(trace.encode())
    if spoil:
        other = TraceBuilder()
        rank = draw(st.integers(0, npus - 1))
        for _ in range(draw(st.integers(0, 5))):
            draw(node(other, npus, rank))
        files[rank] = other.encode()
    return files


@st.composite
def settings(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(system, network, memory, groups) that are legal, small and varied."""
    dims = draw(st.sampled_from([1, 1, 1, 2, 3]))
    sizes = draw(st.sampled_from({1: [[2], [3], [4], [5], [8]], 2: [[2, 2], [4, 2], [3, 2], [1, 4]],
                                  3: [[2, 2, 2], [2, 1, 2]]}[dims]))
    network = {"topology": [draw(st.sampled_from(["Ring", "Switch", "FullyConnected"])) for _ in sizes],
               "npus_count": sizes, "bandwidth": [draw(st.sampled_from([50.0, 1e6, 1e-3, 0.3])) for _ in sizes],
               "latency": [draw(st.sampled_from([0.0, 0.5, 500.0])) for _ in sizes]}
    algorithms = st.lists(st.sampled_from(ALGORITHMS), min_size=1, max_size=dims)
    lists = {f"{op}-implementation": draw(algorithms) for op in OPS}
    values = {**system(dims), **lists, "scheduling-policy": draw(st.sampled_from(["LIFO", "FIFO", "EXPLICIT"])),
              "endpoint-delay": draw(st.sampled_from([0, 1, 10])), "roofline-enabled": draw(st.integers(0, 1)),
              "preferred-dataset-splits": draw(st.sampled_from([1, 2, 4, 7])),
              "active-chunks-per-dimension": draw(st.sampled_from([1, 2, 64])),
              "collective-optimization": draw(st.sampled_from(["baseline", "localBWAware"])),
              "local-mem-bw": draw(st.sampled_from([0, 50, 1600]))}
    if draw(st.integers(0, 5)) == 0:
        values |= {"model-shared-bus": 1, "L": 1, "o": 2, "g": 3, "G": 0.01, "local-reduction-delay": 2}
    kind = draw(st.sampled_from(["NO_MEMORY_EXPANSION", "PER_NPU_MEMORY_EXPANSION", "PER_NODE_MEMORY_EXPANSION",
                                 "MEMORY_POOL"]))
    npus = 1
    for size in sizes:
        npus *= size
    pairs = {str(1 + rank // 2): [r for r in (rank, rank + 1) if r < npus] for rank in range(0, npus, 2)}
    return values, network, {**MEMORY, "memory-type": kind}, pairs
