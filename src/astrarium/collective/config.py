"""The `collective` section: which algorithm runs each operation on each dim, and how payloads are cut."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from astrarium.collective.engines import ENGINES, FASTEST, NCCL, VLLM_FUSED
from astrarium.config import Config, Knob, Problem, default
from astrarium.gpu.kernels.settings import KernelTimes
from astrarium.registry import Kind, load, names
from astrarium.units import Time
from astrarium.vocab import CommOp

__all__ = ["Collective", "Custom", "active_chunks_of", "algorithms_of", "chunks_of", "composition_of",
           "default_algorithm", "parse_algorithm"]

_ENTRY = re.compile(r"([a-z_]+)(?::([1-9][0-9]{0,8}))?")


class _Algorithms:
    """The legal entries: a registered name, `direct:K`, `nvls:K` and `sharp:K`."""

    def names(self) -> tuple[str, ...]:
        return names("algorithm")

    def load(self, name: str) -> Any:
        return load("algorithm", parse_algorithm(name)[0])

    def __contains__(self, entry: object) -> bool:
        match = _ENTRY.fullmatch(entry) if isinstance(entry, str) else None
        return match is not None and match[1] in Kind("algorithm") and (
            match[2] is None or match[1] in ("direct", "nvls", "sharp"))


class _Libraries:
    """NCCL, the engines, these with a version ("vllm/0.24.0"), and the fastest of all."""

    def names(self) -> tuple[str, ...]:
        return (NCCL, *ENGINES, VLLM_FUSED, FASTEST)

    def load(self, name: str) -> Any:
        return name

    def __contains__(self, entry: object) -> bool:
        name, slash, version = str(entry).partition("/")
        return name in (*ENGINES, VLLM_FUSED) and bool(version) if slash else name in self.names()


PerDim = Annotated[Sequence[str], Knob("Algorithm per dim, innermost first; one entry serves every dim; none: as "
                                       "`choice` says. `direct:K` keeps at most K messages in flight; `nvls:K` and "
                                       "`sharp:K` pass in K rounds.",
                                       choices=_Algorithms())]
File = Annotated[str | None, Knob("Custom algorithm: prefix of Chakra traces (one per participant), or MSCCL XML.",
                                  file=True)]

_BY_SHAPE = {"ring": "ring", "mesh": "ring", "switch": "direct", "fully_connected": "direct",
             "hypercube": "halving_doubling"}
_ON_A_LINE = {"all_reduce": "halving_doubling", "all_gather": "halving_doubling", "reduce_scatter": "halving_doubling",
              "all_to_all": "direct"}      # a mesh has no way round: a ring on it sends back over the whole line


class Custom(Config, frozen=True, kw_only=True):
    """Custom algorithms, which take the place of `Collective`'s choice for an operation."""

    all_reduce: File = None
    all_gather: File = None
    reduce_scatter: File = None
    all_to_all: File = None
    broadcast: File = None
    reduce: File = None
    gather: File = None
    scatter: File = None
    barrier: File = None


def parse_algorithm(entry: str) -> tuple[str, int]:
    """`direct:7` -> ("direct", 7); without a number -1, which is all messages at once."""
    name, _, window = entry.partition(":")
    return name, int(window) if window else -1


def _window(collective: Collective) -> Iterator[Problem]:
    if collective.composition == "themis" and (collective.active_chunks or 0) > 1:
        yield Problem("active_chunks", f"{collective.active_chunks} with composition themis, whose order fixed "
                      "beforehand has one chunk in each dim", "1, or 0 for all chunks as they come")


Exchange = Literal["all_to_all", "deepep", "deepep_low_latency", "nvlink_one_sided", "nvlink_two_sided"]
OPERATIONS = tuple(op.name.lower() for op in CommOp if op != CommOp.REDUCE_SCATTER_BLOCK)


def _timed(collective: Collective) -> Iterator[Problem]:
    """Where a timer says how long collectives take, there is nothing to choose."""
    for name in ("library", "exchange"):
        if (said := getattr(collective, name)) not in (None, NCCL) and collective.model != "measured":
            yield Problem(name, f"{said} with model {collective.model}: its times are measured",
                          "nothing, or model: measured")
    if collective.model == "simulated":
        return
    for name in (*OPERATIONS, "composition", "chunks", "active_chunks"):
        if getattr(collective, name):
            yield Problem(name, f"has no effect with model {collective.model}, which sends no messages",
                          "model: simulated, or nothing here")


