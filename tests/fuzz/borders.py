"""Every number of a design at the borders of its type and beyond: the cases, and one of them run apart.

A case is a small design with one number changed. It runs in a forked process with limits on CPU time and memory.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from astrarium.cli import main
from astrarium.config import Config, parse_yaml, put
from astrarium.config.coerce import members
from astrarium.config.mapping import NameMap
from astrarium.config.spec import Knob, join, specs
from astrarium.config.yamlfile import to_yaml
from astrarium.design import Design
from astrarium.units import Quantity

CPU, MEMORY = 10, 6 << 30       # seconds; bytes of address space

SMALL = "{family: decoder, layers: 2, d_model: 128, heads: 4, ffn: 256, vocab: 512, seq: 64}"
REDUCE = "workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
RING = "{shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 500 ns}"
ROOF = ("compute: {model: roofline, peak: 100 TFLOP/s, power: 700 W, idle_power: 100 W, price: 1000, hourly_price: 2}\n"
        "memory: {bandwidth: 1 TB/s, capacity: 80 GB, latency: 100 ns}\n")
BASES = {
    "closed_form": REDUCE + f"network: {{dims: [{RING}]}}\ncollective: {{choice: none, all_reduce: [ring]}}\n",
    "contention": REDUCE + f"network: {{backend: contention, dims: [{RING}]}}\n",
    "fluid": REDUCE + f"network: {{backend: fluid, dims: [{RING}]}}\n",
    "packets": REDUCE + "network: {backend: packets, dims: [{shape: switch, npus: 4, bandwidth: 50 GB/s, latency: "
                        "500 ns}]}\n",
    "roce": REDUCE + "network: {backend: packets, packets: {transport: roce, queues: true}, dims: [{shape: switch, npus: 4, bandwidth: "
                     "50 GB/s, latency: 500 ns}]}\n",
    "two dims": REDUCE + f"network: {{dims: [{RING}, {{shape: switch, npus: 2, bandwidth_per_npu: 25 GB/s, latency: "
                         "2 us}]}\ncollective: {chunks: 4, endpoint_delay: 10 ns}\n",
    "training": f"workload: {{source: transformer, global_batch: 8, tp: 2, dp: 2, model: {SMALL}}}\n"
                f"network: {{dims: [{RING}]}}\n" + ROOF + "cost: us_h100_2024\n",
    "inference": f"workload: {{source: inference, tp: 4, batch: 2, prompt: 32, generated: 4, model: {SMALL}}}\n"
                 f"network: {{dims: [{RING}]}}\n" + ROOF,
    "micro": f"workload: {{source: micro, pattern: ring, count: 2}}\nnetwork: {{dims: [{RING}]}}\n" + ROOF,
    "computing": f"workload: {{source: micro, pattern: compute}}\nnetwork: {{dims: [{RING}]}}\n" + ROOF,
    "tiers": f"workload: {{source: transformer, global_batch: 4, dp: 4, model: {SMALL}}}\nnetwork: {{dims: [{RING}]}}\n"
             + ROOF.replace("capacity: 80 GB", "capacity: 80 GB, placement: auto, tiers: [{name: host, capacity: 2 TB, "
                            "npus: 4, bandwidth: 64 GB/s, total: 100 GB/s, duplex: true, step_bandwidth: 100 GB/s}]"),
    "jobs": "workload: {source: jobs, jobs: [{name: a, workload: {source: collective, op: all_reduce, payload: 1 MB}, "
            "npus: [0, 1]}, {name: b, workload: {source: collective, op: all_gather, payload: 1 MB}, npus: [2, 3]}]}\n"
            f"network: {{backend: contention, dims: [{RING}]}}\n",
    "fabric": REDUCE + "network: {backend: contention, fabric: {blueprint: clos, hosts: 4, xpus: 2, ports: 4, tiers: 3, "
              "links: {scale_up: {bandwidth: 400 GB/s, latency: 1 us}, access: {bandwidth: 50 GB/s, latency: 1 us}, spine: "
              "{bandwidth: 50 GB/s, latency: 1 us}, core: {bandwidth: 50 GB/s, latency: 1 us}}}}\n",
}


class Case(NamedTuple):
    """A design of BASES with the number at `path` as `value`."""

    base: str
    path: str
    value: Any


def borders(kind: Any, knob: Knob) -> list[Any]:
    """Values at the borders of a number's type and beyond, and at those of its knob."""
    if isinstance(kind, type) and issubclass(kind, Quantity):
        unit = kind.example.split()[-1]
        more = {"size": ["10 EB", "1 B", "9223372036854775808 B"], "time": ["1e30 s", "1 ps", "9223372036854775808 ps"]}
        return [f"{number} {unit}" for number in ("0", "1e-30", "1e-9", "1e12", "1e18", "1e30", "1e300", "-1", "nan",
                                                  "inf")] + more.get(kind.dimension, []) + [2**63, 5]
    edges = [each for each in (knob.ge, knob.gt, knob.lt) if each is not None]
    if kind is int:
        near = [int(edge) + step for edge in edges for step in (-1, 0, 1)]
        return [0, 1, -1, *near, 1000003, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 1e30]
    return [0.0, 5e-324, 1e-300, 1e18, 1e300, -1.0, 2**63, 2**64, "nan", float("nan"), float("inf"), *edges]


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, Any, Knob]]:
    """(path, type, knob) of every number in a configuration, whether it is set or not."""
    if isinstance(value, Config):
        for spec in specs(type(value)):
            where = join(path, spec.name)
            for kind in members(spec.type):
                if kind in (int, float) or (isinstance(kind, type) and issubclass(kind, Quantity)):
                    yield where, kind, spec.knob
            yield from numbers(getattr(value, spec.name), where)
    elif isinstance(value, tuple):
        for place, each in enumerate(value):
            yield from numbers(each, f"{path}[{place}]")
    elif isinstance(value, NameMap):
        for name, each in value.items():
            yield from numbers(each, join(path, name))


def cases() -> Iterator[Case]:
    """All of them, in order."""
    from astrarium.config import loads

    for base, text in BASES.items():
        for path, kind, knob in numbers(loads(Design, text)):
            for value in dict.fromkeys(map(repr, borders(kind, knob))):
                yield Case(base, path, eval(value, {"nan": float("nan"), "inf": float("inf")}))


class Ended(NamedTuple):
    """How a case ended: the exit code (negative: the signal), and what it said."""

    code: int
    said: str


def run_apart(case: Case, folder: Path, verb: str = "run") -> Ended:
    """`astrarium VERB` on the case's design, in a process of its own."""
    design, said = folder / "design.yaml", folder / "said.txt"
    plain: Mapping[str, Any] = put(parse_yaml(BASES[case.base]).data, {case.path: case.value})
    design.write_text(to_yaml(plain))
    child = os.fork()
    if child == 0:
        code = 99
        with contextlib.suppress(BaseException), open(said, "w") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
            signal.signal(signal.SIGXCPU, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            code = main([verb, str(design)])
            import sys

            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), said.read_text(errors="replace"))
