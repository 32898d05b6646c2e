"""Gated delta net (arXiv 2412.06464) as operators: it replaces attention in most layers of Qwen3-Next.

Queries, keys and values pass a short causal convolution; inside a chunk all pairs of positions meet, between chunks
only states pass. Heads are sharded over tp. In inference a sequence has one state per value head and the last tokens of
the convolution, in place of a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from astrarium.config import Config, Knob, Problem
from astrarium.errors import UnsupportedError
from astrarium.workload.graph import Options
from astrarium.workload.graph.ir import Cost, Costs, Measures, Op, append, point, scan
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.cached import AttentionBatch, StateFormat, joined, parts_of, state_widths
from astrarium.workload.model.parts import ACTIVATION, INSIDE, NORM, fused, linear

__all__ = ["DeltaNet", "delta_axes", "delta_counts", "delta_ops", "delta_sizes", "delta_widths"]

UPDATE = 7.0        # FLOPs per number of a state and token: decay, S k, its difference from v by k^T added, S q
UNIT = 3.0          # FLOPs per number: a vector divided by its length
KEYS, VALUES, HEADS = "k_heads,k_size", "v_heads,v_size", "v_heads"


def _delta_heads(delta: DeltaNet) -> Iterator[Problem]:
    if delta.value_heads % delta.key_heads:
        yield Problem("value_heads", f"{delta.value_heads} is not a multiple of {delta.key_heads} key_heads",
                      f"a multiple of {delta.key_heads}")


class DeltaNet(Config, frozen=True, kw_only=True):
    """Gated delta net (arXiv 2412.06464): linear attention with a state of key_size x value_size per value head."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_delta_heads,)
    key_heads: Annotated[int, Knob("Query and key heads.", ge=1)]
    key_size: Annotated[int, Knob("Length of a query and a key.", ge=1)]
    value_heads: Annotated[int, Knob("Value heads: a multiple of key_heads.", ge=1)]
    value_size: Annotated[int, Knob("Length of a value.", ge=1)]
    convolution: Annotated[int, Knob("Width of the causal convolution over queries, keys and values.", ge=1)] = 4
    chunk: Annotated[int, Knob("Tokens of a chunk: inside, all pairs; between, the state.", ge=1)] = 64
    state_format: Annotated[StateFormat, Knob("Format of the state in inference.")] = "activations"


def delta_counts(delta_net: DeltaNet, d_model: int) -> tuple[int, int]:
    """Parameters of (matrices, norms) of one layer's delta net."""
    keys, values = delta_net.key_heads * delta_net.key_size, delta_net.value_heads * delta_net.value_size
    matrices = d_model * (2 * keys + 2 * values + 2 * delta_net.value_heads) + values * d_model
    return matrices + delta_net.convolution * (2 * keys + values) + 2 * delta_net.value_heads, delta_net.value_size


def delta_widths(delta_net: DeltaNet, options: Options) -> Mapping[str, str]:
    """Roles of what a sequence keeps: its state, and the last tokens of the convolution."""
    return state_widths(delta_net.state_format, "qkv", options)


def delta_sizes(delta_net: DeltaNet | None, options: Options) -> Mapping[str, Size]:
    """Sizes of the dims of delta nets. Raises UnsupportedError where the sequence is sharded."""
    if delta_net is None:
        return MappingProxyType({})
    for axis in ("sp", "cp"):
        if options.degrees.get(axis, 1) > 1:
            raise UnsupportedError(f"workload.{axis}", "a gated delta net passes a state along the sequence, which is "
                                   "not modelled over ranks", expected="1")
    found: dict[str, Size] = {
        "k_heads": delta_net.key_heads, "k_size": delta_net.key_size, "v_heads": delta_net.value_heads,
        "v_size": delta_net.value_size, "taps": delta_net.convolution, "tail": delta_net.convolution - 1}
    if options.packed is not None:
        found["sequences"] = sum(part.count for part in options.packed.parts)
        found |= {f"sequences{part.dim}": sum(each.count for each in part.step.parts) for part in parts_of(options)}
    return MappingProxyType(found)


def delta_axes() -> Mapping[str, tuple[str, ...]]:
    """Axes of these dims."""
    return MappingProxyType({"k_heads": ("tp",), "v_heads": ("tp",)})


def delta_ops(delta_net: DeltaNet, options: Options, weights: dict[str, str], states: dict[str, str]) -> list[Op]:
    """From the norm's output h to the heads' outputs o[batch,seq,v_heads,v_size]."""
    parts = (("q", KEYS), ("k", KEYS), ("v", VALUES), ("out_gate", VALUES), ("beta", HEADS), ("step", HEADS))
    ops = [linear(name, f"h{INSIDE}", f"d,{dims}", f"{name}[batch,seq,{dims}]", weights, bias=False)
           for name, dims in parts]
    weights |= {f"taps_{name}": f"taps {dims.replace(',', ' ')}" for name, dims in parts[:3]}
    ops += _convolved(delta_net.convolution, options, states, parts[:3])
    for name in "qk":
        ops.append(point(f"unit_{name}", f"{name}c[batch,seq,{KEYS}] -> {name}n[batch,seq,{KEYS}]", UNIT))
    weights |= {"dt_offset": HEADS, "decay": HEADS, "value_scale": "v_size"}
    ops.append(point("gates", f"step[batch,seq,{HEADS}] + beta[batch,seq,{HEADS}] + dt_offset[{HEADS}] + decay[{HEADS}]"
                              f" -> gates[batch,seq,{HEADS}]", 10))
    ops += _mixed(delta_net.chunk, options, states)
    values = f"[batch,seq,{VALUES}]"
    return [*ops, point("gated_norm", f"mixed{values} + out_gate{values} + value_scale[v_size] -> o{values}",
                        NORM["rms"] + ACTIVATION["silu"] + 1)]


