"""Training of a model under a parallelisation: the `workload` section with `source: transformer`.

The rules say what is legal between its fields, each with the nearest values that would be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Knob, Problem, default
from astrarium.config.named import Named
from astrarium.errors import InputError
from astrarium.units import OptionalBytes
from astrarium.workload.buffers import Buffers
from astrarium.workload.config import Workload
from astrarium.workload.divisors import divides, divisors
from astrarium.workload.mesh import Mesh, mesh_of, parse_order
from astrarium.workload.model.base import Model, with_layers
from astrarium.workload.precision import Precision
from astrarium.workload.schedule import KIND, PipelineSchedule, load_schedule, schedules
from astrarium.workload.software import Software

__all__ = ["Transformer", "unplaceable"]

Rules = tuple[Callable[[Any], Iterable[Problem]], ...]
ENDS = 2            # further blocks, which can be parts of the model by themselves: embedding and head
MOST_RANKS, MOST_BATCHES = 2**24, 2**20     # beyond which arrays of ranks or units would fill a machine


def _bounds(work: Transformer) -> Iterator[Problem]:
    if work.ranks > MOST_RANKS:
        yield Problem("dp", f"dp * tp * sp * cp * pp is {work.ranks}", f"at most {MOST_RANKS} ranks")
    if work.micro_batches * work.virtual_stages > MOST_BATCHES:
        yield Problem("micro_batch", f"makes {work.micro_batches} micro-batches", f"at most {MOST_BATCHES}")


def _order(work: Transformer) -> Iterator[Problem]:
    try:
        parse_order(work.order)
    except InputError as error:
        yield Problem("order", error.message, error.expected)


def _experts(work: Transformer) -> Iterator[Problem]:
    if work.dp % work.ep:
        yield from divides("ep", work.ep, work.dp, "data-parallel ranks (ep is a part of dp)")
    units = work.model.ep_units()
    if work.ep > 1 and units is None:
        yield Problem("ep", f"{work.ep}, but the model has no experts", "1")
    elif units and work.uneven == "refuse":
        yield from divides("ep", work.ep, units, "experts")


def _heads(work: Transformer) -> Iterator[Problem]:
    model = with_layers(work.model)
    if model is None or work.uneven != "refuse":
        return
    if model.heads % work.tp:
        yield from divides("tp", work.tp, model.heads, "heads")
    elif work.sp_attention == "all_to_all" and model.heads % (work.tp * work.sp):
        yield from divides("sp", work.sp, model.heads // work.tp, "heads of a tp rank (sp_attention: all_to_all)")


def _sequence(work: Transformer) -> Iterator[Problem]:
    model = with_layers(work.model)
    seq = work.seq or (model.seq if model is not None else None)
    if model is not None and seq is None:
        yield Problem("seq", "is missing", "tokens of a sample: the model's file says how far positions reach, not how "
                      "long samples are")
    if seq is None or work.uneven != "refuse":
        return
    parts = work.sp * work.cp * (work.tp if work.tp_sequence else 1)
    if seq % parts:
        names = "sp * cp" + (" * tp" if work.tp_sequence else "")
        yield Problem("seq", f"{seq} tokens are not divided by {names} ({parts})",
                      f"{seq // parts * parts or parts} or {-(-seq // parts) * parts}")


def _ring(work: Transformer) -> Iterator[Problem]:
    if work.cp > 1 and work.cp_attention == "ring" and work.attention != "flash":
        yield Problem("cp_attention", "ring, but only flash attention works on pieces of the keys",
                      "gather, or attention: flash")


def _batch(work: Transformer) -> Iterator[Problem]:
    if work.uneven != "refuse":
        return
    if work.global_batch % work.dp:
        low = work.global_batch // work.dp * work.dp
        yield Problem("global_batch", f"{work.global_batch} samples are not divided by dp ({work.dp})",
                      " or ".join(str(n) for n in (low, low + work.dp) if n))
    elif work.micro_batch is not None:
        yield from divides("micro_batch", work.micro_batch, work.global_batch // work.dp, "samples of a replica")


def _layers(work: Transformer) -> Iterator[Problem]:
    parts = work.pp * work.virtual_stages
    model = with_layers(work.model)
    layers = model.layers if model is not None else None
    if layers is not None and parts > layers + ENDS:
        what = "stages" if work.virtual_stages == 1 else f"parts ({work.pp} stages of {work.virtual_stages})"
        yield Problem("pp", f"{parts} {what} of {layers} layers, an embedding and a head",
                      f"at most {(layers + ENDS) // work.virtual_stages} stages")
    if work.stage_layers is None:
        return
    if work.stage_balance != "layers":
        yield Problem("stage_balance", f"{work.stage_balance} cannot be combined with stage_layers", "one of the two")
    if not all(work.stage_layers[1:-1]):
        yield Problem("stage_layers", "0 layers in the middle", "0 for the first and the last part at most")
    if len(work.stage_layers) != parts:
        yield Problem("stage_layers", f"{len(work.stage_layers)} numbers", f"{parts}: pp * virtual_stages")
    elif layers is not None and sum(work.stage_layers) != layers:
        yield Problem("stage_layers", f"{sum(work.stage_layers)} layers in all", f"{layers}, as the model has")


def _schedule(work: Transformer) -> Iterator[Problem]:
    yield from load_schedule(work.schedule).check(work.pp, work.micro_batches, work.virtual_stages)


def _zero(work: Transformer) -> Iterator[Problem]:
    if work.zero_axes is not None and work.zero == 0:
        yield Problem("zero_axes", "has no effect under zero: 0", "zero: 1, 2 or 3")
    if work.zero_axes is not None and (not work.zero_axes or len(set(work.zero_axes)) != len(work.zero_axes)):
        yield Problem("zero_axes", f"{list(work.zero_axes)} is not a set of axes", "some of dp, cp, sp, each once")
    if work.zero_ranks is not None and (work.zero == 0 or "dp" not in (work.zero_axes or ("dp",))):
        yield Problem("zero_ranks", "has no effect if dp is not sharded over", "zero: 1, 2 or 3 over dp")
    elif work.zero_ranks is not None and (work.dp % work.zero_ranks or work.zero_ranks % work.ep):
        legal = [n for n in divisors(work.dp) if n % work.ep == 0]
        what = f"{work.zero_ranks} is not a multiple of ep ({work.ep}) that divides dp ({work.dp})"
        yield Problem("zero_ranks", what, "one of " + ", ".join(map(str, legal[:20])))
    if work.prefetch is not None and work.zero != 3:
        yield Problem("prefetch", "has an effect only under zero: 3", "zero: 3")


def _autocast(work: Transformer) -> Iterator[Problem]:
    software, weights = work.software, work.precision.weights
    if software.autocast and software.operators == "fused":
        yield Problem("software.autocast", "has no effect under software.operators: fused", "eager or compiled")
    if software.autocast and weights != "fp32":
        yield Problem("precision.weights", f"{weights}, under software.autocast, which casts weights in fp32",
                      "fp32, or software.autocast: false")


def _split(work: Transformer) -> Iterator[Problem]:
    """What the pieces cannot do together."""
    split = load_schedule(work.schedule).split
    if split and work.recompute in ("full", "operators"):
        yield Problem("recompute", f"{work.recompute}, under schedule: {work.schedule}, would compute everything twice "
                      "over", "none or selective")
    if work.offload == "activations" and split:
        yield Problem("offload", f"activations, under schedule: {work.schedule}, which needs them twice",
                      "none or optimizer, or another schedule")


def _away(work: Transformer) -> Iterator[Problem]:
    if work.offload == "model":
        if work.zero != 3:
            yield Problem("zero", f"{work.zero}, under offload: model", "3")
        if work.pp > 1:
            yield Problem("pp", f"{work.pp}, under offload: model", "1")
        if load_schedule(work.schedule).split:
            yield Problem("schedule", f"{work.schedule}, under offload: model", "gpipe or 1f1b")
    if work.gather == "remote" and work.offload != "model":
        yield Problem("gather", "has an effect only under offload: model", "network, or offload: model")
    elif work.gather == "remote" and (work.zero_axes is not None or work.zero_ranks is not None):
        yield Problem("gather", "remote, but some ranks keep the same shards",
                      "network, or no zero_axes and zero_ranks")


def unplaceable(work: Transformer, what: str) -> tuple[str, str] | None:
    """(why a kind of tensors, as `memory.placement` names it, cannot be in another memory than the NPU's, what could
    be); None: it can."""
    if what != "states" and load_schedule(work.schedule).split:
        return f"cannot be under workload.schedule: {work.schedule}, which needs {what} twice", "local, or 1f1b"
    if what == "parameters" and work.zero in (1, 2):
        return (f"cannot be under workload.zero: {work.zero}, where ranks step parts of weights that all have",
                "zero: 0 or 3")
    if what == "gradients" and work.zero < 2 and work.dp * work.cp * work.sp > 1:
        return (f"cannot be under workload.zero: {work.zero}, where they are summed up here before they are reduced",
                "zero: 2 or 3, or one replica")
    return None


RULES: Rules = (
    _bounds, _order, _experts, _heads, _sequence, _ring, _batch, _layers, _schedule, _zero, _split,
    _away, _autocast)

BATCHES = "ceil(workload.global_batch / (workload.dp * workload.micro_batch))"
WHOLE = "workload.uneven != 'refuse' or"
PARTS = "(workload.sp * workload.cp * if(workload.tp_sequence, workload.tp, 1))"

CONDITIONS = (
    ("workload.cp == 1 or workload.cp_attention != 'ring' or workload.attention == 'flash'",),
    ("workload.dp % workload.ep == 0",),
    (f"{WHOLE} workload.model.moe.experts % workload.ep == 0",),
    (f"{WHOLE} workload.model.heads % workload.tp == 0",),
    (f"{WHOLE} workload.sp_attention != 'all_to_all' or workload.model.heads % (workload.tp * workload.sp) == 0",),
    (f"{WHOLE} workload.seq % {PARTS} == 0", f"{WHOLE} workload.model.seq % {PARTS} == 0"),
    (f"{WHOLE} workload.global_batch % workload.dp == 0",),
    (f"{WHOLE} workload.global_batch // workload.dp % workload.micro_batch == 0",),
    ("workload.offload != 'model' or workload.zero == 3 and workload.pp == 1",),
    ("workload.gather == 'network' or workload.offload == 'model'",),
    ("system.placement != 'identity' or "
     "workload.dp * workload.tp * workload.sp * workload.cp * workload.pp == network.npus",),
)
"""Those of the rules that need only numbers and names, as conditions over the paths of a design. A space uses them to
skip designs that the rules would refuse. Each entry is a condition, then others that are used in its place where it
names a field that the design does not set."""


def _of_schedules() -> tuple[tuple[str, ...], ...]:
    """Conditions that schedules set, as in `CONDITIONS`."""
    known = schedules()

    def one_of(has: Callable[[PipelineSchedule], bool]) -> str:
        names = [f"workload.schedule == '{name}'" for name, each in known.items() if has(each)]
        return f"({' or '.join(names)})"

    split = one_of(lambda each: each.split)
    return (
        (f"{one_of(lambda each: each.chunked)} or workload.virtual_stages == 1",),
        *((f"workload.schedule != '{name}' or {condition.format(batches=BATCHES)}",)
          for name, each in known.items() for condition in each.conditions),
        (f"workload.recompute != 'full' and workload.recompute != 'operators' or not {split}",),
        (f"workload.offload != 'activations' or not {split}",))


class Transformer(Workload, frozen=True):
    """One iteration of training: model, parallelisation, pipeline schedule, ZeRO, precision.

    Axes: ranks = tp * cp * sp * dp * pp; `ep` is a part of dp. tp divides every layer's matrices; `tp_sequence` also
    what is between them, over the same ranks (Megatron's sequence parallelism). sp and cp divide the sequence
    everywhere, with all weights on every rank: sp (COSMIC's and STAGE's axis) gathers keys and values or exchanges
    heads for tokens (Ulysses), cp passes keys and values around a ring.
    """

    tag: ClassVar[str] = "transformer"
    rules: ClassVar[Rules] = RULES
    model: Annotated[Named[Model], Knob("The model: a name of the catalog, a Hugging Face config.json, or a "
                                           "family with its sizes.")]
    global_batch: Annotated[int, Knob("Samples of one iteration, over all replicas.", ge=1, lt=2**31)]
    dp: Annotated[int, Knob("Data-parallel replicas.", ge=1, lt=2**24)] = 1
    tp: Annotated[int, Knob("Ranks that divide every layer's matrices.", ge=1, lt=2**24)] = 1
    sp: Annotated[int, Knob("Ranks that divide the sequence (a separate axis).", ge=1, lt=2**24)] = 1
    cp: Annotated[int, Knob("Ranks that divide the sequence, with ring attention (context parallelism).", ge=1,
                            lt=2**24)] = 1
    pp: Annotated[int, Knob("Pipeline stages.", ge=1, lt=2**24)] = 1
    ep: Annotated[int, Knob("Ranks, out of dp, that divide the experts.", ge=1, lt=2**24)] = 1
    micro_batch: Annotated[int | None, Knob("Samples of one micro-batch of one replica; left out: the replica's whole "
                                            "batch at once.", ge=1, lt=2**31)] = None
    seq: Annotated[int | None, Knob("Tokens of a sample; left out: the model's.", ge=1, lt=2**31)] = None
    vocab_multiple: Annotated[int | None, Knob("The vocabulary is padded to a multiple of this times tp (Megatron-LM: "
                                               "128); left out: to a multiple of tp.", ge=1, lt=2**31)] = None
    tp_sequence: Annotated[bool, Knob("Between attention and FFN the sequence is divided over tp.")] = False
    scatter_gather: Annotated[bool, Knob("Ranks of tp that have the same activation send a part of it each to the next "
                                         "stage and gather it there (Megatron-LM); off: each sends all of it. Under "
                                         "tp_sequence each has its own.")] = True
    sp_attention: Annotated[Literal["gather", "all_to_all"],
                            Knob("Attention over sp: gather keys and values, or exchange tokens for heads.")] = "gather"
    cp_attention: Annotated[Literal["ring", "gather"],
                            Knob("Attention over cp: keys and values go around a ring, or are gathered.")] = "ring"
    zero: Annotated[Literal[0, 1, 2, 3], Knob("ZeRO stage: what is sharded over the replicas: nothing, optimizer "
                                              "states, gradients too, weights too (FSDP).")] = 0
    zero_axes: Annotated[Sequence[Literal["dp", "cp", "sp"]] | None,
                         Knob("Axes that ZeRO shards over; over the others shards are replicated. Left out: dp, cp, "
                              "sp.")] = None
    zero_ranks: Annotated[int | None, Knob("Ranks, out of dp, that ZeRO shards over; over the rest shards are "
                                           "replicated (hybrid sharding). Left out: all of dp.", ge=1,
                                           lt=2**24)] = None
    prefetch: Annotated[int | None, Knob("Layers whose weights are gathered ahead under zero: 3; left out: 1.",
                                         ge=0)] = None
    order: Annotated[str, Knob("Rank order, innermost axis first: megatron (tp-cp-sp-ep-dp-pp), stage "
                               "(dp-tp-sp-cp-ep-pp), or all six axes joined by -.")] = "megatron"
    schedule: Annotated[str, Knob("In which order stages run their micro-batches.", choices=KIND)] = "1f1b"
    virtual_stages: Annotated[int, Knob("Parts of the model on each stage (schedule: interleaved).", ge=1, lt=2**16)
                              ] = 1
    stage_layers: Annotated[Sequence[int] | None,
                            Knob("Layers of every part of the model, in order (pp * virtual_stages numbers); left out: "
                                 "as even as can be, what is left over to the second part, the third, ..., the first, "
                                 "the last. The embedding is on the first, the head on the last; these two parts may "
                                 "have no layer.", ge=0)] = None
    stage_balance: Annotated[Literal["layers", "cost"],
                             Knob("What is divided evenly where stage_layers is left out: layers, or FLOPs, with the "
                                  "embedding and the head as separate blocks. More parts than layers are divided "
                                  "by FLOPs.")] = "layers"
    recompute: Annotated[Literal["none", "selective", "operators", "full"],
                         Knob("Activations that backward computes again: none, those of recompute_modules (selective), "
                              "all but results of attention, of every second product and of reduce_scatter and "
                              "all_to_all (operators: PyTorch's selective checkpointing as torchtitan sets it), or "
                              "whole layers.")] = "none"
    recompute_modules: Annotated[Sequence[Literal["attention", "norms", "ffn", "latent", "expert_activation",
                                                  "shared_experts", "experts"]],
                                 Knob("Parts of a decoder's layer that selective recomputation computes again: "
                                      "attention's core (where it is one kernel, nothing of it is kept anyway), norms, "
                                      "the FFN, what latent attention expands, experts' activation, shared experts, "
                                      "or everything from the router to the experts' sum.")] = ("attention",)
    recompute_every: Annotated[int, Knob("Of the layers, only every k-th computes again.", ge=1, lt=100_001)] = 1
    recompute_first: Annotated[int | None, Knob("Layers that compute again, the first ones of every part of the model "
                                                "(Megatron-LM's method block); left out: all.", ge=0)] = None
    attention: Annotated[Literal["flash", "unfused"], Knob("Attention as one kernel, or as separate ones.")] = "flash"
    mask: Annotated[Literal["full", "skip"], Knob("Whether kernels compute all scores, or skip what the causal (or "
                                                  "sliding) mask hides.")] = "full"
    fusion: Annotated[bool, Knob("Neighbouring elementwise operators are one kernel.")] = True
    dropout: Annotated[bool, Knob("Training with dropout: masks are kept.")] = False
    cross_entropy: Annotated[Literal["plain", "fused", "compiled", "eager"],
                             Knob("plain: logits in fp32, their gradient in another tensor; fused: logits in the "
                                  "format of activations, their gradient in their place (Transformer Engine); "
                                  "compiled: in another tensor (torch.compile); eager: a kernel an operator (PyTorch), "
                                  "with a copy of the logits in fp32, their log softmax, and the gradients of "
                                  "both.")] = "plain"
    weight_gradients: Annotated[Literal["in_place", "temporary", "placeholders", "beside", "fresh"],
                                Knob("Memory of weight gradients of a micro-batch before they join those of the "
                                     "step. in_place: none, the product sums them itself; temporary: one tensor at "
                                     "a time; placeholders: as in_place, and an empty tensor for every shape of matrix "
                                     "(Megatron-LM with Transformer Engine 2); beside: where data parallelism has "
                                     "buckets, all of them, in the weights' format (nanotron); fresh: the first "
                                     "micro-batch's backward makes those of the step, which are freed behind the "
                                     "optimizer's step; later ones are temporary (PyTorch).")] = "in_place"
    overhead: Annotated[OptionalBytes, Knob("Bytes that every rank holds besides: driver, libraries' workspaces, "
                                            "buffers of communication; left out: none.", ge=0)] = default(None)
    precision: Annotated[Precision, Knob("Number formats.")] = Precision()
    optimizer: Annotated[Literal["adam", "sgd"], Knob("Optimizer: its states and its step.")] = "adam"
    clip: Annotated[bool, Knob("Gradients are clipped by their global norm, which all ranks agree on.")] = True
    bucket: Annotated[OptionalBytes, Knob("Bytes of gradients that one collective reduces at least; left out: 40 "
                                          "million gradients, or 1 million per data-parallel rank (Megatron-LM's "
                                          "default); under buffers.reduce: group a block.", ge=1e6)] = default(None)
    buffers: Annotated[Buffers, Knob("Buffers of data parallelism's collectives.")] = Buffers()
    overlap: Annotated[bool, Knob("Gradients are reduced as soon as a bucket is full, not after all of backward.")
                       ] = True
    offload: Annotated[Literal["none", "optimizer", "activations", "model"],
                       Knob("What is kept in remote memory: nothing, optimizer states, saved activations, or the "
                            "model: weights, gradients and optimizer states (ZeRO-Infinity; zero: 3).")] = "none"
    gather: Annotated[Literal["network", "remote"],
                      Knob("What brings shards together under offload: model: collectives on the network, or the "
                           "switches of the remote memory, which gather loads and sum stores.")] = "network"
    sample: Annotated[OptionalBytes, Knob("Bytes of one sample, which the first stage loads from remote memory ahead "
                                          "of its forward pass; left out: nothing is loaded.", gt=0)] = default(None)
    checkpoint: Annotated[bool, Knob("At the end weights and optimizer states are stored in remote memory, each once, "
                                     "by all ranks that hold it together.")] = False
    software: Annotated[Software, Knob("How the training software runs the operators.")] = Software()
    uneven: Annotated[Literal["refuse", "pad", "fractional"],
                      Knob("Sizes that do not divide: refused, rounded up, or divided as real numbers (COSMIC).")
                      ] = "refuse"

    @property
    def conditions(self) -> tuple[tuple[str, ...], ...]:
        """`CONDITIONS` and those of the schedules."""
        return CONDITIONS + _of_schedules()

    @property
    def ranks(self) -> int:
        """Ranks that the parallelisation needs."""
        return self.dp * self.tp * self.sp * self.cp * self.pp

    @property
    def mesh(self) -> Mesh:
        """Ranks and their coordinates."""
        return mesh_of(self.order, tp=self.tp, cp=self.cp, sp=self.sp, ep=self.ep, dp=self.dp, pp=self.pp,
                       shards=self.zero_ranks)

    @property
    def replica_batch(self) -> Fraction:
        """Samples of one data-parallel replica and iteration."""
        return Fraction(self.global_batch, self.dp)

    @property
    def micro_batches(self) -> int:
        """Micro-batches of one replica and iteration (under pad and fractional the last one may be smaller: all count
        the mean)."""
        return 1 if self.micro_batch is None else max(1, math.ceil(self.replica_batch / self.micro_batch))
