"""The mixer of Mamba-2 (arXiv 2405.21060) as operators: what a layer of a Mamba is, and what stands in the place of
attention in most layers of Nemotron-H.

Operators (sections 6 and 7 of the paper): inside a chunk all pairs of positions meet; between chunks only states pass.
Where the sequence is sharded, every rank needs the states with which the ranks before it ended: they are gathered.
Heads are sharded over tp; B and C, which groups of heads share, are, too, where tp divides the groups, else they are on
every rank. The convolution's neighbours across a shard's edge (3 tokens) are left out. In inference a sequence has one
state per head and the last tokens of the convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from astrarium.config import Config, Knob, Problem
from astrarium.errors import UnsupportedError
from astrarium.workload.graph import Options
from astrarium.workload.graph.ir import Cost, Costs, Measures, Op, append, gemm, point, scan
from astrarium.workload.graph.layout import Size
from astrarium.workload.graph.packed import Packed
from astrarium.workload.model.base import Count
from astrarium.workload.model.cached import StateFormat, state_widths
from astrarium.workload.model.parameters import linear_count
from astrarium.workload.model.parts import ACTIVATION, INSIDE, NORM, linear

__all__ = ["MambaMixer", "mamba_axes", "mamba_counts", "mamba_ops", "mamba_sizes", "mamba_widths"]

PAIR = 4.0          # FLOPs per pair of positions and head: difference of decays, exponential, mask, product
UPDATE = 6.0        # FLOPs per number of a state and token: decay, x B added, C times it
POSITION = "[batch,chunks,chunk"
HEADS, GROUPS = f"{POSITION},m_heads,p]", f"{POSITION},groups,n]"


def _groups(mixer: MambaMixer) -> Iterator[Problem]:
    if mixer.heads % mixer.groups:
        yield Problem("groups", f"{mixer.groups} does not divide {mixer.heads} heads", f"a divisor of {mixer.heads}")


class MambaMixer(Config, frozen=True, kw_only=True):
    """A state-space mixer of the Mamba-2 kind: a state of fixed size in place of a cache."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_groups,)
    heads: Annotated[int, Knob("Heads.", ge=1)]
    head_size: Annotated[int, Knob("Channels of a head (P).", ge=1)] = 64
    state: Annotated[int, Knob("Length of the state (N) of each channel.", ge=1)] = 128
    groups: Annotated[int, Knob("Groups of heads that share B and C.", ge=1)] = 1
    convolution: Annotated[int, Knob("Width of the causal convolution.", ge=1)] = 4
    chunk: Annotated[int, Knob("Tokens of a chunk (Q): inside, all pairs; between, the state.", ge=1)] = 256
    state_format: Annotated[StateFormat, Knob("Format of the state in inference.")] = "activations"


def mamba_counts(mixer: MambaMixer, d_model: int) -> tuple[Count, Count]:
    """Parameters of (matrices, norms) of one mixer."""
    inner, shared = mixer.heads * mixer.head_size, 2 * mixer.groups * mixer.state
    matrices = d_model * (2 * inner + shared + mixer.heads) + inner * d_model
    return matrices + linear_count(mixer.convolution, inner + shared, True) + 3 * mixer.heads, inner


def mamba_sizes(mixer: MambaMixer | None, options: Options) -> Mapping[str, Size]:
    """Sizes of the mixer's dims. Raises UnsupportedError for a step of inference whose tokens are sharded."""
    if mixer is None:
        return MappingProxyType({})
    shards, packed = options.degrees.get("sp", 1) * options.degrees.get("cp", 1), options.packed
    if packed is not None and shards > 1:
        raise UnsupportedError("workload.sp", "a state is not spread over ranks like a cache", expected="1")
    return MappingProxyType({
        "m_heads": mixer.heads, "p": mixer.head_size, "groups": mixer.groups, "n": mixer.state,
        "convolution": mixer.convolution, "tail": mixer.convolution - 1, "shards": shards,
        **(_chunks(mixer, options, shards) if packed is None else _packed(mixer, packed))})


