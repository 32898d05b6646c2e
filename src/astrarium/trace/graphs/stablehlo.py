"""StableHLO text (JAX, TensorFlow) to a trace: products, elementwise operations, reductions and collectives."""

from __future__ import annotations

import os
import re
from math import prod

from astrarium.errors import InputError, UnsupportedError, nearest
from astrarium.trace.graphs.hlo_custom import custom_flops, only_marks
from astrarium.trace.graphs.hlo_partition import MARK, Partitions
from astrarium.trace.graphs.hlo_scalars import scalar
from astrarium.trace.graphs.hlo_text import Function, Operation, blocks, functions, loop_regions, region
from astrarium.trace.graphs.nodes import GraphTrace, Maker, Tensor
from astrarium.trace.readers import Data, Read, TraceReader
from astrarium.vocab import CommOp

__all__ = ["READER", "stablehlo_text", "stablehlo_trace"]

ELEMENTWISE = frozenset({
    "abs", "add", "and", "atan2", "cbrt", "ceil", "clamp", "compare", "complex", "convert", "cosine",
    "count_leading_zeros", "divide", "exponential", "exponential_minus_one", "floor", "imag", "is_finite", "log",
    "log_plus_one", "logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power", "real",
    "reduce_precision", "remainder", "round_nearest_afz", "round_nearest_even", "rsqrt", "select", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "sign", "sine", "sqrt", "subtract", "tan", "tanh", "xor",
    # chlo
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i1e", "conj", "cosh", "digamma", "erf", "erf_inv",
    "erfc", "is_inf", "is_neg_inf", "is_pos_inf", "lgamma", "next_after", "polygamma", "sinh", "square", "zeta"})
MOVING = frozenset({
    "broadcast_in_dim", "concatenate", "dynamic_slice", "dynamic_update_slice", "gather", "iota", "pad", "reverse",
    "scatter", "slice", "transpose", "rng", "rng_bit_generator", "sort", "top_k"})
FREE = frozenset({
    "constant", "reshape", "bitcast_convert", "tuple", "get_tuple_element", "optimization_barrier", "partition_id",
    "replica_id", "create_token", "after_all"})
REDUCING = frozenset({"reduce", "reduce_window"})
COLLECTIVES = {"all_reduce": CommOp.ALL_REDUCE, "all_gather": CommOp.ALL_GATHER,
               "reduce_scatter": CommOp.REDUCE_SCATTER, "all_to_all": CommOp.ALL_TO_ALL,
               "collective_broadcast": CommOp.BROADCAST}
PERMUTE = "collective_permute"
CUSTOM = "custom_call"
MANUAL = ("shmap_body", "xmap_body")      # functions that older releases of JAX make of shard_map's bodies
LOOP, BRANCHES = "while", ("case", "if")
KNOWN = ELEMENTWISE | MOVING | FREE | REDUCING | frozenset(COLLECTIVES) | {
    "dot_general", "convolution", PERMUTE, CUSTOM, LOOP, *BRANCHES}
RETURNS = ("return", "func.return", "stablehlo.return", "sdy.return")
DEPTH = 64         # calls inside calls
MOST = 10_000_000  # operations after calls are expanded
LARGEST = 1 << 30  # bytes of a text

_GROUPS = re.compile(r"replica_groups\s*=\s*dense<(.*?)>\s*:\s*tensor<(\d+)x(\d+)xi64>", re.DOTALL)
_PAIRS = re.compile(r"source_target_pairs\s*=\s*dense<(.*?)>", re.DOTALL)
_DIMS = re.compile(r"(batching|contracting)_dims\s*=\s*\[([\d, ]*)\]\s*x\s*\[([\d, ]*)\]")
_LHS = re.compile(r"lhs_contracting_dimensions\s*=\s*\[([\d, ]*)\]")
_CALLEE = re.compile(r"@([\w.$-]+)")


