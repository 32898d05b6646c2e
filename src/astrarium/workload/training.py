"""Training: from a Transformer to the recipe that assembly runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

from msgspec.structs import replace

from astrarium import config
from astrarium.errors import InputError
from astrarium.trace.work import Generated
from astrarium.vocab import Placed
from astrarium.workload.assemble import Recipe, assemble
from astrarium.workload.assemble.recipe import Flat
from astrarium.workload.balance import balanced
from astrarium.workload.graph import Forms, ModelPieces, Options
from astrarium.workload.graph.options import AXES
from astrarium.workload.mesh import Mesh
from astrarium.workload.model.base import Model
from astrarium.workload.model.stacks import model_pieces
from astrarium.workload.pieces import BlockPieces, Torch
from astrarium.workload.precision import numbers_of, sizes_of, widths_of
from astrarium.workload.realised import realised
from astrarium.workload.schedule import load_schedule
from astrarium.workload.software import Software
from astrarium.workload.transformer import Transformer

__all__ = ["OFFLOADED", "even_parts", "recipe_of", "recompute_of", "sequence_of", "training"]


def training(workload: Transformer, forms: Forms | None = None, placed: Placed | None = None) -> Generated:
    """One iteration on `workload.ranks` ranks; `forms` keeps what it has in common with others, `placed` says which
    memory holds what. Raises InputError where a size does not divide (`uneven: refuse`)."""
    return assemble(recipe_of(workload, forms, placed))


def recipe_of(workload: Transformer, forms: Forms | None = None, placed: Placed | None = None) -> Recipe:
    """What assembly needs: the model's pieces, where they go, and in which order they run. `forms` caches the last
    ones."""
    if forms is None:
        return _recipe(workload, forms, placed)
    found: Recipe = forms.recipes.get((workload, placed), lambda: _recipe(workload, forms, placed))
    return found


def recompute_of(workload: Transformer) -> str:
    """The field `recompute`, or `none` where selective recomputation changes no block (attention as one kernel keeps
    nothing that could be computed again)."""
    if workload.recompute != "selective":
        return workload.recompute
    whole = replace(workload, recompute_every=1, recompute_first=None)
    same = recipe_of(whole).kinds == recipe_of(config.replace(whole, "recompute", "none")).kinds
    return "none" if same else workload.recompute


def _recipe(workload: Transformer, forms: Forms | None, placed: Placed | None) -> Recipe:
    mesh = workload.mesh
    pieces = model_pieces(_padded(workload), _options(workload, mesh), forms)
    sizes = sizes_of(workload.precision, workload.optimizer, workload.software.step)
    pieces = _realised(workload, pieces, sizes.gradients)
    tied, parts = pieces.tied if workload.pp > 1 else frozenset[str](), _parts(workload, pieces)
    if workload.recompute != "none" and (workload.recompute_every > 1 or workload.recompute_first is not None):
        plain = config.replace(workload, "recompute", "none")
        pieces, parts = _some(workload, pieces, recipe_of(plain, forms, placed).kinds, parts)
    return Recipe(
        mesh=mesh, kinds=_once(pieces) if workload.pp == 1 else pieces.blocks, parts=parts,
        schedule=load_schedule(workload.schedule), batches=workload.micro_batches, chunks=workload.virtual_stages,
        sizes=sizes, zero=workload.zero, zero_axes=_zero_axes(workload),
        prefetch=1 if workload.prefetch is None else workload.prefetch, bucket=_bucket(workload, sizes.sent),
        flat=_flat(workload), overlap=workload.overlap, tied=tied,
        placed=_offloaded(workload) if placed is None else placed, gathers=workload.gather == "remote",
        clip=workload.clip, sample=_sample(workload), checkpoint=workload.checkpoint, scattered=_scattered(workload),
        inner=frozenset(pieces.layers), shared=_shared(workload, pieces), scales=workload.software.clip == "scaled",
        weight_gradients=workload.weight_gradients, overhead=float(workload.overhead or 0),
        launch=float(workload.software.host_launch))


def _bucket(workload: Transformer, sent: float) -> float:
    """Bytes of gradients that a collective reduces at least; 0: those of a block."""
    if workload.bucket is not None:
        return float(workload.bucket)
    return 0.0 if workload.buffers.reduce == "group" else sent * max(40e6, 1e6 * workload.dp)


def _flat(workload: Transformer) -> Flat:
    buffers = workload.buffers
    return Flat(buffers.gather == "copied", buffers.reduce, buffers.count, buffers.ends == "together",
                buffers.pools, buffers.between == "whole" and workload.micro_batches > 1)


OFFLOADED: Mapping[str, Placed] = MappingProxyType(
    {"none": Placed(), "optimizer": Placed(states=""), "activations": Placed(activations=""),
     "model": Placed(parameters="", gradients="", states="")})


def _offloaded(workload: Transformer) -> Placed:
    """What `offload` says, with weights as many blocks ahead as `prefetch` says."""
    placed = OFFLOADED[workload.offload]
    if workload.offload != "model" or workload.prefetch is None:
        return placed
    return placed._replace(prefetch=workload.prefetch)


def _realised(workload: Transformer, pieces: ModelPieces, gradients: float) -> ModelPieces:
    """The layers as the software runs them; the embedding and the head are left as they are, but for accumulation."""
    software, layers = workload.software, set(pieces.layers)
    if workload.weight_gradients == "fresh" and workload.micro_batches == 1:        # nothing is there to add to
        software = config.replace(software, "accumulation", "write")
    ends = Software(accumulation=software.accumulation)
    blocks = tuple([realised(block, software if number in layers else ends, workload.tp,
                             2 if workload.recompute == "full" else 1, gradients)
                    for number, block in enumerate(pieces.blocks)])
    return replace(pieces, blocks=blocks)


def _scattered(workload: Transformer) -> tuple[str, ...]:
    """Axes whose ranks have the same activations between stages: tp, unless it divides the sequence there."""
    return ("tp",) if workload.scatter_gather and workload.tp > 1 and not workload.tp_sequence else ()


def _sample(workload: Transformer) -> float:
    """Bytes that a rank loads per micro-batch: its replica's samples, its part of the sequence."""
    per_rank = float(workload.replica_batch) / workload.micro_batches / (workload.sp * workload.cp)
    return 0.0 if workload.sample is None else float(workload.sample) * per_rank


