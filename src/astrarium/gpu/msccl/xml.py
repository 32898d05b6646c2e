"""Reading MSCCL algorithm files (XML), safely: no DTD, no entities, bounded size, depth and number of elements.

<algo name coll ngpus nchannels nchunksperloop inplace> <gpu id i_chunks o_chunks s_chunks> <tb id send recv chan>
<step s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep>; offsets and counts are in chunks.
"""

from __future__ import annotations

from xml.parsers import expat

from msgspec import Struct

from astrarium.errors import InputError, nearest
from astrarium.vocab import CommOp

__all__ = ["COLLS", "RECEIVES", "SENDS", "STEP_TYPES", "Algo", "Block", "Gpu", "Step", "check_blocks", "msccl_op",
           "parse_msccl"]

COLLS = {"allreduce": CommOp.ALL_REDUCE, "allgather": CommOp.ALL_GATHER, "alltoall": CommOp.ALL_TO_ALL,
         "reduce_scatter": CommOp.REDUCE_SCATTER, "reducescatter": CommOp.REDUCE_SCATTER, "broadcast": CommOp.BROADCAST,
         "reduce": CommOp.REDUCE, "gather": CommOp.GATHER, "scatter": CommOp.SCATTER}
SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rrc", "rcs", "rrs", "rrcs"})
STEP_TYPES = ("s", "r", "rrc", "rcs", "rrs", "rrcs", "cpy", "re", "nop")
MAX_BYTES = 256 << 20
MAX_STEPS = 4_000_000
_PARENT = {"algo": "", "gpu": "algo", "tb": "gpu", "step": "tb"}


class Step(Struct, frozen=True):
    """One step of a thread block; `depends` is (thread block, step) or None."""

    type: str
    source: tuple[str, int]
    target: tuple[str, int]
    count: int
    depends: tuple[int, int] | None
    line: int


class Block(Struct, frozen=True):
    """A thread block: its peers (-1: none), channel, and steps in order."""

    id: int
    send: int
    recv: int
    channel: int
    steps: tuple[Step, ...]
    line: int


class Gpu(Struct, frozen=True):
    """One GPU: chunks of its input, output and scratch buffers, and its thread blocks."""

    id: int
    chunks: dict[str, int]
    blocks: tuple[Block, ...]


class Algo(Struct, frozen=True):
    """A whole algorithm; `gpus[i]` is GPU i."""

    name: str
    coll: str
    chunks: int
    inplace: bool
    gpus: tuple[Gpu, ...]
    protocol: str = "Simple"


def parse_msccl(text: bytes, *, path: str = "msccl") -> Algo:
    """The algorithm in an MSCCL XML file's bytes. InputError names the file, the line and what is wrong."""
    if len(text) > MAX_BYTES:
        raise InputError(path, f"{len(text)} bytes", expected=f"at most {MAX_BYTES}")
    reader = _Reader(path)
    try:
        reader.parser.Parse(text, True)
    except expat.ExpatError as error:
        raise InputError(path, f"not well-formed XML: {error}") from error
    return reader.result()


def msccl_op(algo: Algo, *, path: str = "msccl") -> CommOp:
    """The operation of an algorithm; InputError when its `coll` is none that is known."""
    if algo.coll not in COLLS:
        raise InputError(path, f"coll={algo.coll!r}", expected="one of " + ", ".join(COLLS),
                         did_you_mean=nearest(algo.coll, COLLS))
    return COLLS[algo.coll]


def check_blocks(gpu: Gpu, path: str) -> None:
    """Peers where steps need them, distinct thread block ids, one sender and one receiver per channel and peer."""
    seen: set[tuple[str, int, int]] = set()
    ids: set[int] = set()
    for block in gpu.blocks:
        if block.id in ids:
            raise InputError(f"{path}:{block.line}", f"GPU {gpu.id} has two thread blocks {block.id}")
        ids.add(block.id)
        for word, peer, kinds in (("send", block.send, SENDS), ("recv", block.recv, RECEIVES)):
            users = [step for step in block.steps if step.type in kinds]
            if users and peer < 0:
                raise InputError(f"{path}:{users[0].line}",
                                 f"a step {users[0].type!r} in a thread block without {word}")
            if users and (word, peer, block.channel) in seen:
                raise InputError(f"{path}:{block.line}", f"two thread blocks of GPU {gpu.id} {word} with GPU {peer} on "
                                 f"channel {block.channel}, so their messages could not be told apart")
            if users:
                seen.add((word, peer, block.channel))


