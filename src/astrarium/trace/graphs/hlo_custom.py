"""Custom calls of JAX that have a known cost; any other is refused by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from astrarium.errors import UnsupportedError, nearest
from astrarium.trace.graphs.hlo_text import Operation
from astrarium.trace.graphs.nodes import Tensor

__all__ = ["custom_flops", "only_marks"]

_TARGET = re.compile(r'(?:^\s*@|call_target_name\s*=\s*")([\w.$@-]+)')
NOTHING = frozenset({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement",
                     "LayoutConstraint", "MoveToHost", "MoveToDevice"})
"""Annotations of the compiler: a value is only marked."""


def _square(tensor: Tensor) -> tuple[int, int, int]:
    """(matrices, rows, columns) of a batch of matrices."""
    rows, columns = tensor.shape[-2:] if len(tensor.shape) > 1 else (1, tensor.elements)
    return tensor.elements // max(rows * columns, 1), rows, columns


def _cholesky(inputs: Sequence[Tensor]) -> int:
    count, n, _ = _square(inputs[0])
    return count * n**3 // 3


def _lu(inputs: Sequence[Tensor]) -> int:
    count, m, n = _square(inputs[0])
    return count * min(m, n)**2 * (3 * max(m, n) - min(m, n)) // 3


def _qr(inputs: Sequence[Tensor]) -> int:
    return 2 * _lu(inputs)


def _triangular(inputs: Sequence[Tensor]) -> int:
    """The triangle's side times the elements of the right-hand sides."""
    return _square(inputs[0])[1] * inputs[1].elements if len(inputs) > 1 else 0


_COSTS: Mapping[str, Callable[[Sequence[Tensor]], int | None]] = MappingProxyType({
    r"(lapack|cusolver|hipsolver)_[sdcz]?potrf(_ffi)?": _cholesky,
    r"(lapack|cusolver|hipsolver|cublas|hipblas)_[sdcz]?getrf(_batched)?(_ffi)?": _lu,
    r"(lapack|cusolver|hipsolver|cublas|hipblas)_[sdcz]?geqrf(_batched)?(_ffi)?": _qr,
    r"(lapack|cublas|hipblas)_[sdcz]?trsm(_batched)?(_ffi)?": _triangular,
    r"(cu|hip)_threefry2x32(_ffi)?": lambda inputs: None,
    r"(mhlo\.)?topk|TopK|ApproxTopK|PartialReduce|(cu|hip)_lu_pivots_to_permutation(_ffi)?": lambda inputs: 0})
"""Pattern of a target's name -> its FLOPs from its inputs; None: one per element; 0: only bytes. Counts of LAPACK
Working Note 41, leading terms; complex numbers take four times as many."""


def _target(operation: Operation) -> str:
    """The name of what is called, empty where the text does not say."""
    found = _TARGET.search(operation.text)
    return found[1] if found else ""


def only_marks(operation: Operation) -> bool:
    """Whether a custom call passes a value on and tells the compiler something about it."""
    target = _target(operation)
    return target in NOTHING or target.startswith("xla.sdy.")


def custom_flops(operation: Operation, inputs: Sequence[Tensor], place: str) -> int | None:
    """FLOPs of a custom call, None for one per element. UnsupportedError with the target's name where its cost is not
    known here."""
    target = _target(operation)
    for pattern, cost in _COSTS.items():
        if re.fullmatch(pattern, target) and inputs:
            flops = cost(inputs)
            return 4 * flops if flops and inputs[0].dtype.startswith("complex") else flops
    raise UnsupportedError(place, f"operation stablehlo.custom_call @{target}", expected="a target whose cost is "
                           "known: annotations, potrf, getrf, geqrf, trsm, threefry2x32, top-k",
                           did_you_mean=nearest(target, NOTHING))
