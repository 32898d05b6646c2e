"""Every number of a design at the borders of its type and beyond: the cases, and one of them run apart.

A case is a small design with one number changed. It runs in a forked process with limits on CPU time and memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from astrarium.cli import main
from astrarium.config import Config, loads, parse_yaml, put
from astrarium.config.coerce import members
from astrarium.config.mapping import NameMap
from astrarium.config.spec import Knob, join, specs
from astrarium.config.yamlfile import to_yaml
from astrarium.design import Design
from astrarium.units import Quantity

CPU, MEMORY = 10, 6 << 30       # seconds; bytes of address space

LLAMA = "{family: decoder, layers: 2, d_model: 128, heads: 4, ffn: 256, vocab: 512, seq: 64}"
REDUCE = "workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
RING = "{shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 500 ns}"
SWITCH = "{shape: switch, npus: 4, bandwidth: 50 GB/s, latency: 500 ns}"
ROOF = "compute: {model: roofline, peak: 100 TFLOP/s, power: 700 W, idle_power: 100 W, price: 1000}\n"
MEM = "memory: {bandwidth: 1 TB/s, capacity: 80 GB, latency: 100 ns}\n"
TIERS = ("memory: {bandwidth: 1 TB/s, capacity: 80 GB, placement: auto, tiers: [{name: host, capacity: 2 TB, npus: 4, "
         "bandwidth: 64 GB/s, total: 100 GB/s, duplex: true, step_bandwidth: 100 GB/s}]}\n")
TWO = "{shape: switch, npus: 2, bandwidth_per_npu: 25 GB/s, latency: 2 us}"
LINK = "{bandwidth: 50 GB/s, latency: 1 us}"
CLOS = ("{blueprint: clos, hosts: 4, xpus: 2, ports: 4, tiers: 3, "
        f"links: {{scale_up: {LINK}, access: {LINK}, spine: {LINK}, core: {LINK}}}}}")


def _on(dims: str, more: str = "") -> str:
    return f"network: {{dims: [{dims}]{more}}}\n"


BASES = {
    "closed_form": REDUCE + _on(RING) + "compute: {model: replay}\ncollective: {choice: none, all_reduce: [ring]}\n",
    "contention": REDUCE + _on(RING, ", backend: contention"),
    "fluid": REDUCE + _on(RING, ", backend: fluid"),
    "packets": REDUCE + _on(SWITCH, ", backend: packets"),
    "roce": REDUCE + _on(SWITCH, ", backend: packets, packets: {transport: roce, queues: true}"),
    "two dims": REDUCE + _on(f"{RING}, {TWO}") + "collective: {chunks: 4, endpoint_delay: 10 ns}\n",
    "training": f"workload: {{source: transformer, global_batch: 8, tp: 2, dp: 2, model: {LLAMA}}}\n" + _on(RING)
                + ROOF + MEM + "cost: us_h100_2024\n",
    "inference": f"workload: {{source: inference, tp: 4, batch: 2, prompt: 32, generated: 4, model: {LLAMA}}}\n"
                 + _on(RING) + ROOF + MEM,
    "micro": "workload: {source: micro, pattern: ring, count: 2}\n" + _on(RING) + ROOF + MEM,
    "computing": "workload: {source: micro, pattern: compute, flops: 1000000}\n" + _on(RING) + ROOF + MEM,
    "tiers": f"workload: {{source: transformer, global_batch: 4, dp: 4, model: {LLAMA}}}\n" + _on(RING) + ROOF + TIERS,
    "jobs": "workload: {source: jobs, jobs: [{name: a, workload: {source: collective, op: all_reduce, payload: 1 MB}, "
            "npus: [0, 1]}, {name: b, workload: {source: collective, op: all_gather, payload: 1 MB}, npus: [2, 3]}]}\n"
            + _on(RING, ", backend: contention"),
    "fabric": REDUCE + f"network: {{backend: contention, fabric: {CLOS}}}\n",
}
OF_QUANTITIES = ("0", "1e-30", "1e-9", "1e12", "1e18", "1e30", "1e300", "-1", "nan", "inf")
MORE = {"size": ("10 EB", "1 B", "9e18 B", "9223372036854775808 B"),
        "time": ("1e30 s", "1 ps", "9e18 ps", "9223372036854775808 ps")}
AS_ASKED = {("workload.model.layers", 99999), ("workload.model.layers", 100000), ("workload.count", 999999),
            ("network.dims[0].npus", 1000003)}
"""Legal values for which the work is as large as they say: longer than a case may take."""


class Case(NamedTuple):
    """A design of BASES with the number at `path` as `value`."""

    base: str
    path: str
    value: Any


class Ended(NamedTuple):
    """How `check` and `run` of a case ended: their exit codes (negative: the signal), and what they said."""

    codes: tuple[int, ...]
    said: str

    def fault(self, case: Case) -> str:
        """What is wrong with that; empty where nothing is."""
        if not {*self.codes} <= {0, 1} or "Traceback" in self.said:
            return f"ended with {self.codes}: {self.said[-300:]}"
        field = re.sub(r"\[\d+\]", "", case.path).split(".")[-1]      # or the section that cannot do with it
        named = field in self.said or re.search(r"\b(workload|network|compute|memory|collective)[.:]", self.said)
        return "" if named or self.codes == (0, 0) else f"does not name the field: {self.said[-300:]}"


def borders(kind: Any, knob: Knob) -> list[Any]:
    """Values at the borders of a number's type and beyond, and at those of its knob."""
    if issubclass(kind, Quantity):
        unit = kind.example.split()[-1]
        return [f"{number} {unit}" for number in OF_QUANTITIES] + [*MORE.get(kind.dimension, ()), 2**63, 5]
    edges = [each for each in (knob.ge, knob.gt, knob.lt) if each is not None]
    if kind is int:
        near = [int(edge) + step for edge in edges for step in (-1, 0, 1)]
        return [0, 1, -1, *near, 1000003, 2**31 - 1, 2**31, 2**40 - 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 1e30]
    return [0.0, 5e-324, 1e-300, 1e18, 1e300, -1.0, 2**63, 2**64, "nan", ".nan", ".inf", *edges]


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, Any, Knob]]:
    """(path, type, knob) of every number in a configuration, whether it is set or not."""
    if isinstance(value, Config):
        for spec in specs(type(value)):
            where = join(path, spec.name)
            for kind in members(spec.type):
                if typing.get_origin(kind) is None and issubclass(kind, (int, float)) and kind is not bool:
                    yield where, kind, spec.knob
            yield from numbers(getattr(value, spec.name), where)
    elif isinstance(value, tuple):
        for place, each in enumerate(value):
            yield from numbers(each, f"{path}[{place}]")
    elif isinstance(value, NameMap):
        for name, each in value.items():
            yield from numbers(each, join(path, name))