class _Reader:
    """Collects elements as expat meets them; every refusal carries the line."""

    def __init__(self, path: str):
        self.path = path
        self.parser = expat.ParserCreate()
        self.parser.StartDoctypeDeclHandler = self._refuse_dtd
        self.parser.EntityDeclHandler = self._refuse_dtd
        self.parser.ExternalEntityRefHandler = self._refuse_dtd
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.open: list[str] = []
        self.attributes: list[dict[str, str]] = []
        self.lines: list[int] = []
        self.steps: list[Step] = []
        self.blocks: list[Block] = []
        self.gpus: list[Gpu] = []
        self.algo: Algo | None = None
        self.count = 0

    def fail(self, message: str, expected: str | None = None, line: int | None = None,
             did_you_mean: str | None = None) -> InputError:
        where = self.parser.CurrentLineNumber if line is None else line
        return InputError(f"{self.path}:{where}", message, expected=expected, did_you_mean=did_you_mean)

    def _refuse_dtd(self, *_: object) -> int:
        raise self.fail("a document type or entity declaration", "plain elements only")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        parent = self.open[-1] if self.open else ""
        if _PARENT.get(tag) != parent:
            inside = f"inside <{parent}>" if parent else "as the outermost element"
            raise self.fail(f"<{tag}> {inside}", "<algo>, <gpu>, <tb> and <step>, one inside the other",
                            did_you_mean=nearest(tag, _PARENT))
        self.open.append(tag)
        self.attributes.append(attributes)
        self.lines.append(self.parser.CurrentLineNumber)

    def _end(self, tag: str) -> None:
        attributes, line = self.attributes.pop(), self.lines.pop()
        self.open.pop()
        {"step": self._step, "tb": self._block, "gpu": self._gpu, "algo": self._algo}[tag](attributes, line)

    def number(self, attributes: dict[str, str], name: str, line: int, least: int = 0,
               default: int | None = None) -> int:
        """An integer attribute of at least `least` and below 2^31."""
        text = attributes.get(name)
        if text is None:
            if default is not None:
                return default
            raise self.fail(f"no attribute {name!r}", "an integer", line, nearest(name, attributes))
        try:
            value = int(text)
        except ValueError:
            raise self.fail(f"{name}={text!r}", "an integer", line) from None
        if not least <= value < 1 << 31:
            raise self.fail(f"{name}={value}", f"an integer of at least {least}", line)
        return value

    def _step(self, a: dict[str, str], line: int) -> None:
        self.count += 1
        if self.count > MAX_STEPS:
            raise self.fail(f"more than {MAX_STEPS} steps", None, line)
        if self.number(a, "s", line) != len(self.steps):
            raise self.fail(f"step {a['s']} stands at place {len(self.steps)}", "steps in order from 0", line)
        kind = a.get("type", "")
        if kind not in STEP_TYPES:
            raise self.fail(f"step type {kind!r}", "one of " + ", ".join(STEP_TYPES), line, nearest(kind, STEP_TYPES))
        block, at = self.number(a, "depid", line, -1, -1), self.number(a, "deps", line, -1, -1)
        self.steps.append(Step(kind, self._place(a, "src", line), self._place(a, "dst", line),
                               self.number(a, "cnt", line, 0, 0), (block, at) if block >= 0 else None, line))

    def _place(self, a: dict[str, str], end: str, line: int) -> tuple[str, int]:
        buffer = a.get(f"{end}buf", "i")
        if buffer not in ("i", "o", "s"):
            raise self.fail(f"{end}buf={buffer!r}", "i, o or s", line)
        return buffer, self.number(a, f"{end}off", line, -1, -1)

    def _block(self, a: dict[str, str], line: int) -> None:
        self.blocks.append(Block(self.number(a, "id", line), self.number(a, "send", line, -1, -1),
                                 self.number(a, "recv", line, -1, -1), self.number(a, "chan", line, 0, 0),
                                 tuple(self.steps), line))
        self.steps = []

    def _gpu(self, a: dict[str, str], line: int) -> None:
        if self.number(a, "id", line) != len(self.gpus):
            raise self.fail(f"GPU {a['id']} stands at place {len(self.gpus)}", "GPUs in order from 0", line)
        chunks = {buffer: self.number(a, f"{buffer}_chunks", line, 0, 0) for buffer in "ios"}
        self.gpus.append(Gpu(len(self.gpus), chunks, tuple(self.blocks)))
        self.blocks = []

    def _algo(self, a: dict[str, str], line: int) -> None:
        want = self.number(a, "ngpus", line, 1)
        if want != len(self.gpus):
            raise self.fail(f"ngpus={want}, but {len(self.gpus)} <gpu> elements", None, line)
        self.algo = Algo(a.get("name", ""), a.get("coll", ""), self.number(a, "nchunksperloop", line, 1),
                         self.number(a, "inplace", line, 0, 0) != 0, tuple(self.gpus), a.get("proto", "Simple"))

    def result(self) -> Algo:
        if self.algo is None:
            raise self.fail("no <algo> element")
        return self.algo
