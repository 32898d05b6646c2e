"""What a framework's job runs on, and what it can be changed to: a software stack of the catalog, parts of layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from astrarium.compute import kernels
from astrarium.cost.interval import FEWEST, validated_stack
from astrarium.planner.launch.given import Launch

__all__ = ["as_framework", "needs", "stack_of_framework"]


class Runs(Struct, frozen=True):
    """Current stacks of a framework, the best first; `lacks`: a remark about them for the answer, if any; `sharded`:
    what ZeRO 2 and 3 need."""

    stacks: tuple[str, ...]
    lacks: str = ""
    sharded: str = ""


FRAMEWORKS: Mapping[str, Runs] = MappingProxyType({
    "torchtitan": Runs(("fsdp",)),
    "nemo": Runs(("nemo",), sharded="another framework: NeMo 1 shards the optimizer at most"),
    "megatron-lm": Runs(("nemo", "megatron-core"), "Megatron core as NeMo runs it",
                        "Megatron FSDP (--use-megatron-fsdp; --launch megatron prints all arguments)"),
    "deepspeed": Runs(("fsdp",), "fsdp is eager PyTorch, too, but has neither DeepSpeed's kernels nor its buckets, and "
                                 "its interval is not DeepSpeed's; --stack deepspeed and deepspeed-3 have its buffers "
                                 "and no measured rows")})


def needs(framework: str, zero: int) -> str:
    """What a layout with a stage of ZeRO needs in a framework; nothing if every launch has it."""
    return FRAMEWORKS[framework].sharded if zero >= 2 and framework in FRAMEWORKS else ""


def as_framework(launch: Launch, devices: Sequence[str], compute: str | None, collectives: str | None,
                 stack: str | None, fixed: Mapping[str, Sequence[Any]]
                 ) -> tuple[Launch, str, dict[str, Sequence[Any]]]:
    """(the launch with what is assumed, its stack or "none", the only values of parts of a layout): what the caller
    says, else what the framework has."""
    theirs = {part: values for part, values in launch.fixed.items() if part not in fixed}
    said = tuple(f"{part} {', '.join(map(str, values))}: what {launch.framework} has (to change: --fix {part}=...)"
                 for part, values in theirs.items())
    if stack is None:
        named, about = stack_of_framework(launch.framework, devices, compute, collectives)
        stack, said = named or "none", (*about, *said)
    return replace(launch, assumed=(*said, *launch.assumed)), stack, {**theirs, **fixed}


def stack_of_framework(framework: str, devices: Sequence[str], compute: str | None, collectives: str | None
                       ) -> tuple[str | None, tuple[str, ...]]:
    """(the framework's stack that is validated on the first device that has one, else its first; what to say of it).
    None where times are not measured: constants of stacks are factors of measured times."""
    measured = bool(devices) and kernels.named(devices[0]) is not None
    if not measured or any(named not in (None, "measured") for named in (compute, collectives)):
        return None, (f"no stack of {framework}: times are not measured",)
    runs = FRAMEWORKS[framework]
    every = (validated_stack(device, runs.stacks) for device in devices)
    found = next((each for each in every if each is not None), None)
    name = found or runs.stacks[0]
    said = f"stack {name}, as the file is {framework}'s" + (f": {runs.lacks}" if runs.lacks else "")
    return name, (said if found else f"{said}; no stack of {framework} has {FEWEST} unseen measured rows on "
                                     f"{', '.join(devices)}",)
