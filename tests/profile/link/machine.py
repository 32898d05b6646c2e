"""A small host and GPU that run programs and are profiled: what linking is measured against.

It knows what a real machine knows and a trace does not say: how long launches and gaps between kernels take, which
event a stream waits for. Run at another kernel speed, it says what a what-if must come to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

Json = dict[str, Any]
PID, LAUNCH, LATENCY, GAP, CALL = 100, 5.0, 4.0, 1.0, 1.5     # us: of a launching call, to the GPU, between kernels
CUDA = {"launch": "cudaLaunchKernel", "copy": "cudaMemcpyAsync", "fill": "cudaMemsetAsync", "graph": "cudaGraphLaunch",
        "record": "cudaEventRecord", "wait": "cudaStreamWaitEvent", "stream": "cudaStreamSynchronize",
        "device": "cudaDeviceSynchronize", "event": "cudaEventSynchronize"}
HIP = {key: name.replace("cuda", "hip") for key, name in CUDA.items()} | {"launch": "hipExtModuleLaunchKernel"}


@dataclass
class Machine:
    """Runs on thread `tid`; times in us. `scale` multiplies kernels, `told` adds `cuda_sync` records."""

    scale: float = 1.0
    told: bool = False
    names: dict[str, str] = field(default_factory=lambda: CUDA)
    runtime: str = "cuda_runtime"
    now: float = 1000.0
    tid: int = PID
    events: list[Json] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=list)
    free: dict[int, float] = field(default_factory=dict)          # stream -> end of its last operation
    recorded: dict[str, tuple[int, float, int]] = field(default_factory=dict)   # event -> stream, time, correlation
    blocked: dict[int, float] = field(default_factory=dict)       # stream -> not before
    last: float = 0.0
    _id: int = 1
    _correlation: int = 5000
    _open: list[int] = field(default_factory=lambda: [1])

    def op(self, name: str, body: Callable[[], None] | None = None, *, before: float = 3.0, after: float = 2.0,
           inputs: Sequence[Any] = (), cat: str = "cpu_op", args: Json | None = None) -> None:
        """An operator: `before` us, what is inside, `after` us."""
        self._id += 1
        number = self._id
        self.nodes.append(node(number, name, self._open[-1], number, inputs))
        begin = self.now
        self._open.append(number)
        self.now += before
        if body is not None:
            body()
        self.now += after
        self._open.pop()
        self._event(cat, name, begin, self.now, {"External id": number, "Record function id": number, **(args or {})})

    def host(self, micros: float) -> None:
        """Host time outside operators."""
        self.now += micros

    def launch(self, name: str, micros: float, stream: int = 7, *, cat: str = "kernel", call: str = "launch",
               args: Json | None = None) -> None:
        """A launching call and its kernel."""
        correlation = self._call(self.names[call], LAUNCH)
        self._kernel(name, micros * self.scale, stream, self.now - LAUNCH, correlation, cat, args)

    def graph(self, kernels: Sequence[tuple[str, float]], stream: int = 7) -> None:
        """A CUDA graph of one branch."""
        correlation = self._call(self.names["graph"], LAUNCH)
        begin = self.now - LAUNCH
        for place, (name, micros) in enumerate(kernels):
            self._kernel(name, micros * self.scale, stream, begin, correlation, "kernel", {"graph node id": place + 1})

    def blocking_copy(self, micros: float, stream: int = 7) -> None:
        """A copy to pageable memory: the call returns when it is done."""
        begin = self.now
        self._correlation += 1
        end = self._kernel("Memcpy DtoH (Device -> Pageable)", micros, stream, begin, self._correlation, "gpu_memcpy",
                           None)
        self.now = max(begin + LAUNCH, end + CALL)
        self._runtime(self.names["copy"], begin, self._correlation)

    def poll(self, name: str, micros: float, stream: int, early: float) -> None:
        """A kernel writes a value when a share `early` of it is left; the host reads until it is there, in no call."""
        self.launch(name, micros, stream)
        self.now = max(self.now, self.free[stream] - early * micros * self.scale) + CALL

    def record(self, event: str, stream: int) -> None:
        correlation = self._call(self.names["record"], CALL)
        self.recorded[event] = (stream, self.free.get(stream, 0.0), correlation)

    def wait(self, stream: int, event: str) -> None:
        """`stream` waits for `event`."""
        begin, correlation = self.now, self._call(self.names["wait"], CALL)
        source, at, record = self.recorded[event]
        self.blocked[stream] = max(self.blocked.get(stream, 0.0), at)
        self._sync("Stream Wait Event", begin, correlation, stream, source, record)

    def synchronize(self, what: str, stream: int = 7, event: str = "") -> None:
        """`device`, `stream` or `event`."""
        begin = self.now
        self._correlation += 1
        ends = {"device": max(self.free.values(), default=0.0), "stream": self.free.get(stream, 0.0),
                "event": self.recorded[event][1] if event else 0.0}
        self.now = max(begin + CALL, ends[what] + CALL)
        self._runtime(self.names[what], begin, self._correlation)
        kind = {"device": "Context Sync", "stream": "Stream Sync", "event": "Event Sync"}[what]
        source, record = (self.recorded[event][0], self.recorded[event][2]) if event else (-1, -1)
        self._sync(kind, begin, self._correlation, stream if what == "stream" else -1, source, record)

    def on_thread(self, tid: int, body: Callable[[], None], wake: float = 20.0) -> None:
        """Another thread does the work while this one waits, as autograd's does."""
        mine, opened = self.tid, self._open
        self.now += wake
        self.tid, self._open = tid, [1]
        body()
        self.tid, self._open = mine, opened
        self.now += wake

    # ------------------------------------------------------------ what the profilers write
    def _call(self, name: str, length: float) -> int:
        self._correlation += 1
        begin, self.now = self.now, self.now + length
        self._runtime(name, begin, self._correlation)
        return self._correlation

    def _runtime(self, name: str, begin: float, correlation: int) -> None:
        self._event(self.runtime, name, begin, self.now, {"External id": self._open[-1], "correlation": correlation})

    def _kernel(self, name: str, micros: float, stream: int, launched: float, correlation: int, cat: str,
                args: Json | None) -> float:
        start = max(launched + LAUNCH + LATENCY, self.free.get(stream, 0.0) + GAP, self.blocked.get(stream, 0.0) + GAP)
        self.free[stream] = end = start + micros
        self.last = max(self.last, end)
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": start, "dur": micros,
                            "args": {"External id": self._open[-1], "device": 0, "stream": stream,
                                     "correlation": correlation, **(args or {})}})
        return end

    def _sync(self, kind: str, begin: float, correlation: int, stream: int, source: int, record: int) -> None:
        if self.told:
            args = {"cuda_sync_kind": kind, "stream": stream, "correlation": correlation, "device": 0}
            if record >= 0:
                args |= {"wait_on_stream": source, "wait_on_cuda_event_record_corr_id": record}
            self.events.append({"ph": "X", "cat": "cuda_sync", "name": kind, "pid": 0, "tid": stream, "ts": begin,
                                "dur": self.now - begin, "args": args})

    def _event(self, cat: str, name: str, begin: float, end: float, args: Json) -> None:
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": PID, "tid": self.tid, "ts": begin,
                            "dur": end - begin, "args": args})

    @property
    def span(self) -> float:
        """us from the first event to the last end."""
        return max(e["ts"] + e["dur"] for e in self.events) - min(e["ts"] for e in self.events)

    def host_json(self, schema: str = "1.1.1-chakra.0.0.4") -> bytes:
        root = node(1, "[pytorch|profiler|execution_trace|process]", 1, 0)
        return json.dumps({"schema": schema, "pid": PID, "time": "2024-01-01 00:00:00", "start_ts": 1, "finish_ts": 2,
                           "nodes": [*self.nodes, root]}).encode()

    def device_json(self, **more: Any) -> bytes:
        info = {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 4, "pg_config": [
            {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1, 2, 3]}, {"pg_name": "1", "ranks": [0, 2]}]}}
        return json.dumps({"schemaVersion": 1, **info, **more, "traceEvents": self.events}).encode()


