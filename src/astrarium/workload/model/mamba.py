"""State-space models of the Mamba-2 kind (arXiv 2405.21060): a state of fixed size in place of attention.

Operators (sections 6 and 7 of the paper): inside a chunk all pairs of positions meet; between chunks only states pass.
Where the sequence is sharded, every rank needs the states with which the ranks before it ended: they are gathered.
Heads are sharded over tp; B and C, which groups of heads share, are on every rank of tp. The convolution's neighbours
across a shard's edge (3 tokens) are left out. In inference a sequence has, instead of a cache, one state per head and
the last tokens of the convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar

from astrarium.config import Knob, Problem
from astrarium.errors import UnsupportedError
from astrarium.workload.divisors import divides
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Cost, Costs, Measures, Op, add, append, gather, gemm, point, scan
from astrarium.workload.graph.layout import Size
from astrarium.workload.graph.packed import Packed
from astrarium.workload.model.base import Counts, Generation, Model, Split
from astrarium.workload.model.cached import StateFormat, sparse, state_widths
from astrarium.workload.model.hugging_face_keys import Fields, Keys, Readers
from astrarium.workload.model.language_head import language_head
from astrarium.workload.model.parameters import linear_count
from astrarium.workload.model.parts import ACTIVATION, INSIDE, NORM, STREAM, block, linear, norm

__all__ = ["Mamba"]


PAIR = 4.0          # FLOPs per pair of positions and head: difference of decays, exponential, mask, product
UPDATE = 6.0        # FLOPs per number of a state and token: decay, x B added, C times it
POSITION = "[batch,chunks,chunk"
HEADS, GROUPS = f"{POSITION},heads,p]", f"{POSITION},groups,n]"


def _heads(model: Mamba) -> Iterator[Problem]:
    if model.inner % model.head_size:
        yield Problem("head_size", f"{model.head_size} does not divide {model.inner} (expand x d_model)",
                      f"a divisor of {model.inner}")
    elif model.heads % model.groups:
        yield Problem("groups", f"{model.groups} does not divide {model.heads} heads", f"a divisor of {model.heads}")


def _layouts(model: Mamba, split: Split) -> Iterator[Problem]:
    """What forbids a layout of inference."""
    if split.even:
        yield from divides("tp", split.tp, model.heads, "heads")
    if split.pp > model.layers:
        yield Problem("pp", f"{split.pp} stages of {model.layers} layers", f"at most {model.layers}")
    if split.ep > 1:
        yield Problem("ep", f"{split.ep}, but the model has no experts", "1")
    if split.sp > 1:
        yield Problem("sp", f"{split.sp}, but a state is not spread over ranks like a cache", "1")
    if split.compressed:
        yield Problem("compression", "means nothing for a model without a cache", "no compression")


class Mamba(Model, frozen=True, kw_only=True):
    """A decoder of Mamba-2 blocks (no attention, no FFN)."""

    tag: ClassVar[str] = "mamba"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_heads,)
    generation: ClassVar[Generation | None] = Generation(_layouts)
    layers: Annotated[int, Knob("Layers.", ge=1, lt=100_001)]
    d_model: Annotated[int, Knob("Length of a token's vector.", ge=1)]
    vocab: Annotated[int, Knob("Tokens of the vocabulary, with padding.", ge=1)]
    seq: Annotated[int | None, Knob("Context length of training; null (an imported model): workload.seq says it.",
                                    ge=1)] = 2048
    state: Annotated[int, Knob("Length of the state (N) of each channel.", ge=1)] = 128
    head_size: Annotated[int, Knob("Channels of a head (P).", ge=1)] = 64
    expand: Annotated[int, Knob("Inner channels over d_model.", ge=1)] = 2
    groups: Annotated[int, Knob("Groups of heads that share B and C.", ge=1)] = 1
    convolution: Annotated[int, Knob("Width of the causal convolution.", ge=1)] = 4
    chunk: Annotated[int, Knob("Tokens of a chunk (Q): inside, all pairs; between, the state.", ge=1)] = 256
    tied_embeddings: Annotated[bool, Knob("The head is the embedding, transposed.")] = True
    state_format: Annotated[StateFormat, Knob("Format of the state in inference.")] = "activations"

    @property
    def inner(self) -> int:
        """Inner channels."""
        return self.expand * self.d_model

    @property
    def heads(self) -> int:
        """Heads of a layer."""
        return self.inner // self.head_size

    def stack(self, options: Options) -> Stack:
        """The blocks. Raises UnsupportedError for a step of inference whose tokens are sharded."""
        shards = options.degrees.get("sp", 1) * options.degrees.get("cp", 1)
        packed = options.packed
        if packed is not None and shards > 1:
            raise UnsupportedError("workload.sp", "a state is not spread over ranks like a cache", expected="1")
        sizes: dict[str, Size] = {
            "d": self.d_model, "heads": self.heads, "p": self.head_size, "groups": self.groups, "n": self.state,
            "convolution": self.convolution, "tail": self.convolution - 1, "shards": shards, "vocab": self.vocab,
            **(_chunks(self, options, shards) if packed is None else _packed(self, packed))}
        head = language_head(options, norm_kind="rms", tied=self.tied_embeddings)
        blocks: tuple[Block, ...] = (_embedding(), _layer(self, options), head)
        if packed is not None:
            blocks = tuple(sparse(each, packed.density) for each in blocks)
        return Stack(blocks, (0,), (1,) * self.layers, (2,) if packed is None or packed.sampled else (), sizes,
                     {"chunks": ("sp", "cp"), "shards": ("sp", "cp"), "seq.all": (), "sampled": ()},
                     tied=frozenset({"embedding"} if self.tied_embeddings else ()))

    def counts(self) -> Counts:
        """Parameters by part; all are used by every token."""
        shared = 2 * self.groups * self.state
        mixer = self.d_model * (2 * self.inner + shared + self.heads) + self.inner * self.d_model
        convolution = linear_count(self.convolution, self.inner + shared, True)
        return {
            "embedding": self.vocab * self.d_model,
            "mixer": self.layers * (mixer + convolution + 3 * self.heads),
            "norms": self.layers * (self.d_model + self.inner) + self.d_model,
            "head": 0 if self.tied_embeddings else self.vocab * self.d_model,
        }, 0

    @staticmethod
    def readers() -> Readers:
        """Values of `model_type` in a Hugging Face config.json."""
        return {"mamba2": _mamba2}


def _chunks(model: Mamba, options: Options, shards: int) -> dict[str, Size]:
    """Whole chunks for every shard of the sequence."""
    local = -(-options.seq // shards)
    chunk = min(model.chunk, local)
    return {"chunk": chunk, "chunks": shards * -(-local // chunk)}


def _packed(model: Mamba, packed: Packed) -> dict[str, Size]:
    """Chunks of a mean length that have as many tokens, and pairs of them, as those of all sequences."""
    full = model.chunk
    pairs = sum(part.count * (part.new // full * full**2 + (part.new % full) ** 2) for part in packed.parts)
    chunk = pairs / packed.tokens
    return {"chunk": chunk, "chunks": packed.tokens / chunk, "sampled": packed.sampled or 1,
            "sequences": sum(part.count for part in packed.parts)}


def _embedding() -> Block:
    ops = [gather("tokens", f"index[batch,seq] * embedding[vocab,d] -> e{INSIDE}")]
    return block("embedding", ops, {"embedding": "vocab d"}, start="", end=f"e{STREAM}", widths={"index": "index"})


def _layer(model: Mamba, options: Options) -> Block:
    weights: dict[str, str] = {}
    states: dict[str, str] = {}
    ops: list[Op] = [norm("rms", "norm", "x", "h", weights)]
    parts = (("z", "heads,p"), ("u", "heads,p"), ("b", "groups,n"), ("c", "groups,n"), ("dt", "heads"))
    ops += [linear(name, f"h{INSIDE}", f"d,{dims}", f"{name}[batch,seq,{dims}]", weights, bias=False)
            for name, dims in parts]
    for name, dims in parts[1:4]:
        ops += _convolved(model, options, weights, states, name, dims)
    weights |= {"dt_offset": "heads", "decay": "heads", "skip": "heads"}
    ops.append(point("step", f"dt[batch,seq,heads] + dt_offset[heads] + decay[heads] -> a{POSITION},heads]", 6))
    ops += _mixed(options, states)
    weights["gate_scale"] = "heads p"
    ops += [point("skip", f"s{HEADS} + uc{HEADS} + skip[heads] -> v{HEADS}", 2),
            point("gate", f"v{HEADS} + z[batch,seq,heads,p] + gate_scale[heads,p] -> w[batch,seq,heads,p]",
                  NORM["rms"] + ACTIVATION["silu"] + 1),
            linear("out", "w[batch,seq,heads,p]", "heads,p,d", f"o{INSIDE}", weights, bias=False),
            add("residual", f"x{STREAM} + o{STREAM} -> y{STREAM}")]
    widths = state_widths(model.state_format, "ubc", options)
    return block("layer", ops, weights, states=states, widths=widths)


def _convolved(model: Mamba, options: Options, weights: dict[str, str], states: dict[str, str], name: str,
               dims: str) -> list[Op]:
    """Causal convolution and activation of one projection, cut into chunks; in inference the last tokens are kept."""
    weights[f"convolution_{name}"] = f"convolution {dims.replace(',', ' ')}"
    weights[f"offset_{name}"] = dims.replace(",", " ")
    taken = f"{name}[batch,seq,{dims}] + convolution_{name}[convolution,{dims}] + offset_{name}[{dims}]"
    result, flops = f"{name}c{POSITION},{dims}]", 2 * model.convolution + ACTIVATION["silu"]
    if options.packed is None:
        return [point(f"convolution_{name}", f"{taken} -> {result}", flops)]
    tail, kept = f"tail_{name}[batch,sequences,tail,{dims}]", f"end_{name}[batch,sequences,tail,{dims}]"
    states[f"tail_{name}"] = f"batch sequences tail {dims.replace(',', ' ')}"
    before = "" if options.packed.fresh else f" + {tail}"
    return [point(f"convolution_{name}", f"{taken}{before} -> {result} + {kept}", flops),
            append(f"keep_{name}", f"{kept} -> {tail}")]


def _mixed(options: Options, states: dict[str, str]) -> list[Op]:
    """From inputs uc, decays a, and bc and cc to the heads' outputs s, by way of the states."""
    added, before = "added[batch,chunks,heads,p,n]", "before[batch,chunks,heads,p,n]"
    state, end = "state[batch,sequences,heads,p,n]", "end[batch,sequences,heads,p,n]"
    inputs = (f"uc{HEADS}", f"a{POSITION},heads]", f"bc{GROUPS}", f"cc{GROUPS}")
    packed = options.packed
    if packed is not None:
        states["state"] = "batch sequences heads p n"
        if not packed.fresh and all(part.new == 1 for part in packed.parts):    # one kernel reads and writes the states
            return [point("update", f"{' + '.join(inputs)} + {state} -> s{HEADS} + {end}", UPDATE),
                    append("keep_state", f"{end} -> {state}")]
    ops = [gemm("states", f"bc{GROUPS} * uc{HEADS} -> {added}", along=("groups",))]
    if packed is not None:
        found = added if packed.fresh else f"{added} + {state}"
        ops += [point("pass", f"{found} -> {before} + {end}", 2), append("keep_state", f"{end} -> {state}")]
    elif options.degrees.get("sp", 1) * options.degrees.get("cp", 1) == 1:
        ops.append(point("pass", f"{added} -> {before}", 2, saves="nothing"))
    else:
        ops += [point("pass_local", f"{added} -> end[batch,shards,heads,p,n]", 2, saves="nothing"),
                point("pass", f"{added} + end[batch,shards.all,heads,p,n] -> {before}", 2, saves="nothing")]
    return [*ops, scan("scan", f"{' * '.join(inputs)} * {before} -> s{HEADS}", SCAN, PAIR)]


