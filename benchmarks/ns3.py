"""CPU seconds of one ring all_reduce of 16 MiB on 128 NPUs behind a switch: ns-3 (udp), and our own back ends.

Each in a new process, ns-3's own included: CPU seconds of `astrarium run` as a whole, and of the run alone, without the
start of Python, reading the design and lowering it (of ns-3: of its own process and what speaks to it). Without the
program of `make ns3` only ours are timed. `--tcp` adds ns-3's TCP (about three times as long).
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from _measure import child, machine

from astrarium import registry
from astrarium.network.ns3.program import find

DESIGN = """\
workload: {source: collective, op: all_reduce, payload: 16 MiB}
network:
  backend: BACKEND
  dims: [{shape: switch, npus: 128, bandwidth: 50 GB/s, latency: 500 ns}]
collective: {all_reduce: [ring], chunks: 1}
fold: "off"
"""
RUN_ALONE = """\
import resource, sys
import astrarium as ar
from astrarium.simulate import prepare

def cpu():
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)

ready, before = prepare(ar.load_design(sys.argv[1])), cpu()
ready()
print(cpu() - before)
"""
OURS = ("closed_form", "contention", "fluid", "packets")


def row(name: str, backend: str, path: Path) -> None:
    path.write_text(DESIGN.replace("BACKEND", backend))
    text, seconds, peak = child([sys.executable, "-m", "astrarium", "run", str(path), "--json"])
    makespan = json.loads(text)["summary"]["makespan_ns"] / 1000
    alone = float(child([sys.executable, "-c", RUN_ALONE, str(path)])[0])
    print(f"{name:12s} {makespan:10.1f} us {seconds:9.2f} CPU s, {alone:7.3f} the run alone {peak:8.0f} MB", flush=True)


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "design.yaml"
        for backend in OURS:
            if backend in registry.built_ins("backend"):
                row(backend, backend, path)
        if find() is None:
            print("ns3: no program astrarium-ns3 here, `make ns3` builds it")
            return
        row("ns3 udp", "ns3", path)
        if "--tcp" in sys.argv[1:]:
            row("ns3 tcp", "ns3\n  ns3: {transport: tcp}", path)


if __name__ == "__main__":
    main()
