"""What several tests of synthesis share: a corpus, the system that traces run on, errors of makespans."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from astrarium.compute.config import Roofline
from astrarium.design import Design
from astrarium.memory.config import Memory
from astrarium.network.config import Network, Switch
from astrarium.simulate import simulate
from astrarium.synthesise import Example, examples_of_generated
from astrarium.trace._wire import DELIMITED, VARINT, delimited, packed, tagged, varint
from astrarium.trace.node import Metadata, Node, attribute, encode_metadata, encode_node
from astrarium.trace.work import Generated
from astrarium.workload.config import Trace
from astrarium.workload.corpus import draw_corpus
from astrarium.workload.generate import generate

MODELS = ("llama2-7b", "llama2-13b", "llama3-8b", "llama2-70b")
Conditions = Mapping[str, float]


def examples(count: int, part: Literal["learn", "held_out", "fresh"] = "learn", seed: int = 0) -> list[Example]:
    return [example for c, work in draw_corpus(MODELS, count, part=part, seed=seed)
            for example in examples_of_generated(generate(work), c)]


def held_out(count: int, part: Literal["held_out", "fresh"] = "held_out",
             seed: int = 0) -> list[tuple[dict[str, float], Generated]]:
    return [(c, generate(work)) for c, work in draw_corpus(MODELS, count, part=part, seed=seed)]


def makespan(made: Generated, c: Conditions) -> float:
    """On A100s: servers of tp ranks, and what is between them."""
    tp, rest = int(c["tp"]), int(c["dp"] * c["pp"])
    dims = [Switch(tp, bandwidth="300 GB/s", latency="500 ns")] if tp > 1 else []
    dims += [Switch(rest, bandwidth="25 GB/s", latency="2 us")] if rest > 1 or not dims else []
    design = Design(workload=Trace("none"), compute=Roofline(peak="312 TFLOP/s"),
                    memory=Memory(capacity="80 GB", bandwidth="2 TB/s"), network=Network(dims))
    return float(simulate(design, traces=made, record=False).makespan)


def write_long_trace(path: Path, nodes: int) -> None:
    """One rank's file: steps of 100 layers forward (9 nodes each) and backward (17), then one node."""
    tails = [encode_node(Node(attrs=(attribute("is_cpu_op", False), attribute("num_ops", 1000 * (kind + 1)),
                                     attribute("tensor_size", 64 * (kind + 1))))) for kind in range(27)]
    with path.open("wb") as file:
        file.write(delimited(encode_metadata(Metadata("0.0.4", (attribute("kind", "profiled"),)))))
        for node in range(nodes):
            at = node % 2601
            kind = at % 9 if at < 900 else 9 + (at - 900) % 17 if at < 2600 else 26
            deps = packed([node - 1, *([node - 3] if kind in (3, 12) else [])]) if node else b""
            name = f"op{chr(97 + kind)}_{node % 1000}".encode()
            file.write(delimited(b"".join((
                tagged(1, VARINT, varint(node)), tagged(2, DELIMITED, delimited(name)), tagged(3, VARINT, varint(4)),
                tagged(5, DELIMITED, delimited(deps)), tagged(7, VARINT, varint(5 + kind)), tails[kind]))))