def _scan_cost(op: Op, layout: Measures) -> Cost:
    """Inside chunks all pairs of positions, C B^T and its product with x; between them the states by C: Mamba-2's
    chunked form (arXiv 2405.21060, section 6). `factor` vector FLOPs per pair and head: decay, mask, product."""
    pairs, heads, groups, state, size = _scan_sizes(op, layout)
    product = 2.0 * pairs * (groups * state + heads * size) + 2.0 * layout.elements(op.inputs[0].dims) * state
    return Cost(product + op.factor * pairs * heads, product)


def _scan_sizes(op: Op, layout: Measures) -> tuple[float, float, float, float, float]:
    """(pairs of positions, heads, groups, length of the state, channels of a head) of
    x[batch,chunks,chunk,heads,p], decay, b[batch,chunks,chunk,groups,n]."""
    x, b = op.inputs[0].dims, op.inputs[2].dims
    pairs = layout.elements(x[:3]) * layout.local(x[2])
    return pairs, layout.local(x[3]), layout.local(b[3]), layout.local(b[4]), layout.local(x[4])


def _scan_backward_cost(op: Op, layout: Measures) -> Cost:
    """C B^T again, then two products for each of forward's three."""
    pairs, heads, groups, state, size = _scan_sizes(op, layout)
    product = 2.0 * pairs * (3 * groups * state + 2 * heads * size) + 4.0 * layout.elements(op.inputs[0].dims) * state
    return Cost(product + 2 * op.factor * pairs * heads, product)


SCAN = Costs(_scan_cost, _scan_backward_cost)


def _mamba2(keys: Keys) -> Fields:
    keys.only("use_bias", False)
    keys.only("use_conv_bias", True)
    keys.unused("residual_in_fp32", "rescale_prenorm_residual", "time_step_floor", "time_step_limit", "time_step_max",
                "time_step_min", "time_step_rank")
    keys.notes.append("the file does not say how long samples are: training takes its workload.seq")
    found: Fields = {
        "seq": None, "layers": keys.whole("num_hidden_layers"), "d_model": keys.whole("hidden_size"),
        "vocab": keys.whole("vocab_size"), "state": keys.whole("state_size", 128),
        "head_size": keys.whole("head_dim", 64), "expand": keys.whole("expand", 2), "groups": keys.whole("n_groups"),
        "convolution": keys.whole("conv_kernel", 4), "chunk": keys.whole("chunk_size", 256),
        "tied_embeddings": keys.flag("tie_word_embeddings", False)}
    heads = Mamba(**found).heads
    if keys.whole("num_heads") != heads:
        raise UnsupportedError(f"{keys.name}: num_heads", f"{keys.whole('num_heads')} has no model here",
                               expected=f"{heads} (expand x hidden_size / head_dim)")
    return found