def _padded(workload: Transformer) -> Model:
    """The model with a vocabulary that can be divided (Megatron-LM: by a multiple of 128 per tp rank)."""
    model = workload.model
    vocab = getattr(model, "vocab", None)
    if not isinstance(vocab, int) or workload.uneven != "refuse":
        return model
    multiple = workload.tp * (workload.vocab_multiple or 1)
    return model if vocab % multiple == 0 else config.replace(model, "vocab", -(-vocab // multiple) * multiple)


def _options(workload: Transformer, mesh: Mesh) -> Options:
    """The parallelisation as the graph wants it."""
    return Options(
        degrees={axis: mesh.size((axis,)) for axis in AXES},
        batch=workload.replica_batch * workload.dp / workload.micro_batches,
        seq=sequence_of(workload), tp_sequence=workload.tp_sequence, sp_attention=workload.sp_attention,
        cp_attention=workload.cp_attention, attention=workload.attention, mask=workload.mask,
        recompute=workload.recompute, modules=tuple(workload.recompute_modules), fuse=workload.fusion,
        dropout=workload.dropout, uneven=workload.uneven,
        fused_norms=workload.software.fused_norms, fused_qkv=workload.software.fused_qkv,
        operators=workload.software.operators, form=_form(workload), widths=widths_of(workload.precision),
        numbers=numbers_of(workload.precision),
        cross_entropy=workload.cross_entropy, weight_gradients=_gradients(workload))


def _form(workload: Transformer) -> Torch:
    software = workload.software
    return Torch(software.rms_norm, software.rotary, software.autocast)


def _gradients(workload: Transformer) -> str:
    """How gradients are held: fresh ones are those of a step of one micro-batch, and those that each micro-batch makes
    to be sharded; else the step's are there when a later micro-batch holds most."""
    at_once = workload.micro_batches == 1 or (workload.zero >= 2 and workload.buffers.between == "reduced")
    if workload.weight_gradients != "fresh" or (at_once and not load_schedule(workload.schedule).split):
        return workload.weight_gradients
    return "temporary"


def _zero_axes(workload: Transformer) -> tuple[str, ...]:
    """The mesh's axes that ZeRO shards over: of dp, those of `zero_ranks`."""
    named = workload.zero_axes or ("dp", "cp", "sp")
    return tuple(part for axis in named for part in (("ep", "idp") if axis == "dp" else (axis,)))


def sequence_of(workload: Transformer) -> int:
    """Tokens of a sample: the workload's, else the model's."""
    if workload.seq is not None:
        return workload.seq
    found = getattr(workload.model, "seq", None)
    if not isinstance(found, int):
        raise InputError("workload.seq", "is missing", expected="tokens of a sample; the model does not say")
    return found


def _once(pieces: ModelPieces) -> tuple[BlockPieces, ...]:
    """Where first and last block are on one stage, tied weights are there once."""
    return tuple(replace(block, weights=tuple(weight for weight in block.weights if weight.name not in pieces.tied))
                 if number in pieces.last else block for number, block in enumerate(pieces.blocks))


def _shared(workload: Transformer, pieces: ModelPieces) -> Mapping[int, float]:
    """Elements of the weights of a last block that the first one of the same stage holds."""
    if workload.pp > 1:
        return {}
    return {number: sum(weight.elements for weight in pieces.blocks[number].weights if weight.name in pieces.tied)
            for number in pieces.last}


def _parts(workload: Transformer, pieces: ModelPieces) -> tuple[tuple[int, ...], ...]:
    """Blocks of every part of the model. Raises InputError where there are more parts than blocks."""
    parts, blocks = workload.pp * workload.virtual_stages, (*pieces.first, *pieces.layers, *pieces.last)
    if workload.stage_layers is not None:
        counts = _with_ends(pieces, workload.stage_layers)
    elif workload.stage_balance == "cost" or parts > len(pieces.layers):
        if parts > len(blocks):
            raise InputError("workload.pp", f"{parts} parts of {len(blocks)} blocks", expected=f"at most {len(blocks)}")
        counts = balanced([_flops(pieces.blocks[block]) for block in blocks], parts)
    else:
        counts = _with_ends(pieces, even_parts(len(pieces.layers), parts))
    ends = [*accumulate(counts)]
    return tuple([blocks[end - count:end] for end, count in zip(ends, counts, strict=True)])


def _with_ends(pieces: ModelPieces, layers: Sequence[int]) -> list[int]:
    """Blocks of every part from its layers: the first has the embedding besides, the last the head."""
    if sum(layers) != len(pieces.layers):
        raise InputError("workload.stage_layers", f"{sum(layers)} layers in all", expected=str(len(pieces.layers)))
    counts = list(layers)
    counts[0] += len(pieces.first)
    counts[-1] += len(pieces.last)
    if not all(counts):
        raise InputError("workload.stage_layers", "a part without any block", expected="at least 1 layer in it")
    return counts


def _some(workload: Transformer, pieces: ModelPieces, plain: Sequence[BlockPieces], parts: tuple[tuple[int, ...], ...]
          ) -> tuple[ModelPieces, tuple[tuple[int, ...], ...]]:
    """Pieces and parts in which only some layers compute again; `plain` are the blocks that do not, in the same
    order."""
    inner, every, first = set(pieces.layers), workload.recompute_every, workload.recompute_first
    number, found = 0, []
    for part in parts:
        place, blocks = 0, []
        for block in part:
            again = block not in inner or ((number + 1) % every == 0 and (first is None or place < first))
            blocks.append(block if again else len(pieces.blocks) + block)
            number, place = number + (block in inner), place + (block in inner)
        found.append(tuple(blocks))
    layers = tuple(block for part in found for block in part if block % len(pieces.blocks) in inner)
    return replace(pieces, blocks=(*pieces.blocks, *plain), layers=layers), tuple(found)


def _flops(block: BlockPieces) -> int:
    """Forward and backward of one micro-batch."""
    return round(sum(step.flops for piece in (block.forward, block.backward) for step in piece.steps))


def even_parts(layers: int, parts: int) -> Sequence[int]:
    """Layers of each part: equal, and one more for the second part, the third, ..., the first, the last, until none is
    left.

    The first has the embedding besides, the last the head, which is the largest block of all.
    """
    if parts > layers:
        raise InputError("workload.pp", f"{parts} parts of {layers} layers", expected=f"at most {layers}")
    order = [*range(1, parts - 1), 0, parts - 1]
    extra = order[:layers % parts]
    return [layers // parts + (part in extra) for part in range(parts)]