def _chunks(mixer: MambaMixer, options: Options, shards: int) -> dict[str, Size]:
    """Whole chunks for every shard of the sequence."""
    local = -(-options.seq // shards)
    chunk = min(mixer.chunk, local)
    return {"chunk": chunk, "chunks": shards * -(-local // chunk)}


def _packed(mixer: MambaMixer, packed: Packed) -> dict[str, Size]:
    """Chunks of a mean length that have as many tokens, and pairs of them, as those of all sequences."""
    full = mixer.chunk
    pairs = sum(part.count * (part.new // full * full**2 + (part.new % full) ** 2) for part in packed.parts)
    chunk = pairs / packed.tokens
    return {"chunk": chunk, "chunks": packed.tokens / chunk, "sequences": sum(part.count for part in packed.parts)}


def mamba_axes(mixer: MambaMixer | None, options: Options) -> Mapping[str, tuple[str, ...]]:
    """Axes of these dims."""
    if mixer is None:
        return MappingProxyType({})
    whole = mixer.groups % options.degrees.get("tp", 1)
    return MappingProxyType({"m_heads": ("tp",), "groups": () if whole else ("tp",), "chunks": ("sp", "cp"),
                             "shards": ("sp", "cp")})


def mamba_widths(mixer: MambaMixer, options: Options) -> Mapping[str, str]:
    """Roles of what a sequence keeps: its state, and the last tokens of the convolution."""
    return state_widths(mixer.state_format, "ubc", options)


def mamba_ops(mixer: MambaMixer, options: Options, weights: dict[str, str], states: dict[str, str]) -> list[Op]:
    """From the norm's output h to the heads' outputs w[batch,seq,m_heads,p]."""
    parts = (("z", "m_heads,p"), ("u", "m_heads,p"), ("b", "groups,n"), ("c", "groups,n"), ("dt", "m_heads"))
    ops = [linear(name, f"h{INSIDE}", f"d,{dims}", f"x{name}[batch,seq,{dims}]", weights, bias=False)
           for name, dims in parts]
    for name, dims in parts[1:4]:
        ops += _convolved(mixer, options, weights, states, name, dims)
    weights |= {"dt_offset": "m_heads", "decay": "m_heads", "skip": "m_heads"}
    ops.append(point("step", "xdt[batch,seq,m_heads] + dt_offset[m_heads] + decay[m_heads] -> "
                             f"decays{POSITION},m_heads]", 6))
    ops += _mixed(options, states)
    weights["gate_scale"] = "m_heads p"
    return [*ops, point("skip", f"scanned{HEADS} + xuc{HEADS} + skip[m_heads] -> skipped{HEADS}", 2),
            point("gate", f"skipped{HEADS} + xz[batch,seq,m_heads,p] + gate_scale[m_heads,p] -> w[batch,seq,m_heads,p]",
                  NORM["rms"] + ACTIVATION["silu"] + 1)]


def _convolved(mixer: MambaMixer, options: Options, weights: dict[str, str], states: dict[str, str], name: str,
               dims: str) -> list[Op]:
    """Causal convolution and activation of one projection, cut into chunks; in inference the last tokens are kept."""
    weights[f"convolution_{name}"] = f"convolution {dims.replace(',', ' ')}"
    weights[f"offset_{name}"] = dims.replace(",", " ")
    taken = f"x{name}[batch,seq,{dims}] + convolution_{name}[convolution,{dims}] + offset_{name}[{dims}]"
    result, flops = f"x{name}c{POSITION},{dims}]", 2 * mixer.convolution + ACTIVATION["silu"]
    if options.packed is None:
        return [point(f"convolution_{name}", f"{taken} -> {result}", flops)]
    tail, kept = f"tail_{name}[batch,sequences,tail,{dims}]", f"end_{name}[batch,sequences,tail,{dims}]"
    states[f"tail_{name}"] = f"batch sequences tail {dims.replace(',', ' ')}"
    before = "" if options.packed.fresh else f" + {tail}"
    return [point(f"convolution_{name}", f"{taken}{before} -> {result} + {kept}", flops),
            append(f"keep_{name}", f"{kept} -> {tail}")]


def _mixed(options: Options, states: dict[str, str]) -> list[Op]:
    """From inputs xuc, decays, and xbc and xcc to the heads' outputs, by way of the states."""
    added, before = "added[batch,chunks,m_heads,p,n]", "before[batch,chunks,m_heads,p,n]"
    state, end = "state[batch,sequences,m_heads,p,n]", "end[batch,sequences,m_heads,p,n]"
    inputs = (f"xuc{HEADS}", f"decays{POSITION},m_heads]", f"xbc{GROUPS}", f"xcc{GROUPS}")
    packed = options.packed
    if packed is not None:
        states["state"] = "batch sequences m_heads p n"
        if not packed.fresh and all(part.new == 1 for part in packed.parts):    # one kernel reads and writes the states
            return [point("update", f"{' + '.join(inputs)} + {state} -> scanned{HEADS} + {end}", UPDATE),
                    append("keep_state", f"{end} -> {state}")]
    ops = [gemm("states", f"xbc{GROUPS} * xuc{HEADS} -> {added}", along=("groups",))]
    if packed is not None:
        found = added if packed.fresh else f"{added} + {state}"
        ops += [point("pass", f"{found} -> {before} + {end}", 2), append("keep_state", f"{end} -> {state}")]
    elif options.degrees.get("sp", 1) * options.degrees.get("cp", 1) == 1:
        ops.append(point("pass", f"{added} -> {before}", 2, saves="nothing"))
    else:
        ops += [point("pass_local", f"{added} -> end[batch,shards,m_heads,p,n]", 2, saves="nothing"),
                point("pass", f"{added} + end[batch,shards.all,m_heads,p,n] -> {before}", 2, saves="nothing")]
    return [*ops, scan("scan", f"{' * '.join(inputs)} * {before} -> scanned{HEADS}", SCAN, PAIR)]


def _scan_cost(op: Op, layout: Measures) -> Cost:
    """Inside chunks all pairs of positions, C B^T and its product with x; between them the states by C: Mamba-2's
    chunked form (arXiv 2405.21060, section 6). `factor` vector FLOPs per pair and head: decay, mask, product."""
    pairs, heads, groups, state, size = _scan_sizes(op, layout)
    product = 2.0 * pairs * (groups * state + heads * size) + 2.0 * layout.elements(op.inputs[0].dims) * state
    return Cost(product + op.factor * pairs * heads, product)


def _scan_sizes(op: Op, layout: Measures) -> tuple[float, float, float, float, float]:
    """(pairs of positions, heads, groups, length of the state, channels of a head) of
    x[batch,chunks,chunk,m_heads,p], decay, b[batch,chunks,chunk,groups,n]."""
    x, b = op.inputs[0].dims, op.inputs[2].dims
    pairs = layout.elements(x[:3]) * layout.local(x[2])
    return pairs, layout.local(x[3]), layout.local(b[3]), layout.local(b[4]), layout.local(x[4])


def _scan_backward_cost(op: Op, layout: Measures) -> Cost:
    """C B^T again, then two products for each of forward's three."""
    pairs, heads, groups, state, size = _scan_sizes(op, layout)
    product = 2.0 * pairs * (3 * groups * state + 2 * heads * size) + 4.0 * layout.elements(op.inputs[0].dims) * state
    return Cost(product + 2 * op.factor * pairs * heads, product)


SCAN = Costs(_scan_cost, _scan_backward_cost)
