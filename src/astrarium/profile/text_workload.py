"""ASTRA-sim 1.0's text workloads: one line per layer, and how its training loop is parallelised.

The ten loops are those of ASTRA-sim 1.0's Workload.cc (`iterate_*`): compute is one chain; collectives of the forward
pass are waited for, those of gradients run in parallel.

Files of AICB (github.com/aliyun/aicb at 23eec3c, SimAI_training_workload_generator.py and
SimAI_inference_workload_generator.py) say more in the first line: `ep: pp: vpp: ga: all_gpus: pp_comm:`. Their
collectives may be of another group than their pass's: SimAI (github.com/aliyun/SimAI at cef83f9d, Workload.cc) takes
`ALLTOALL_EP` over the ranks that share experts, `REDUCESCATTER_DP_EP` over the replicas of an expert.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from astrarium.errors import InputError, nearest
from astrarium.vocab import CommOp

__all__ = ["LOOPS", "Aicb", "Layer", "Loop", "Pass", "TextWorkload", "parse_text", "read_text"]

OPS: Mapping[str, CommOp | None] = MappingProxyType({
    "NONE": None, "ALLREDUCE": CommOp.ALL_REDUCE, "ALLGATHER": CommOp.ALL_GATHER,
    "REDUCESCATTER": CommOp.REDUCE_SCATTER, "ALLTOALL": CommOp.ALL_TO_ALL, "BROADCAST": CommOp.BROADCAST})
WAYS: Mapping[str, str] = MappingProxyType({"_DP_EP": "replicas", "_EP": "experts"})
"""Ending of an operation -> its group, whatever the pass."""
MOST_BYTES, MOST = 16 << 20, 1 << 40
HEAD = ("model_parallel_NPU_group", "checkpoints", "checkpoint_initiates")
AICB: Mapping[str, str] = MappingProxyType({
    "ep": "experts", "expert_parallel_npu_group": "experts", "pp": "stages", "all_gpus": "ranks", "ga": "batches",
    "vpp": "parts", "pp_comm": "sent", "mode": "mode"})
"""Key of AICB's first lines -> field of its `Aicb`."""
HEADER = "name, -1, then time, operation and bytes of forward, input gradient and weight gradient, and the update time"


class Loop(Struct, frozen=True):
    """How a keyword runs its layers.

    Over `forward` the collectives of forward and of input gradients run, over `weight` those of weight gradients:
    `all` ranks, the `inner` groups of neighbours, the `outer` groups across them, or none. `weight_first`: weight
    before input gradients. `first_too`: the first layer's input gradient is sent too.
    """

    forward: str = ""
    weight: str = ""
    weight_first: bool = False
    first_too: bool = False


LOOPS: Mapping[str, Loop] = MappingProxyType({
    "MICRO": Loop(weight="all"),
    "DATA": Loop(weight="all", weight_first=True),
    "MODEL": Loop(forward="all"),
    "HYBRID_DATA_MODEL": Loop(forward="inner", weight="outer"),
    "HYBRID_MODEL_DATA": Loop(forward="outer", weight="inner"),
    "HYBRID_TRANSFORMER": Loop(forward="inner", weight="outer", first_too=True),
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": Loop(forward="inner", weight="outer", first_too=True),
    "HYBRID_CUSTOMIZED": Loop(),
    "HYBRID_DLRM": Loop(weight="all", weight_first=True),
    "HYBRID_DLRM_ENHANCED": Loop(weight="all", weight_first=True),
})
"""Keyword of the first line -> its training loop."""


class Pass(Struct, frozen=True):
    """Time as the file counts it, and a collective of `size` bytes (None: none). `over`: its group where the operation
    says it (experts, replicas)."""

    time: int
    op: CommOp | None
    size: int
    over: str = ""


class Aicb(Struct, frozen=True):
    """What AICB's first line says besides: ranks that share experts, pipeline stages, all ranks; micro-batches, parts
    of a stage and bytes between stages, which no trace has; mode 1: inference."""

    experts: int = 1
    stages: int = 1
    ranks: int | None = None
    batches: int = 1
    parts: int = 1
    sent: int = 0
    mode: int = 0


class Layer(Struct, frozen=True):
    """One line. `keyword`: whose groups its collectives use (HYBRID_CUSTOMIZED: its own)."""

    name: str
    forward: Pass
    inputs: Pass
    weights: Pass
    keyword: str


class TextWorkload(Struct, frozen=True):
    """A file. `inner`: ranks of a model-parallel group, where the file says so; `last_bottom`: the layer after which
    HYBRID_DLRM waits for the embeddings; `checkpoints`: layers whose input is kept, from which backward of `restarts`
    computes forward again.
    """

    keyword: str
    layers: tuple[Layer, ...]
    inner: int | None = None
    last_bottom: int = -1
    checkpoints: tuple[int, ...] = ()
    restarts: tuple[int, ...] = ()
    aicb: Aicb | None = None


