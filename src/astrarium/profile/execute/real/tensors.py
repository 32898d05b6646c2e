"""Storages and tensors of a replay on a device, filled with random contents from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from astrarium.profile.execute.real.recorded import Ref
from astrarium.profile.execute.real.storages import ANY, FLOATS, Storage, Storages
from astrarium.trace._torch import torch_module

__all__ = ["Memory", "torch_dtype"]

DTYPES: Mapping[str, str] = MappingProxyType({
    "float": "float32", "double": "float64", "Half": "float16", "BFloat16": "bfloat16",
    "Float8_e4m3fn": "float8_e4m3fn", "Float8_e5m2": "float8_e5m2", "Float8_e4m3fnuz": "float8_e4m3fnuz",
    "Float8_e5m2fnuz": "float8_e5m2fnuz", "complex<float>": "complex64", "complex<double>": "complex128",
    "long int": "int64", "long": "int64", "int": "int32", "short int": "int16", "short": "int16",
    "signed char": "int8", "unsigned char": "uint8", "unsigned short": "uint16", "unsigned int": "uint32",
    "unsigned long": "uint64", "bool": "bool"})
"""Element types as PyTorch's profilers print them -> attribute of `torch`."""
SPREAD = 0.02        # standard deviation of floats: that of weights
SMALL_FLOAT = 0x30   # float8 of bytes below this: finite, at most 1
FEW = 2              # integers that no call is known to use as indices: 0 and 1


def torch_dtype(name: str) -> Any:
    """The dtype; KeyError where PyTorch has none of that name."""
    found = getattr(torch_module(), DTYPES[name], None)
    if found is None:
        raise KeyError(name)
    return found


class Memory:
    """Makes tensors of a replay. Storages that were there from the start stay; others are freed after their last use.

    `device`: cpu or cuda. Tensors that were recorded on the CPU stay there.
    """

    def __init__(self, plan: Storages, device: str) -> None:
        self._torch, self._plan, self._device = torch_module(), plan, device
        self._held: dict[int, Any] = {}
        self._left: dict[int, int] = {}
        self._tensors: dict[tuple[int, Ref], Any] = {}
        self._dtypes: dict[str, Any] = {}
        self._torch.manual_seed(0)

    def begin(self) -> None:
        """Before each execution: storages that are there from the start, as they were then."""
        self._left = {number: each.uses for number, each in enumerate(self._plan.all) if not each.given}
        self._held = {number: held for number, held in self._held.items() if number not in self._left}
        for number, each in enumerate(self._plan.all):
            if each.given and each.uses and (number not in self._held or each.written):
                self._fill(number, each)

    def tensor(self, node: int, ref: Ref) -> Any:
        """An argument of the call at `node`."""
        number = self._plan.of[node, ref.storage]
        storage = self._plan.all[number]
        if storage.given:
            key = number, ref
            made = self._tensors.get(key)
            if made is None:
                made = self._tensors[key] = self._made(number, ref)
            return made
        if number not in self._held:
            self._fill(number, storage)
        made = self._made(number, ref)
        if self._device == "cuda" and made.is_cuda:      # the host may free it while another stream still reads it
            made.record_stream(self._torch.cuda.current_stream())
        return made

    def ended(self, node: int, results: list[Any]) -> None:
        """After the call at `node`: results become the storages of its outputs; what no later call uses is freed."""
        left = list(results)
        for ref, number in self._plan.outputs.get(node, ()):
            storage = self._plan.all[number]
            found = next((each for each in left if tuple(each.shape) == ref.shape), None)
            if found is not None:
                left = [each for each in left if each is not found]
                if storage.born == node and found.untyped_storage().nbytes() >= storage.bytes:
                    self._held[number] = found.untyped_storage()
        for number, uses in self._plan.uses.get(node, {}).items():
            if number in self._left:
                self._left[number] -= uses
                if self._left[number] <= 0:
                    self._held.pop(number, None)

    def _made(self, number: int, ref: Ref) -> Any:
        dtype = self._dtypes.get(ref.dtype)
        if dtype is None:
            dtype = self._dtypes[ref.dtype] = torch_dtype(ref.dtype)
        empty = self._torch.empty(0, dtype=dtype, device=self._where(self._plan.all[number]))
        return empty.set_(self._held[number], ref.offset, ref.shape, ref.strides)

    def _where(self, storage: Storage) -> str:
        return self._device if storage.device != "cpu" else "cpu"

    def _fill(self, number: int, storage: Storage) -> None:
        torch, where = self._torch, self._where(storage)
        if number not in self._held:
            self._held[number] = torch.UntypedStorage(storage.bytes, device=where)
        dtype = torch_dtype(storage.dtype)
        count = storage.bytes // dtype.itemsize
        if not count:
            return
        if storage.blank and not storage.given and storage.dtype in FLOATS:
            return
        flat = torch.empty(0, dtype=dtype, device=where).set_(self._held[number], 0, (count,), (1,))
        if storage.dtype == "bool":
            flat.fill_(True)
        elif storage.dtype.startswith("Float8"):
            flat.view(torch.uint8).random_(0, SMALL_FLOAT)
        elif storage.dtype in FLOATS:
            flat.normal_(0.0, SPREAD) if count > 1 else flat.fill_(1.0)      # factors, steps, scales
            if storage.positive:
                flat.abs_()
        elif storage.total:
            first = storage.total / count if storage.ends else 0
            flat.copy_(torch.linspace(first, storage.total, count, device=where))
        elif dtype.itemsize <= 8 and dtype not in (torch.uint16, torch.uint32, torch.uint64):
            most = torch.iinfo(dtype).max
            flat.random_(0, min(storage.bound if storage.bound < ANY else FEW, most))
        else:
            flat.view(torch.uint8).zero_()