def stablehlo_trace(path: str | os.PathLike[str], *, rank: int = 0, entry: str = "main") -> GraphTrace:
    """The trace of `rank` of a module in a text file; see `stablehlo_text`."""
    where = os.fspath(path)
    try:
        with open(where, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise InputError(where, f"cannot be read as text ({error})", expected="StableHLO text") from None
    return stablehlo_text(_decoded(data, where), where, rank=rank, entry=entry)


def _decoded(data: Data, where: str) -> str:
    if len(data) > LARGEST:
        raise InputError(where, "is larger than 1 GiB", expected="one module")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(where, f"cannot be read as text ({error})", expected="StableHLO text") from None


def _read(data: Data, where: str, rank: int) -> Read:
    return Read(stablehlo_text(_decoded(data, where), where, rank=rank).encode())


READER = TraceReader(lambda head: b"stablehlo." in head and b"func.func" in head, _read)


def stablehlo_text(text: str, where: str = "stablehlo", *, rank: int = 0, entry: str = "main") -> GraphTrace:
    """The trace of `rank` (`kind: post`) of a module's function `entry`; calls are expanded in place.

    Products have 2 FLOPs per multiply-add, reductions one per element read, other operations one per element; those
    that only move have none. Collectives carry the group of `rank` from `replica_groups` (all ranks where it is the
    only one), and their input's bytes; a permutation becomes a send and a receive. Raises InputError naming the line of
    what cannot be read, UnsupportedError naming an operation that is not known here. Loops whose number of turns the
    module itself says are unrolled, a branch that it chooses is taken; what depends on data is refused, and so is work
    that XLA partitions.
    """
    found = functions(text, where)
    if entry not in found:
        raise InputError(where, f"has no function @{entry}", expected=", ".join(sorted(found)[:8]),
                         did_you_mean=nearest(entry, found))
    maker = Maker("post", "StableHLO")
    reader = _Reader(found, maker, Partitions(text, where), rank)
    for argument in found[entry].arguments:
        maker.value(argument, ())
    reader.function(found[entry], "", 0)
    return maker.done()


class _Reader:
    def __init__(self, known: dict[str, Function], maker: Maker, partitions: Partitions, rank: int) -> None:
        self.known, self.maker, self.partitions, self.rank, self.count = known, maker, partitions, rank, 0
        self.where = partitions.where
        self.whole: dict[str, int] = {}        # values that the module computes from constants
        self.outer: dict[str, str] = {}        # scope of a region -> the scope around it, whose values it sees
        self.regions: dict[int, tuple[tuple[str, ...], Function, Function]] = {}

    def function(self, function: Function, scope: str, depth: int) -> list[str]:
        """Adds a function's operations; gives the values that it returns."""
        if depth > DEPTH:
            raise InputError(self.where, f"@{function.name} calls itself, or {DEPTH} calls deep")
        for operation in function.operations:
            if operation.name in RETURNS:
                return [self.key(operand, scope) for operand in operation.operands]
            self.count += 1
            if self.count > MOST:
                raise InputError(self.where, f"more than {MOST:,} operations")
            if operation.name in ("call", "func.call"):
                self.call(operation, scope, depth)
            elif operation.name == "sdy.manual_computation":
                self.partitions.enter(operation)
                self.inside(operation, region(operation, self.where), scope, scope, depth)
                self.partitions.manual -= 1
            elif operation.name.rpartition(".")[2] == LOOP:
                self.loop(operation, scope, depth)
            elif operation.name.rpartition(".")[2] in BRANCHES:
                self.branch(operation, scope, depth)
            else:
                self.operation(operation, scope)
        return []

    def call(self, operation: Operation, scope: str, depth: int) -> None:
        callee = _CALLEE.search(operation.text)
        inner = self.known.get(callee[1]) if callee else None
        if inner is None:
            raise InputError(f"{self.where}: line {operation.line}", "calls a function that is not there")
        manual = inner.name.startswith(MANUAL)
        self.partitions.manual += manual
        self.inside(operation, inner, scope, f"{scope}{operation.line}/", depth)
        self.partitions.manual -= manual

    def inside(self, operation: Operation, inner: Function, scope: str, inside: str, depth: int) -> None:
        """A function in place of the operation that runs it."""
        for argument, value in zip(inner.arguments, operation.operands, strict=False):
            self.same(inside + argument, self.key(value, scope))
        results = self.function(inner, inside, depth + 1)
        for result, value in zip(operation.results, results, strict=False):
            self.same(scope + result, value)

    def loop(self, operation: Operation, scope: str, depth: int) -> None:
        """A `while`, one turn after the other, as long as its condition follows from constants."""
        if id(operation) not in self.regions:
            self.regions[id(operation)] = loop_regions(operation, self.where)
        start, condition, body = self.regions[id(operation)]
        values = [self.key(each, scope) for each in start]
        for turn in range(MOST + 1):
            inside = f"{scope}{operation.line}.{turn}/"
            self.outer[inside] = scope
            for argument, other, value in zip(condition.arguments, body.arguments, values, strict=False):
                self.same(inside + argument, value)
                self.same(inside + other, value)
            again = self.function(condition, inside, depth + 1)
            decided = self.whole.get(again[0]) if again else None
            if decided is None:
                raise UnsupportedError(f"{self.where}: line {operation.line}", "a loop whose number of turns depends "
                                       "on data", expected="a loop that counts, as lax.scan and lax.fori_loop make")
            if not decided:
                break
            values = self.function(body, inside, depth + 1)
            self.count += 1
        for result, value in zip(operation.results, values, strict=False):
            self.same(scope + result, value)

    def branch(self, operation: Operation, scope: str, depth: int) -> None:
        """The branch that a constant chooses; of a case the last one where the number has none."""
        branches = blocks(operation, self.where)
        chosen = self.whole.get(self.key(operation.operands[0], scope)) if operation.operands else None
        if chosen is None or not branches:
            raise UnsupportedError(f"{self.where}: line {operation.line}", f"{operation.name}: which branch runs "
                                   "depends on data", expected="a branch that a constant chooses")
        if operation.name.endswith("if"):
            chosen = 1 - bool(chosen)
        inside = f"{scope}{operation.line}/"
        self.outer[inside] = scope
        taken = branches[chosen if 0 <= chosen < len(branches) else -1]
        for result, value in zip(operation.results, self.function(taken, inside, depth + 1), strict=False):
            self.same(scope + result, value)

    def key(self, operand: str, scope: str) -> str:
        """Where a value is: in its scope, or in one around it. `%5#1` is a separate result, or belongs to `%5`."""
        at: str | None = scope
        base = operand.partition("#")[0]
        while at is not None:
            for name in (operand, base):
                if self.maker.known(at + name):
                    return at + name
            at = self.outer.get(at)
        return scope + base

    def same(self, key: str, value: str) -> None:
        """`key` is another name of a value."""
        self.maker.value(key, [value])
        if value in self.whole:
            self.whole[key] = self.whole[value]
        else:
            self.whole.pop(key, None)

    def operation(self, operation: Operation, scope: str) -> None:
        dialect, _, word = operation.name.rpartition(".")
        if operation.name == MARK:
            self.same(scope + operation.results[0], self.key(operation.operands[0], scope))
            return
        if dialect not in ("stablehlo", "mhlo", "chlo") or word not in KNOWN:
            raise UnsupportedError(f"{self.where}: line {operation.line}", f"operation {operation.name}",
                                   expected="products, elementwise operations, reductions, movements, collectives",
                                   did_you_mean=nearest(word, KNOWN))
        key = scope + (operation.results[0] if operation.results else f"line {operation.line}")
        after = [self.key(operand, scope) for operand in operation.operands]
        inputs, outputs = _typed(operation)
        name = f"{word}.{key.removeprefix(scope).strip('%')}" if not scope else f"{word}.{scope}{operation.line}"
        number = scalar(word, operation, [self.whole.get(each) for each in after])
        free = number is not None or word in FREE or (word == CUSTOM and only_marks(operation))
        if not free:
            self.partitions.check(operation)
        if free:
            self.maker.value(key, after)
            if number is not None:
                self.whole[key] = number
        elif word in COLLECTIVES:
            self.maker.collective(key, name, COLLECTIVES[word], after, inputs, outputs, self.group(operation),
                                  op_type=operation.name)
        elif word == PERMUTE:
            self.permute(operation, key, name, after, inputs)
        else:
            self.maker.compute(key, name, operation.name, after, inputs, outputs,
                               _flops(word, operation, inputs, outputs, self.where), _moved(word, inputs, outputs))
        for result in operation.results:
            if scope + result != key:
                self.maker.value(scope + result, [key])

    def group(self, operation: Operation) -> str | None:
        """The replica group of this rank; None where one group has all. Groups have the same names on every rank."""
        found = _GROUPS.search(operation.text)
        if found is None:
            raise InputError(f"{self.where}: line {operation.line}", f"{operation.name} without replica_groups",
                             expected="replica_groups = dense<…> : tensor<GxNxi64>")
        rows, columns = int(found[2]), int(found[3])
        values = [int(each) for each in re.findall(r"-?\d+", found[1])]
        if len(values) != rows * columns:
            raise InputError(f"{self.where}: line {operation.line}", f"replica_groups with {len(values)} numbers",
                             expected=f"{rows} x {columns}")
        groups = [tuple(each for each in values[k * columns:(k + 1) * columns] if each >= 0) for k in range(rows)]
        own = next((group for group in groups if self.rank in group), None)
        if own is None:
            raise InputError("rank", f"{self.rank} is in no replica group of line {operation.line} of {self.where}")
        if rows == 1 and own == tuple(range(columns)):
            return None
        for group in groups:
            self.maker.group(group)
        return self.maker.group(own)

    def permute(self, operation: Operation, key: str, name: str, after: list[str], inputs: tuple[Tensor, ...]) -> None:
        found = _PAIRS.search(operation.text)
        values = [int(each) for each in re.findall(r"\d+", found[1])] if found else []
        pairs = list(zip(values[::2], values[1::2], strict=False))
        to = [target for source, target in pairs if source == self.rank]
        of = [source for source, target in pairs if target == self.rank]
        size = sum(tensor.bytes for tensor in inputs)
        self.maker.messages(key, name, after, to, of, size, operation.line)


def _typed(operation: Operation) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Inputs and outputs; the short form gives one type for all."""
    outputs = operation.outputs
    if operation.inputs:
        return operation.inputs, outputs
    if operation.name.endswith("select") and len(outputs) == 2:      # predicate, then the type of the rest
        return (outputs[0], outputs[1], outputs[1]), outputs[1:]
    if len(outputs) > 1 and len(outputs) == len(operation.operands):
        return outputs, outputs[-1:]
    return tuple(outputs[0] for _ in operation.operands) if outputs else (), outputs


def _flops(word: str, operation: Operation, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...],
           where: str) -> int | None:
    """FLOPs of products; None: one per element; 0 for movements."""
    if word == CUSTOM:
        return custom_flops(operation, inputs, f"{where}: line {operation.line}")
    if word == "dot_general":
        return 2 * outputs[0].elements * prod(inputs[0].shape[dim] for dim in _contracted(operation, where))
    if word == "convolution":
        kernel = re.search(r"x\[([^\]]*)\]->", operation.text)
        spots = [each.strip() for each in kernel[1].split(",")] if kernel else []
        if len(inputs) < 2 or "o" not in spots:
            raise InputError(f"{where}: line {operation.line}", "a convolution without dim_numbers",
                             expected="dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]")
        return 2 * outputs[0].elements * inputs[1].elements // inputs[1].shape[spots.index("o")]
    return 0 if word in MOVING else None


def _moved(word: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> int | None:
    """Bytes of what takes or changes a part of a tensor: that part, read and written (as XLA's own cost analysis has
    it); None: all inputs and outputs."""
    if word in ("slice", "dynamic_slice", "gather"):
        return sum(2 * each.bytes for each in outputs) + sum(each.bytes for each in inputs[1:] if word == "gather")
    if word == "dynamic_update_slice" and len(inputs) > 1:
        return 2 * inputs[1].bytes
    if word == "scatter" and len(inputs) == 3:
        return 2 * inputs[2].bytes + inputs[1].bytes
    return None


def _contracted(operation: Operation, where: str) -> list[int]:
    found = {match[1]: match[2] for match in _DIMS.finditer(operation.text)}
    generic = _LHS.search(operation.text)
    if "contracting" not in found and generic is None and "dot_dimension_numbers" not in operation.text:
        if "batching" in found:
            return []
        raise InputError(f"{where}: line {operation.line}", "dot_general without contracting_dims",
                         expected="contracting_dims = [1] x [0]")
    text = found.get("contracting", generic[1] if generic else "")
    return [int(each) for each in text.split(",") if each.strip()]
