"""RMSNorm of separate operators in fp32, as models write it: float, pow, mean, rsqrt, mul, type_as, mul by the weight.

Hugging Face's LlamaRMSNorm and torchtitan's RMSNorm of 2024 are this. Backward keeps the input in fp32 and the
normalised rows in 16 bits, where one kernel keeps the input alone. Kernels over one number a row (mean's division,
rsqrt) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from astrarium.workload.graph.ir import Op, Use
from astrarium.workload.graph.torch_rotary import WIDE, Kernels, kernel

__all__ = ["BACKWARD", "FORWARD", "in_operators"]

CORE, SCALE = "rms_core", "scale"       # streams of the operators that are made here


def in_operators(op: Op, stays: bool) -> list[Op]:
    """A norm in three: to fp32, what normalises, and the product with the weight. `stays`: its input is in fp32, and so
    is its result."""
    x, weight = op.inputs[:2]
    if stays:
        rows = Use(f"{op.name}_rows{WIDE}", x.dims)
        return [op._replace(name=f"{op.name}_core", outputs=(rows,), inputs=(x,), factor=op.factor - 1, stream=CORE),
                op._replace(inputs=(rows, weight), factor=1.0, stream=SCALE)]
    wide, rows = Use(f"{op.name}{WIDE}", x.dims), Use(f"{op.name}_rows", x.dims)
    return [op._replace(name=f"{op.name}_to_fp32", inputs=(x,), outputs=(wide,), factor=0.0, saves="nothing",
                        stream="to_fp32"),
            op._replace(name=f"{op.name}_core", inputs=(wide,), outputs=(rows,), factor=op.factor - 1, stream=CORE),
            op._replace(inputs=(rows, weight), factor=1.0, stream=SCALE)]


def _core(op: Op) -> tuple[Op, ...]:
    wide, rows = op.inputs[0], op.outputs[0]
    square, done, scale = (Use(f"{op.name}.{name}{WIDE}", wide.dims) for name in ("square", "done", "scale"))
    one, stays = scale._replace(dims=wide.dims[:-1]), rows.tensor.endswith(WIDE)
    found = (kernel(op, "pow", (wide,), (square,), "mul"), kernel(op, "mean", (square,), (one,), "sum_rows"),
             kernel(op, "mul", (wide, one), (rows if stays else done,), "mul"))
    return found if stays else (*found, kernel(op, "to_bf16", (done,), (rows,), "to_bf16", 0.0))


def _core_back(op: Op) -> tuple[Op, ...]:
    """d x = d y r + 2 x (mean's and rsqrt's gradient of d y x), in fp32."""
    dy, x = op.inputs[0], op.inputs[1]
    dx = op.outputs[0]
    names = "dy", "first", "product", "power", "twice", "second", "scale"
    given, first, product, power, twice, second, scale = (Use(f"{op.name}.{each}{WIDE}", x.dims) for each in names)
    one, root = scale._replace(dims=x.dims[:-1]), Use(f"{op.name}.rsqrt{WIDE}", x.dims[:-1])
    cast = () if dy.tensor.endswith(WIDE) else (kernel(op, "to_fp32", (dy,), (given,), "to_fp32", 0.0),)
    given = given if cast else dy
    return (*cast, kernel(op, "mul", (given, root), (first,), "mul"),
            kernel(op, "mul", (given, x), (product,), "mul"), kernel(op, "sum", (product,), (one,), "sum_rows"),
            kernel(op, "pow", (x,), (power,), "mul"), kernel(op, "mul", (power,), (twice,), "mul"),
            kernel(op, "mul", (twice, one), (second,), "mul"), kernel(op, "add", (first, second), (dx,), "add"))


def _scaled(op: Op) -> tuple[Op, ...]:
    return (op._replace(stream="mul"),)


def _scaled_back(op: Op) -> tuple[Op, ...]:
    """Products with the weight and with the rows; the weight's gradient is a sum over rows."""
    dy, rows = op.inputs[0], op.inputs[1]
    weight = next((use for use in op.inputs if len(use.dims) == 1), None)
    made = {use.tensor: use for use in op.outputs}
    found = [kernel(op, "mul", (dy, *([weight] if weight else [])), (made[f"d.{rows.tensor}"],), "mul")]
    gradient = next((use for use in op.outputs if len(use.dims) == 1), None)
    if gradient is not None:
        product = Use(f"{op.name}.product", rows.dims)
        found += [kernel(op, "mul", (dy, rows), (product,), "mul"),
                  kernel(op, "sum", (product,), (gradient,), "sum_rows")]
    return tuple(found)


FORWARD: Mapping[str, Kernels] = MappingProxyType({CORE: _core, SCALE: _scaled})
BACKWARD: Mapping[str, Kernels] = MappingProxyType({CORE: _core_back, SCALE: _scaled_back})
"""Stream -> kernels of its gradient."""
