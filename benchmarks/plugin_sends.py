"""Sends per second through network plug-ins, end to end: reading the plan, the engine, the plug-in, all callbacks.

One collective (a direct all-to-all among 64 NPUs in 4 chunks: 16,128 sends and as many receives) over a network that
answers every send after a latency: the same for all ("in step"), or another for each ("scattered": every instant has
one event, the worst case). In Python with the compiled and the pure-Python engine, and the example in C.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from astrarium.collective.algorithms import Options, build
from astrarium.engine import HAVE_CORE, execute
from astrarium.engine.plan import (
    Algorithm,
    Backend,
    Chunk,
    CollectivePlan,
    Dim,
    Kind,
    Lane,
    NetworkPlan,
    Phase,
    Plan,
    Policy,
    Program,
    Shape,
)
from astrarium.engine.plugins import DelayNetwork, Library, Network, load
from astrarium.engine.plugins.given import Plugins
from astrarium.vocab import CommOp

NPUS, CHUNKS, REPEATS = 64, 4, 5
FABRIC = NetworkPlan(Backend.FOREIGN, (Dim(Shape.SWITCH, NPUS, 50.0, 500.0),))
EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "plugins"


def all_to_all() -> CollectivePlan:
    schedule = build("direct", CommOp.ALL_TO_ALL, NPUS, Options())
    size = NPUS * 4096
    phase = Phase(0, CommOp.ALL_TO_ALL, Algorithm.SCHEDULE, size, NPUS, 1, schedule=schedule,
                  block_size=size // schedule.blocks)
    return CollectivePlan(CommOp.ALL_TO_ALL, size * CHUNKS, (Chunk(CHUNKS, (phase,)),), 2)


def in_step(_: NetworkPlan) -> Network:
    return DelayNetwork(lambda size, src, dst, now: 1_000_000)


def scattered(_: NetworkPlan) -> Network:
    count = iter(range(1_000_000, 10**12, 7919))
    return DelayNetwork(lambda size, src, dst, now: next(count))


def toy_in_python() -> Callable[[NetworkPlan], Network]:
    spec = importlib.util.spec_from_file_location("toy", EXAMPLES / "toy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["toy"] = module
    spec.loader.exec_module(module)
    toy: Callable[[NetworkPlan], Network] = module.Toy
    return toy


def toy_in_c(folder: str) -> Library | None:
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    header = Path(__file__).resolve().parent.parent / "native" / "engine" / "plugins"
    out = Path(folder) / "libtoy.so"
    subprocess.run([compiler, "-O2", "-std=c99", "-shared", "-fPIC", f"-I{header}", "-o", str(out),
                    str(EXAMPLES / "network_c" / "toy.c"), "-lm"], check=True)
    return load(out)


def plan_of(collective: CollectivePlan) -> Plan:
    """All NPUs take part in the collective, and do nothing else."""
    none = np.zeros(NPUS, np.int32)
    program = Program(node_id=np.zeros(1, np.uint64), kind=np.array([Kind.COLLECTIVE], np.uint8),
                      lane=np.array([Lane.COMM], np.int16), duration=np.zeros(1, np.int64), busy=np.zeros(1, np.int64),
                      size=np.zeros(1, np.int64), slot=np.zeros(1, np.int32), parents=np.zeros(1, np.int32),
                      child_ptr=np.zeros(2, np.int32), child=np.zeros(0, np.int32))
    return Plan(npus=NPUS, programs=(program,), program_of=none, npu_of=np.arange(NPUS, dtype=np.int32),
                slot_ptr=np.arange(NPUS + 1, dtype=np.int64), slot_a=none, slot_b=none - 1, slot_c=none, groups=(),
                collectives=(collective,), network=FABRIC, policy=Policy())


def measure(name: str, plugin: Callable[[NetworkPlan], Network] | Library, pure: bool) -> None:
    plan = plan_of(all_to_all())
    sends, times = NPUS * (NPUS - 1) * CHUNKS, []
    for _ in range(REPEATS):
        start = time.process_time()
        execute(plan, fold=False, pure=pure, plugins=Plugins(network=plugin))
        times.append(time.process_time() - start)
    print(f"{name:42s} {sends / sorted(times)[REPEATS // 2]:12,.0f} sends per CPU second")


def main() -> None:
    engines = [(False, "compiled engine")] if HAVE_CORE else []
    with tempfile.TemporaryDirectory() as folder:
        for pure, engine in [*engines, (True, "pure-Python engine")]:
            measure(f"Python plug-in, in step, {engine}", in_step, pure)
            measure(f"Python plug-in, scattered, {engine}", scattered, pure)
            measure(f"examples/plugins/toy.py, {engine}", toy_in_python(), pure)
            library = toy_in_c(folder)
            if library is not None and not pure:
                measure(f"examples/plugins/network_c, {engine}", library, pure)


if __name__ == "__main__":
    main()
