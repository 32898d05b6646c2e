"""Small recorded traces by hand: operators with tensors, kernels on streams, as `trace link` writes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from msgspec.structs import replace

from astrarium.trace import TraceBuilder
from astrarium.trace.node import IOInfo, Metadata, attribute
from astrarium.vocab import CommOp, NodeKind

SOURCE = Path(__file__).resolve().parents[3] / "src"
MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
ADD = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"


def astrarium(*words, cwd):
    """The command line in a process of its own."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run([sys.executable, "-m", "astrarium", *words], cwd=cwd, env=env, capture_output=True, text=True,
                          timeout=300, check=False)


def tensor(storage, *shape, kind="float", width=4, device="cpu", offset=0):
    """(value, shape, type) as the host trace has them."""
    count = 1
    for size in shape:
        count *= size
    return [storage + 1000, storage, offset, count, width, device], list(shape), f"Tensor({kind})"


def info(given):
    """IOInfo of tensors and plain values."""
    three = [each if isinstance(each, tuple) else (each, [], type(each).__name__.capitalize()) for each in given]
    return IOInfo(*(repr([each[place] for each in three]) for place in range(3)))


class Recorded(TraceBuilder):
    """A trace under construction; nodes of a host thread follow each other."""

    def __init__(self):
        super().__init__(kind="profiled")
        self.metadata = Metadata("", (attribute("kind", "profiled"),))
        self._last = []

    def call(self, schema, inputs, outputs=(), *, duration=10, above=(), strides=None):
        """A host operator."""
        attrs = [attribute("is_cpu_op", True), attribute("op_schema", schema)]
        if strides:
            attrs.append(attribute("input_strides", repr(strides)))
        number = self.node(NodeKind.COMP, schema.split("(")[0].split(".")[0], attrs, after=self._last, ctrl=above,
                           duration=duration, inputs=info(inputs))
        self._nodes[-1] = replace(self._nodes[-1], outputs=info(outputs))
        self._last = [number]
        return number

    def kernel(self, name, above, *, stream=7, after=(), duration=20):
        """A kernel that the operator `above` launches."""
        attrs = [attribute("is_cpu_op", False), attribute("stream", stream), attribute("cat", "kernel")]
        return self.node(NodeKind.COMP, name, attrs, after=(above, *after), ctrl=(above,), duration=duration)

    def nccl(self, above, *, stream=20, after=(), size=4096):
        """An all-reduce's kernel."""
        attrs = [attribute("is_cpu_op", False), attribute("stream", stream), attribute("comm_size", size),
                 attribute("comm_type", int(CommOp.ALL_REDUCE))]
        return self.node(NodeKind.COMM_COLL, "ncclDevKernel", attrs, after=(above, *after), ctrl=(above,), duration=30)
