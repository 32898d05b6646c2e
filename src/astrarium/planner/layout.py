"""A layout: how a training step is divided over NPUs, and every layout that a job allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.planner.job import Job
from astrarium.search import Space

__all__ = ["Layout", "layouts", "workload_fields"]

Recompute = Literal["none", "selective", "operators", "full"]
MICRO_BATCHES = (1, 2, 4, 8)
SHORTEST = 1024         # tokens of a sample that a context-parallel rank has at least
MOST_CP = 16
LONG = 32768            # tokens of a sample beyond which cp leaves the host


class Layout(Struct, frozen=True, order=True):
    """One parallelisation; ranks = tp * cp * pp * dp, ep is a part of dp. `tp_sequence` is Megatron's sequence
    parallelism; `virtual_stages` above 1 means interleaved 1F1B."""

    tp: int = 1
    cp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    zero: int = 0
    micro_batch: int = 1
    recompute: Recompute = "none"
    virtual_stages: int = 1
    tp_sequence: bool = False

    def __str__(self) -> str:
        """`tp 8 sp, pp 4 x 5, dp 16, mb 1, zero 1, recompute selective`: what is 1, 0 or none is left out."""
        said = [f"tp {self.tp}" + (" sp" if self.tp_sequence else "")] if self.tp > 1 else []
        said += [f"cp {self.cp}"] if self.cp > 1 else []
        said += [f"pp {self.pp}" + (f" x {self.virtual_stages}" if self.virtual_stages > 1 else "")] \
            if self.pp > 1 else []
        said += [f"dp {self.dp}"] + ([f"ep {self.ep}"] if self.ep > 1 else [])
        said += [f"mb {self.micro_batch}"] + ([f"zero {self.zero}"] if self.zero else [])
        return ", ".join(said + ([f"recompute {self.recompute}"] if self.recompute != "none" else []))

    @property
    def ranks(self) -> int:
        """NPUs that it needs."""
        return self.tp * self.cp * self.pp * self.dp

    @property
    def parts(self) -> int:
        """Parts that the model is divided into."""
        return self.pp * self.virtual_stages

    @property
    def plain(self) -> dict[str, Any]:
        """Name -> value."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


def workload_fields(layout: Layout) -> dict[str, Any]:
    """Fields of a Transformer that say the layout."""
    return {**layout.plain, "schedule": "interleaved" if layout.virtual_stages > 1 else "1f1b"}


def _divisors(number: int, most: int | None = None) -> list[int]:
    return [each for each in range(1, min(number, most or number) + 1) if number % each == 0]


def _choices(job: Job, npus: int, host: int, fixed: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Values of every knob, from the sizes of the job alone; `fixed` ones are as the caller says."""
    layers, experts = job.layers, job.experts
    found: dict[str, Sequence[Any]] = {
        "tp": _divisors(npus, host), "pp": _divisors(npus, layers),
        "cp": _divisors(npus, max(1, min(MOST_CP, job.seq // SHORTEST))), "dp": _divisors(npus),
        "ep": [each for each in _divisors(experts) if npus % each == 0] if experts else [1],
        "zero": [0, 1, 2, 3], "micro_batch": [each for each in MICRO_BATCHES if each <= job.global_batch],
        "recompute": ["none", "selective", "full"], "virtual_stages": _divisors(layers, layers // 2 or 1),
        "tp_sequence": [False, True]}
    for name, values in fixed.items():
        if name not in found:
            raise InputError(name, "is no part of a layout", expected="one of " + ", ".join(found))
        found[name] = values
    return found


RULES = (
    "workload.tp > 1 or not workload.tp_sequence",
    "workload.dp * workload.cp > 1 or workload.zero == 0",
    "workload.pp == 1 or workload.zero <= 1",
    "(workload.schedule == 'interleaved') == (workload.virtual_stages > 1)",
)


def layouts(job: Job, npus: int, host: int, fixed: Mapping[str, Sequence[Any]] | None = None) -> Iterator[Layout]:
    """Every layout of `npus` NPUs, `host` of them in a host, that the rules of the workload allow.

    tp stays within a host, and so does tp * cp where samples have at most 32,768 tokens. cp leaves a rank at least
    1,024 tokens and is at most 16. ZeRO 2 and 3 go without stages: they reduce the gradients of every micro-batch
    (DeepSpeed's pipeline engine refuses them). Parts of the model have equally
    many layers, where the embedding and the head may count as one each (Megatron-LM's
    --account-for-embedding-in-pipeline-split). `fixed`: knob -> its only values. Raises InputError where the rules
    leave nothing.
    """
    chosen = _choices(job, npus, host, fixed or {})
    every = f"workload.tp * workload.cp * workload.pp * workload.dp == {npus}"
    inside = f"workload.tp * workload.cp <= {host}" if job.seq <= LONG else "true"
    space = Space(job.unplaced, {**{f"workload.{name}": list(values) for name, values in chosen.items()},
                                 "workload.schedule": ["1f1b", "interleaved"]}, (every, inside, *RULES))
    names = [axis.name.removeprefix("workload.") for axis in space.axes]
    for point in space.points():
        values = dict(zip(names, space.numbers(point)))
        del values["schedule"]
        if job.even(values["pp"] * values["virtual_stages"]):
            yield Layout(**values)