def node(number: int, name: str, parent: int, record: int, inputs: Sequence[Any] = (), tid: int = 1) -> Json:
    """A host node as schema 1.0.2 and later write it."""
    values = {"rf_id": record, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": tid, "fw_tid": 0, "op_schema": ""}
    return {"id": number, "name": name, "ctrl_deps": parent,
            "inputs": {"values": list(inputs), "shapes": [[] for _ in inputs], "types": ["" for _ in inputs]},
            "outputs": {"values": [], "shapes": [], "types": []},
            "attrs": [{"name": key, "type": "uint64", "value": value} for key, value in values.items()]}


# ------------------------------------------------------------ programs
Program = Callable[[Machine], None]
REDUCED = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "Float",
           "Group size": 4, "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3]"}
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def steps(m: Machine, count: int, body: Callable[[], None]) -> None:
    """`body` under the annotations of so many profiler steps."""
    for step in range(count):
        m.op(f"ProfilerStep#{step}", body, cat="user_annotation")


def layers(m: Machine, count: int, name: str, micros: float, **options: Any) -> None:
    """So many operators with a kernel each."""
    for _ in range(count):
        m.op(f"aten::{name}", lambda: m.launch(name, micros), **options)


def small_kernels(m: Machine) -> None:
    """Bound by the host: kernels shorter than their launches."""
    steps(m, 3, lambda: layers(m, 20, "add", 2.0, before=10.0))
    m.synchronize("device")