def read_text(path: str | os.PathLike[str]) -> TextWorkload:
    """Reads a file. Raises InputError with path and line."""
    where = os.fspath(path)
    try:
        with open(where, encoding="utf-8") as file:
            text = file.read(MOST_BYTES + 1)
    except UnicodeDecodeError:
        raise InputError(where, "is no text", expected="a text workload of ASTRA-sim 1.0, in UTF-8") from None
    except (OSError, ValueError) as error:
        raise InputError(where, f"cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if len(text) > MOST_BYTES:
        raise InputError(where, f"is longer than {MOST_BYTES} characters", expected="a text workload")
    return parse_text(text, where)


def parse_text(text: str, where: str = "text workload") -> TextWorkload:
    """The workload of a file's text. Raises InputError with `where` and the line."""
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) < 2:
        raise InputError(where, "has no layers", expected="a keyword, the number of layers, and a line per layer")
    (_, head), (second, count) = lines[:2]
    keyword = head[0]
    if keyword not in LOOPS:
        raise InputError(f"{where}:{lines[0][0]}", f"{keyword[:60]!r} is no parallelisation",
                         expected="one of " + ", ".join(LOOPS), did_you_mean=nearest(keyword, LOOPS))
    layers = tuple(_layer(words, f"{where}:{number}", keyword) for number, words in lines[2:])
    announced = _number(" ".join(count), f"{where}:{second}", "the number of layers")
    if announced != len(layers):
        raise InputError(f"{where}:{second}", f"{announced} layers", expected=f"{len(layers)}, as follow")
    return _checked(_head(TextWorkload(keyword, layers), head[1:], f"{where}:{lines[0][0]}"), where)


def _head(work: TextWorkload, words: Sequence[str], where: str) -> TextWorkload:
    """With the words after the keyword: the last bottom layer, or `model_parallel_NPU_group: 4 checkpoints: 2 2 11
    checkpoint_initiates: 2 19 10`, where a list begins with its length."""
    if work.keyword.startswith("HYBRID_DLRM"):
        if len(words) != 1:
            raise InputError(where, "the last bottom layer is missing", expected=f"{work.keyword} NUMBER")
        return replace(work, last_bottom=_number(words[0], where, "the last bottom layer"))
    rest = iter(words)
    for word in rest:
        key = word.rstrip(":")
        if key == "model_parallel_NPU_group":
            work = replace(work, inner=_number(next(rest, ""), where, key))
        elif key == "checkpoints":
            work = replace(work, checkpoints=tuple(_listed(rest, where, key)))
        elif key == "checkpoint_initiates":
            work = replace(work, restarts=tuple(_listed(rest, where, key)))
        elif key in AICB:
            value = next(rest, "")
            number = _number(value.removesuffix(".0"), where, key)
            work = replace(work, aicb=replace(work.aicb or Aicb(), **{AICB[key]: number}))
        else:
            raise InputError(where, f"{word[:60]!r} is not known", expected="one of " + ", ".join((*HEAD, *AICB)),
                             did_you_mean=nearest(key, (*HEAD, *AICB)))
    for name in ("experts", "stages", "ranks"):
        if work.aicb is not None and getattr(work.aicb, name) == 0:
            raise InputError(where, f"{name}: 0", expected="a number above 0")
    return work


def _listed(rest: Iterator[str], where: str, key: str) -> Iterator[int]:
    for _ in range(_number(next(rest, ""), where, f"how many {key}")):
        yield _number(next(rest, ""), where, key)


def _layer(words: Sequence[str], where: str, keyword: str) -> Layer:
    customized = keyword == "HYBRID_CUSTOMIZED"
    if len(words) != 12 + customized:
        raise InputError(where, f"{len(words)} columns",
                         expected=f"{12 + customized}: {HEADER}" + ", and a keyword" * customized)
    own = words[12] if customized else keyword
    if own not in LOOPS or (customized and LOOPS[own] == Loop()):
        raise InputError(where, f"{own[:60]!r} is no parallelisation of a layer", did_you_mean=nearest(own, LOOPS))
    return Layer(words[0], _part(words[2:5], where, "forward"), _part(words[5:8], where, "input gradient"),
                 _part(words[8:11], where, "weight gradient"), own)


def _part(words: Sequence[str], where: str, what: str) -> Pass:
    time, whole, size = words
    ending = next((each for each in WAYS if whole.endswith(each)), "")
    op = whole.removesuffix(ending)
    if op not in OPS or (ending and OPS[op] is None):
        raise InputError(where, f"{what}: {whole[:60]!r} is no operation",
                         expected="one of " + ", ".join(OPS) + ", perhaps with _EP or _DP_EP",
                         did_you_mean=nearest(op, OPS))
    amount = _number(size, where, f"{what}: bytes")
    return Pass(_number(time, where, f"{what}: time"), OPS[op] if amount else None, amount, WAYS.get(ending, ""))


def _number(word: str, where: str, what: str) -> int:
    if word.isascii() and word.isdigit() and len(word) < 16 and int(word) < MOST:
        return int(word)
    raise InputError(where, f"{what}: {word[:40]!r}", expected=f"a whole number below {MOST}")


def _checked(work: TextWorkload, where: str) -> TextWorkload:
    """Layers that the first line names are there; a restart has a checkpoint before it."""
    layers = len(work.layers)
    for what, numbers in (("checkpoints", work.checkpoints), ("checkpoint_initiates", work.restarts),
                          ("the last bottom layer", (work.last_bottom,))):
        for number in numbers:
            if number >= layers:
                raise InputError(where, f"{what}: there is no layer {number}", expected=f"0 to {layers - 1}")
    for restart in work.restarts:
        if not any(checkpoint < restart for checkpoint in work.checkpoints):
            raise InputError(where, f"checkpoint_initiates: no checkpoint before layer {restart}")
    return work
