"""The memory behind recorded tensors: storages with their lifetimes, sizes and what to fill them with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, field

from astrarium.profile.execute.real.recorded import Recording, Ref, refs
from astrarium.profile.execute.real.resolve import Call

__all__ = ["Storage", "Storages", "storages"]

FLOATS = frozenset({"float", "double", "Half", "BFloat16", "Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz",
                    "Float8_e5m2fnuz", "complex<float>", "complex<double>"})
POSITIVE = frozenset({"running_var", "exp_avg_sqs", "max_exp_avg_sqs", "state_sums", "save_var", "save_invstd",
                      "invstd", "rstd", "probs"})
"""Arguments that hold squares, variances or probabilities."""
ROOTS = ("sqrt", "log", "pow", "multinomial", "bernoulli")      # in names of operators whose operand must be positive
INDEXED: Mapping[str, tuple[str, int]] = {
    "embedding": ("weight", 0), "embedding_dense_backward": ("num_weights", 0), "_embedding_bag": ("weight", 0),
    "nll_loss_forward": ("self", 1), "nll_loss_backward": ("self", 1), "nll_loss2d_forward": ("self", 1),
    "nll_loss2d_backward": ("self", 1)}
"""Operator -> the argument, and its dimension, whose size bounds the operator's indices."""
BY_DIM = ("index_select", "gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "index_add_", "index_add",
          "index_copy_", "gather_backward")      # `self` at their argument `dim` bounds them
WRITERS = frozenset({"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_"})
ENDS = "offs"       # of groups: the first is not 0
OFFSETS = (ENDS, "offsets", "cum_seq_q", "cum_seq_k", "cu_seqlens_q", "cu_seqlens_k")
ANY = 1 << 62


class Storage(Struct):
    """One lifetime of a piece of memory. `given`: it was there before the first call, and stays; else the call that
    makes it is `born`, and it ends after `uses` uses. `bound`: of indices in it (they are below); `total`: it holds
    offsets up to that, from 0 on unless they are `ends`; `positive`: no value below 0; `blank`: the first call that
    takes it writes all of it (None: no call takes it); `written`: some call does."""

    device: str
    dtype: str
    born: int = -1
    last: int = -1
    bytes: int = 0
    uses: int = 0
    bound: int = ANY
    total: int = 0
    ends: bool = False
    positive: bool = False
    blank: bool | None = None
    written: bool = False

    @property
    def given(self) -> bool:
        return self.born < 0


class Storages(Struct, frozen=True):
    """`of`: (call's node, recorded id) -> number of the storage that the id is in that call. `outputs`: node -> the
    recorded outputs of a call that is run, with the numbers of their storages. `uses`: node -> storage -> how often
    such a call names it."""

    all: list[Storage] = field(default_factory=list)
    of: dict[tuple[int, int], int] = field(default_factory=dict)
    outputs: dict[int, list[tuple[Ref, int]]] = field(default_factory=dict)
    uses: dict[int, dict[int, int]] = field(default_factory=dict)

    def peak(self, device: str) -> int:
        """Bytes at most at a time on `device` (cpu, cuda)."""
        now = sum(each.bytes for each in self.all if each.given and each.device == device)
        changes: dict[int, int] = {}
        for each in self.all:
            if not each.given and each.device == device:
                changes[2 * each.born] = changes.get(2 * each.born, 0) + each.bytes
                changes[2 * each.last + 1] = changes.get(2 * each.last + 1, 0) - each.bytes
        most = now
        for place in sorted(changes):
            now += changes[place]
            most = max(most, now)
        return most


def storages(found: Recording, calls: Mapping[int, Call], run: Collection[int]) -> Storages:
    """Storages of the calls in `run`; `calls` are all, since views and allocations say whose memory is whose.

    A recorded id is an address, which the allocator gives away again: a call whose output is at an address that none of
    its inputs has begins a new lifetime.
    """
    out, current = Storages(), dict[int, int]()
    for node in sorted(calls):
        operator, runs = found.operators[node], node in run
        inputs = list(refs(operator.inputs))
        mine = {ref.storage for ref in inputs}
        for ref in inputs:
            number = current.get(ref.storage)
            if number is None or not _same(out.all[number], ref):
                number = current[ref.storage] = _new(out, ref, -1)
            _use(out, number, ref, node, runs)
        results = []
        for ref in refs(operator.outputs):
            if ref.storage not in mine or ref.storage not in current:
                current[ref.storage] = _new(out, ref, node)
                mine.add(ref.storage)
            number = current[ref.storage]
            _use(out, number, ref, node, runs)
            out.all[number].written = out.all[number].written or runs
            results.append((ref, number))
        if runs:
            out.outputs[node] = results
            _contents(out, node, calls[node])
    return out


def _same(storage: Storage, ref: Ref) -> bool:
    """Whether a tensor can be in the memory that was last seen at its address. Numbers that PyTorch wraps as tensors of
    no dimension come and go without a call."""
    return storage.device == _device(ref) and (bool(ref.shape) or storage.dtype == ref.dtype)


def _device(ref: Ref) -> str:
    return ref.device.partition(":")[0]


def _new(out: Storages, ref: Ref, born: int) -> int:
    out.all.append(Storage(_device(ref), ref.dtype, born))
    return len(out.all) - 1


def _use(out: Storages, number: int, ref: Ref, node: int, runs: bool) -> None:
    storage = out.all[number]
    out.of[node, ref.storage] = number
    if runs:
        storage.bytes = max(storage.bytes, ref.extent)
        storage.last = node
        storage.uses += 1
        mine = out.uses.setdefault(node, {})
        mine[number] = mine.get(number, 0) + 1


def _contents(out: Storages, node: int, call: Call) -> None:
    """What the arguments of a call may hold."""
    base = call.known.name.partition("::")[2].partition(".")[0]
    arguments = dict(zip(call.names, call.values, strict=True))
    bound = _bound(base, arguments)
    for name, value in arguments.items():
        positive = name in POSITIVE or any(root in base for root in ROOTS)
        for ref in refs(value):
            storage = out.all[out.of[node, ref.storage]]
            storage.positive = storage.positive or positive
            if storage.blank is None:
                storage.blank = name == "out" or base in WRITERS
            if name in OFFSETS:
                storage.total, storage.ends = max(storage.total, _rows(arguments)), name == ENDS
            elif ref.dtype not in FLOATS:
                storage.bound = min(storage.bound, bound)


def _rows(arguments: Mapping[str, Any]) -> int:
    """Rows that offsets divide: those of the indices, else of the first tensor."""
    divided = refs(arguments["indices"]) if "indices" in arguments else refs(list(arguments.values()))
    first = next(divided, None)
    return first.shape[0] if first is not None and first.shape else 0


def _bound(base: str, arguments: Mapping[str, Any]) -> int:
    """Below which indices of the call must be: the indexed dimension, else the least of any float argument."""
    if base in INDEXED:
        name, dim = INDEXED[base]
        value = arguments.get(name)
        if isinstance(value, int):
            return max(value, 1)
        if isinstance(value, Ref) and len(value.shape) > dim:
            return max(value.shape[dim], 1)
    indexed, along = arguments.get("self"), arguments.get("dim")
    if base in BY_DIM and isinstance(indexed, Ref) and isinstance(along, int):
        sizes = indexed.shape[along:][:1]
        return max(sizes[0], 1) if sizes else 1
    known = [size for value in arguments.values() for ref in refs(value) if ref.dtype in FLOATS for size in ref.shape]
    return max(min(known, default=ANY), 1)