def large_kernels(m: Machine) -> None:
    """Bound by the GPU: the loss is read back every step."""
    def body() -> None:
        layers(m, 20, "mm", 120.0)
        m.op("aten::item", lambda: m.blocking_copy(2.0))

    steps(m, 3, body)


def no_steps(m: Machine) -> None:
    """The same without any annotation, synchronised by stream and by event."""
    for step in range(3):
        layers(m, 20, "mm", 120.0)
        if step % 2:
            m.synchronize("stream")
        else:
            m.record("done", 7)
            m.synchronize("event", event="done")
        m.host(50.0)


def _reduce(m: Machine, layer: int) -> None:
    m.record(f"ready{layer}", 7)
    m.wait(20, f"ready{layer}")
    m.launch(NCCL, 300.0, 20, args=REDUCED)
    m.record(f"reduced{layer}", 20)


def _backward(m: Machine) -> None:
    for layer in range(12):
        m.op("MmBackward0", lambda: m.launch("sgemm_backward", 90.0))
        if layer % 3 == 2:
            m.op("nccl:all_reduce", partial(_reduce, m, layer), cat="user_annotation")
    m.wait(7, "reduced11")


def two_streams(m: Machine) -> None:
    """Data-parallel training: gradients are reduced on a second stream while backward goes on, on autograd's thread."""
    def body() -> None:
        layers(m, 12, "mm", 40.0)
        m.op("## backward ##", lambda: m.on_thread(200, lambda: _backward(m)), cat="user_annotation")
        m.op("Optimizer.step#SGD.step", lambda: m.launch("sgd", 30.0), cat="user_annotation")

    for _ in range(3):
        steps(m, 1, body)
        m.synchronize("device")


def graphs(m: Machine) -> None:
    """CUDA graphs, with a memory fill before each."""
    for _ in range(4):
        m.op("aten::zero_", lambda: m.launch("Memset (Device)", 2.0, cat="gpu_memset", call="fill"))
        m.graph([(f"fused_{kernel}", 26.0) for kernel in range(30)])
        m.synchronize("stream")


def experts(m: Machine) -> None:
    """Experts on other GPUs: the host polls how many tokens will come, and prepares their dispatch meanwhile."""
    def dispatch(turn: int) -> None:
        m.record(f"gate{turn}", 7)
        m.wait(20, f"gate{turn}")
        m.poll("void deep_ep::internode::notify_dispatch<8>(int)", 80.0, 20, 0.2)
        m.op("aten::empty", before=4.0)
        m.launch("void deep_ep::internode::dispatch<8>(int)", 250.0, 20)
        m.record(f"tokens{turn}", 20)
        m.wait(7, f"tokens{turn}")

    def body() -> None:
        for turn, deep in enumerate((8, 30, 14)):
            layers(m, deep, "mm", 120.0)
            m.op("dispatch(F)", partial(dispatch, turn), cat="user_annotation")
        layers(m, 10, "mm", 120.0)
        m.op("aten::item", lambda: m.blocking_copy(2.0))

    steps(m, 2, body)


PROGRAMS = {program.__name__: program
            for program in (small_kernels, large_kernels, no_steps, two_streams, graphs, experts)}


def run(program: Program, **options: Any) -> Machine:
    """The machine after it has run a program."""
    machine = Machine(**options)
    program(machine)
    return machine
