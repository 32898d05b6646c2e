"""The `compute` section: how long a compute node takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from astrarium import catalog
from astrarium.config import Config, Knob, default
from astrarium.config.named import Shorthand
from astrarium.config.spec import Variants
from astrarium.errors import InternalError
from astrarium.registry import Kind
from astrarium.units import FlopRate, OptionalPower, OptionalTime, Time

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from astrarium.engine.plugins.compute import ComputeNodes

    I64 = npt.NDArray[np.int64]

__all__ = ["Compute", "InSitu", "Replay", "Roofline", "replays_all"]


class InSitu(Config, frozen=True, kw_only=True):
    """Kernels in a long run: factors on the times of a model, and the time between kernels."""

    gemm: Annotated[float, Knob("Products of matrices (clocks under sustained power, kernels that the stack picks).",
                                gt=0)] = 1.0
    gemm_narrow: Annotated[float, Knob("Those in formats of 8 and 4 bits.", gt=0)] = 1.0
    attention: Annotated[float, Knob("Attention in one kernel, forward.", gt=0)] = 1.0
    attention_backward: Annotated[float, Knob("Its backward pass.", gt=0)] = 1.0
    vector: Annotated[float, Knob("Everything bound by memory.", gt=0)] = 1.0
    launch: Annotated[Time, Knob("Time between two kernels.")] = default("0 ns")


class Compute(Config, frozen=True, kw_only=True):
    """How long a compute node takes."""

    variants: ClassVar[Variants | None] = Kind("compute")
    tag_key: ClassVar[str] = "model"
    shorthand: ClassVar[Shorthand | None] = Shorthand(
        lambda name: {"model": "roofline", **catalog.device(name).compute},
        "a device of the catalog (`astrarium list device`)")
    memory_bound: ClassVar[bool] = False        # needs memory.bandwidth, counts memory.latency
    power: Annotated[OptionalPower, Knob("What one NPU draws while it computes (for the objective energy).")
                     ] = default(None)
    idle_power: Annotated[OptionalPower, Knob("What one NPU draws at all other times (for energy).")] = default(None)
    in_situ: Annotated[InSitu, Knob("What kernels take in a long run of a software stack, over what the model says.")
                       ] = InSitu()
    price: Annotated[float | None, Knob("US dollars of one NPU (for the objective system_cost).", ge=0)] = None

    def durations(self, nodes: ComputeNodes) -> I64:
        """Time of every node, ps [nodes]; see `ComputeModel`."""
        raise InternalError(f"{type(self).__name__} has no durations for {len(nodes)} nodes")


def replays_all(compute: Any) -> bool:
    """Whether communication and memory nodes take their recorded time too."""
    return bool(getattr(compute, "everything", False))


class Replay(Compute, frozen=True):
    """Every node takes the time that its trace recorded."""

    tag: ClassVar[str] = "replay"
    missing: Annotated[OptionalTime, Knob("Time of a node without a recorded one (traces count whole microseconds); "
                                          "left out: such a node is refused.")] = default(None)
    everything: Annotated[bool, Knob("Communication and memory nodes take their recorded time too.")] = False

    def durations(self, nodes: ComputeNodes) -> I64:
        """Recorded times. Raises InputError for a node without one."""
        from astrarium.compute.replay import replayed

        return replayed(nodes, self.missing)


class Roofline(Compute, frozen=True):
    """A node takes its flops at the peak or its bytes at memory bandwidth, the longer; host nodes replay."""

    tag: ClassVar[str] = "roofline"
    memory_bound: ClassVar[bool] = True
    peak: Annotated[FlopRate, Knob("Peak compute rate of one NPU, at the precision of the workload.", gt=0)]
    missing: Annotated[OptionalTime, Knob("Time of a host node without a recorded one; left out: it is refused.")
                       ] = default(None)

    def durations(self, nodes: ComputeNodes) -> I64:
        """Device nodes by the roofline, host nodes by their recorded time. Raises InputError for a host node without
        one, for a device node without flops, and where `memory.bandwidth` is not said."""
        from astrarium.compute.roofline import roofline_of

        return roofline_of(nodes, float(self.peak), self.missing)