def _convolved(taps: int, options: Options, states: dict[str, str], parts: Sequence[tuple[str, str]]) -> list[Op]:
    """Causal convolution and activation of projections; in inference the last tokens are kept, part by part (engines
    run one kernel over queries, keys and values)."""
    flops = 2 * taps + ACTIVATION["silu"]
    if options.packed is None:
        return [point(f"convolution_{name}", f"{name}[batch,seq,{dims}] + taps_{name}[taps,{dims}] -> "
                      f"{name}c[batch,seq,{dims}]", flops) for name, dims in parts]
    ops: list[Op] = []
    states |= {f"tail_{name}": f"batch sequences tail {dims.replace(',', ' ')}" for name, dims in parts}
    for part in parts_of(options):
        made: list[Op] = []
        for name, dims in parts:
            end, rows = f"{name}{part.name}", f"[batch,seq{part.dim},{dims}]"
            kept, tail = (f"{each}[batch,sequences{part.dim},tail,{dims}]" for each in (f"end_{end}", f"tail_{name}"))
            before = "" if part.fresh else f" + {tail}"
            made += [*joined(part, [point(f"convolution_{end}", f"{name}{rows} + taps_{name}[taps,{dims}]{before} -> "
                                          f"{name}c{rows} + {kept}", flops, per=f"{name}c")]),
                     append(f"keep_{end}", f"{kept} -> {tail}")]
        ops += fused(f"convolution{part.name}", made)
    return ops


def _mixed(chunk: int, options: Options, states: dict[str, str]) -> list[Op]:
    """From queries qn, keys kn, values vc and gates to the heads' outputs, by way of the states."""
    if options.packed is None:
        return [scan("delta", f"{' * '.join(_operands('seq'))} -> mixed[batch,seq,{VALUES}]", DELTA, chunk)]
    states["state"] = "batch sequences v_heads k_size v_size"
    return [op for part in parts_of(options) for op in _advanced(chunk, part)]


def _operands(rows: str) -> list[str]:
    """Queries, keys, values and gates of some rows."""
    return [f"{name}[batch,{rows},{dims}]" for name, dims in (("qn", KEYS), ("kn", KEYS), ("vc", VALUES),
                                                              ("gates", HEADS))]


def _advanced(chunk: int, part: AttentionBatch) -> list[Op]:
    """A part's outputs and states: one kernel reads and writes the states of single tokens; others go by chunks."""
    inputs, result = _operands(f"seq{part.dim}"), f"mixed[batch,seq{part.dim},{VALUES}]"
    dims = f"[batch,sequences{part.dim},v_heads,k_size,v_size]"
    state, end = f"state{dims}", f"end{part.name}{dims}"
    if not part.fresh and all(each.new == 1 for each in part.step.parts):
        made = scan(f"update{part.name}", f"{' * '.join([*inputs, state])} -> {result} * {end}", UPDATES)
    else:
        before = [] if part.fresh else [state]
        made = scan(f"delta{part.name}", f"{' * '.join([*inputs, *before])} -> {result} * {end}", CHUNKS, chunk)
    return [*joined(part, [made]), append(f"keep_state{part.name}", f"{end} -> {state}")]


def _delta_products(op: Op, layout: Measures) -> tuple[float, float, float, float]:
    """(tokens times heads, chunk, length of a key, of a value) of q[batch,seq,groups,k], k, v[batch,seq,heads,v]."""
    v = op.inputs[2].dims
    return layout.elements(v[:3]), op.factor, layout.local(op.inputs[1].dims[3]), layout.local(v[3])


def _delta_cost(op: Op, layout: Measures) -> Cost:
    """Per token and head, with C tokens in a chunk: K K^T, its inverse by K and by V, Q K^T and its product with the
    new values inside; the state by W, by Q and its update between (arXiv 2412.06464, section 3.3). Besides the
    triangular inverse (C^2 / 3 multiply-adds) and 4 FLOPs per pair for decays and masks."""
    rows, chunk, key, value = _delta_products(op, layout)
    product = 2.0 * rows * (chunk * (3 * key + 2 * value) + 3 * key * value)
    return Cost(product + rows * (chunk * chunk * 2 / 3 + 4 * chunk), product)


def _delta_backward_cost(op: Op, layout: Measures) -> Cost:
    """Two products for each of forward's, and again the inverse's products and the states, which are not kept."""
    rows, chunk, key, value = _delta_products(op, layout)
    product = 2.0 * rows * (chunk * (7 * key + 5 * value) + 8 * key * value)
    return Cost(product + 2 * rows * (chunk * chunk * 2 / 3 + 4 * chunk), product)


def _update_cost(op: Op, layout: Measures) -> Cost:
    """The cost of single tokens."""
    return Cost(UPDATE * layout.elements(op.outputs[1].dims))


def _delta_shape(op: Op, layout: Measures) -> tuple[float, ...]:
    """(sequences, value heads, tokens of a sequence, length of a key, of a value) of a step of inference."""
    _, sequences, heads, key, value = (layout.local(dim) for dim in op.outputs[1].dims)
    return sequences, heads, layout.local(op.inputs[2].dims[1]) / sequences, key, value


DELTA = Costs(_delta_cost, _delta_backward_cost)
CHUNKS = Costs(_delta_cost, _delta_backward_cost, _delta_shape)
UPDATES = Costs(_update_cost, _delta_backward_cost, _delta_shape)