class Collective(Config, frozen=True, kw_only=True):
    """Algorithms per operation and dim, chunking, and how the dims work together."""

    rules = (_window, _timed)
    all_reduce: PerDim = ()
    all_gather: PerDim = ()
    reduce_scatter: PerDim = ()
    all_to_all: PerDim = ()
    broadcast: PerDim = ()
    reduce: PerDim = ()
    gather: PerDim = ()
    scatter: PerDim = ()
    barrier: PerDim = ()
    model: Annotated[str, Knob("Where a collective's time comes from. simulated: its messages on the network; "
                               "measured: tables of the fabrics that the dims name, from the coming of the last "
                               "member, whatever else the network carries.", choices=Kind("timer"))] = "simulated"
    library: Annotated[str, Knob("Whose all_reduces inside a host the measured ones are, in CUDA graphs: a serving "
                                 "engine's, by version (`vllm/0.24.0`: the newest measured one that is not newer; "
                                 "without a version the newest), or of all the fastest. vllm_fused: vLLM's, and up to "
                                 "a size those that it fuses with the norm. Other operations are NCCL's.",
                                 choices=_Libraries())] = NCCL
    exchange: Annotated[Exchange | None, Knob("Whose kernels the measured all_to_alls are: NCCL's (all_to_all), or "
                                              "those that exchange tokens of experts, DeepEP's or TensorRT-LLM's in a "
                                              "rack (nvlink_*); one of those takes half of a dispatch and a combine. "
                                              "Left out: those of the workload's `exchange`.")] = None
    kernels: Annotated[KernelTimes | None, Knob("Operations that run as GPU kernels inside the innermost dim (groups "
                                                "there, and phases there of groups over several dims), simulated cache "
                                                "line by cache line, alone.")] = None
    custom: Annotated[Custom, Knob("Algorithms read from files.")] = Custom()
    choice: Annotated[str, Knob("Who chooses what is left out of algorithms, composition and chunks. auto: the best by "
                                "an estimate, for each operation, size and group; none: algorithms by the dims' "
                                "shapes, baseline, 1 chunk; a plug-in's name: it picks algorithms.",
                                choices=Kind("choice"))] = "auto"
    composition: Annotated[str | None, Knob("How a collective over several dims is put together; left out: as `choice` "
                                            "says (ASTRA-sim's rules: baseline).", choices=Kind("composition"))] = None
    chunks: Annotated[int | None, Knob("Pieces into which a payload is cut, so that dims work at the same time; left "
                                       "out: as `choice` says (ASTRA-sim's rules: 1).", ge=1)] = None
    active_chunks: Annotated[int | None, Knob("Chunks in flight in one phase of one participant; 0: no limit; left "
                                              "out: 1, with themis 0. With themis 1 is one chunk in each dim, in an "
                                              "order fixed beforehand, and no more than 1 is possible.",
                                              ge=0, lt=2**30)] = None
    pipeline: Annotated[int, Knob("Blocks in which trees and chains send their payload.", ge=1)] = 8
    scheduling: Annotated[str, Knob("Which waiting collective goes first.", choices=Kind("scheduling"))] = "lifo"
    endpoint_delay: Annotated[Time, Knob("Time at an NPU before the first messages of a phase of a collective, and "
                                         "after each message that arrives in it, before what it lets go on goes on.")
                              ] = default("0 ns")


def active_chunks_of(collective: Collective) -> int:
    """Chunks that one participant may have in one phase, with themis in one dim; 0: all."""
    if collective.active_chunks is None:
        return 0 if collective.composition == "themis" else 1
    return collective.active_chunks


def composition_of(collective: Collective) -> str:
    """The default composition."""
    return collective.composition or "baseline"


def chunks_of(collective: Collective) -> int:
    """The default number of chunks."""
    return collective.chunks or 1


def default_algorithm(shape: str, op: str) -> str:
    """The algorithm of `op` on a dim for which nothing was chosen, by its shape's name."""
    return _ON_A_LINE.get(op, _BY_SHAPE[shape]) if shape == "mesh" else _BY_SHAPE[shape]


def algorithms_of(collective: Collective, op: str, shapes: Sequence[str]) -> tuple[str, ...]:
    """The entry of `op` for each dim (`shapes`: their names, innermost first), as the native rules read the lists."""
    entries = tuple(getattr(collective, op))
    if not entries:
        return tuple(default_algorithm(shape, op) for shape in shapes)
    return entries * len(shapes) if len(entries) == 1 else entries
