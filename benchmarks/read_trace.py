"""How fast traces are read: nodes per second of one file, and 1,024 files of 850 nodes whose ranks fall in two classes.

usage: read_trace.py [--ranks 1024] [--distinct] [--pure]

Prints one line per figure: nodes/s on one core (300-byte nodes, 5 attributes, every field kept), and CPU seconds and
peak memory of reading and checking the many files (made in a temporary folder: tensor- and data-parallel groups and
point-to-point between two pipeline stages, about 300 bytes a node).
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from astrarium.trace import check, read_traces, traces_of_bytes
from astrarium.trace.node import Attribute, Metadata, Node, attribute, encode_node
from astrarium.trace.write import encode_trace
from astrarium.vocab import CommOp, NodeKind

TP = 8  # ranks of a tensor-parallel group


def compute(number: int, after: tuple[int, ...]) -> bytes:
    shapes = ("mb0.transformer.0.mha.dx@0", "MicroBatch/dp,Seq/(cp*tp),Dmodel", "2097152.0",
              "mb0.transformer.0.mha.w@0", "Dmodel/(cp*tp)", "4194304.0")
    attrs = (Attribute("inputs", shapes, "string_list"), Attribute("outputs", shapes[:2], "string_list"),
             attribute("num_ops", 12884901888), attribute("tensor_size", 6291456), attribute("op_type", "M"))
    name = f"mb0.transformer.{number}.mha.qkv@0_COMP"
    return encode_node(Node(number, name, NodeKind.COMP, data_deps=after, attrs=attrs))


def comm(number: int, after: tuple[int, ...], kind: NodeKind, values: dict[str, object]) -> bytes:
    inputs = (f"mb0.transformer.{number}.mha.qkv@0", "MicroBatch/dp,Seq/cp,Dmodel", "2097152.0")
    attrs = [Attribute("inputs", inputs, "string_list"), Attribute("outputs"), attribute("comm_size", 2097152)]
    attrs += [attribute(name, value) for name, value in values.items()]
    name = f"mb0.transformer.{number}.mha.qkv@0_X1COMM"
    return encode_node(Node(number, name, kind, data_deps=after, attrs=tuple(attrs)))


def stage_file(rank: int, ranks: int, nodes: int, shared: dict[int, bytes]) -> bytes:
    """One rank of a two-stage pipeline: a collective every fourth node, a send or receive in the middle."""
    half, out = ranks // 2, []
    stage, place = divmod(rank, half)
    for number in range(nodes):
        after = (number - 1,) if number else ()
        if number == nodes // 2:
            kind = NodeKind.COMM_RECV if stage else NodeKind.COMM_SEND
            peer = {"comm_src": place} if stage else {"comm_dst": place + half}
            out.append(comm(number, after, kind, {"comm_tag": 500000 + place, **peer}))
        elif number % 4 == 3:
            group = 1 + rank // TP if number % 8 == 3 else 1 + ranks // TP + stage * TP + rank % TP
            op = CommOp.ALL_GATHER if number % 8 == 3 else CommOp.ALL_REDUCE
            values = {"comm_type": int(op), "pg_name": str(group), "is_cpu_op": False}
            out.append(comm(number, after, NodeKind.COMM_COLL, values))
        else:
            out.append(shared.setdefault(number, compute(number, after)))
    return encode_trace(Metadata("0.0.4"), out)


def groups(ranks: int) -> dict[str, tuple[int, ...]]:
    half = ranks // 2
    found = {str(1 + g): tuple(range(g * TP, g * TP + TP)) for g in range(ranks // TP)}
    for stage in range(2):
        for place in range(TP):
            members = tuple(range(stage * half + place, (stage + 1) * half, TP))
            found[str(1 + ranks // TP + stage * TP + place)] = members
    return found


def cpu_s() -> float:
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def one_file(nodes: int, pure: bool) -> None:
    data = encode_trace(Metadata("0.0.4"), (compute(i, (i - 1,) if i else ()) for i in range(nodes)))
    seconds = []
    for _ in range(5):
        before = cpu_s()
        traces_of_bytes([data], pure=pure)
        seconds.append(cpu_s() - before)
    median = sorted(seconds)[2]
    print(f"one file: {nodes} nodes of {len(data) / nodes:.0f} bytes, {nodes / median / 1e6:.2f} million nodes/s")


def many_files(ranks: int, nodes: int, distinct: bool, pure: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shared: dict[int, bytes] = {}
        for rank in range(ranks):
            if distinct:
                shared[0] = encode_node(Node(0, "first", NodeKind.COMP, duration=1 + rank))
            Path(folder, f"w.{rank}.et").write_bytes(stage_file(rank, ranks, nodes, shared))
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        before, wall = cpu_s(), time.perf_counter()
        traces = read_traces(f"{folder}/w", pure=pure)
        read, wall = cpu_s() - before, time.perf_counter() - wall
        before = cpu_s()
        findings = check(traces, groups(ranks))
        checked = cpu_s() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"many files: {ranks} x {nodes} nodes, {size / 1e6:.0f} MB, {len(traces.classes)} classes: "
          f"read {read:.3f} CPU s ({wall:.3f} s wall), check {checked:.3f} CPU s, {len(findings)} findings, "
          f"peak {peak:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--pure", action="store_true", help="without the compiled core")
    parser.add_argument("--distinct", action="store_true", help="no two ranks equal")
    options = parser.parse_args()
    one_file(2_000 if options.pure else 200_000, options.pure)
    many_files(options.ranks, 850, options.distinct, options.pure)


if __name__ == "__main__":
    main()