def cases() -> Iterator[Case]:
    """All of them, in order; what is not of the workload or of a dim once, not in every base."""
    seen: set[tuple[str, str]] = set()
    for base, text in BASES.items():
        design = loads(Design, text)
        for path, kind, knob in numbers(design):
            known = (base if path.startswith(("workload.", "network.dims")) else "", path)
            if known in seen or not _read(path, design):
                continue
            seen.add(known)
            for value in {repr(each): each for each in borders(kind, knob)}.values():
                if (path, value) not in AS_ASKED:
                    yield Case(base, path, value)


def _read(path: str, design: Design) -> bool:
    """Whether a design reads a section that belongs to one back end or rule book."""
    network = design.network
    return not any(path.startswith(section) for section, read in (
        ("network.packets", network.backend == "packets"), ("network.ns3", network.backend == "ns3"),
        ("astra_sim", False)) if not read)


def run_apart(case: Case, folder: Path) -> Ended:
    """`check` and `run` on the case's design, in a process of their own."""
    design, said = folder / "design.yaml", folder / "said.txt"
    design.write_text(to_yaml(put(parse_yaml(BASES[case.base]).data, {case.path: case.value})))
    child = os.fork()
    if child == 0:
        codes = 99
        with contextlib.suppress(BaseException), open(said, "w") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
            signal.signal(signal.SIGXCPU, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
                codes = 10 * main(["check", str(design)]) + main(["run", str(design)])
        os._exit(codes)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Ended((code,) if code < 0 else divmod(code, 10), said.read_text(errors="replace"))
