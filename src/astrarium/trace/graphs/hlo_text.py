"""StableHLO text, read one operation at a time: results, name, operands, attributes, types."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from astrarium.errors import InputError
from astrarium.trace.graphs.nodes import Tensor

__all__ = ["Function", "Operation", "blocks", "functions", "loop_regions", "region", "tensor_type"]

WIDTHS = {"i1": 1.0, "i2": 0.25, "i4": 0.5, "i8": 1.0, "i16": 2.0, "i32": 4.0, "i64": 8.0, "f16": 2.0, "bf16": 2.0,
          "tf32": 4.0, "f32": 4.0, "f64": 8.0, "complex<f32>": 8.0, "complex<f64>": 16.0, "index": 8.0}
"""Bytes per element; f8…, f6… and f4… by their number. i1 takes a byte, as XLA stores it."""

LONGEST = 1 << 20      # characters of one operation
_TYPE = re.compile(r"tensor<((?:[0-9]+x)*)(complex<f\d+>|[a-z][a-zA-Z0-9]*)(?:,[^>]*)?>")
_HEAD = re.compile(r"^\s*(?:(%[\w.$-]+(?::\d+)?(?:\s*,\s*%[\w.$-]+)*)\s*=\s*)?\"?([\w.$-]+)\"?\s*(.*)$", re.DOTALL)
_MANUAL = re.compile(r"manual_axes=\{[^}]*\}\s*\(([^)]*)\)\s*\{(.*)\}\s*$", re.DOTALL)
_CARRIED = re.compile(r"(%[\w.$-]+)\s*=\s*(%[\w.$-]+(?:#\d+)?)")
_CARRIES = re.compile(r"\s*\(\s*%[\w.$-]+\s*=")
_BLOCK = re.compile(r"\s*\^\w+\(((?:[^()]|\([^()]*\))*)\)\s*:")
_BEHIND = re.compile(r"\s*(cond\s*\{|reducer\s*\()")
_VALUE = re.compile(r"%[\w.$-]+(?:#\d+)?")
_FUNCTION = re.compile(r"^\s*func\.func\s+(?:(?:public|private)\s+)?@([\w.$-]+)\((.*)$", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_LOCATION = re.compile(r"\s+loc\((?:[^()]|\([^()]*\))*\)\s*$")


class Operation(Struct, frozen=True):
    """One operation. `text` is all of it; `types` are behind its last colon; `line` counts from 1."""

    results: tuple[str, ...]
    name: str
    operands: tuple[str, ...]
    text: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    line: int


class Function(Struct, frozen=True):
    """Name, arguments, operations."""

    name: str
    arguments: tuple[str, ...]
    operations: tuple[Operation, ...]


def functions(text: str, where: str) -> dict[str, Function]:
    """The functions of a module. Raises InputError naming the line of what cannot be read."""
    out: dict[str, Function] = {}
    name, arguments, body = "", (), list[Operation]()
    for line, statement in _statements(text, where):
        begun = _FUNCTION.match(statement)
        if begun is not None:
            name, body = begun[1], []
            head = _arguments(begun[2])
            arguments = tuple(dict.fromkeys(_VALUE.findall(head)))
            out[name] = Function(name, arguments, ())
        elif name and statement.strip(" {}\t\n") and not statement.lstrip().startswith(("module", "#", "}", "//")):
            _append(body, statement, where, line)
            out[name] = Function(name, arguments, tuple(body))
            if body[-1].name in ("return", "func.return"):
                name = ""
    if not out:
        raise InputError(where, "has no func.func", expected="StableHLO text, as jax's lower(…).as_text() prints it")
    return out


def region(operation: Operation, where: str) -> Function:
    """The body of a `sdy.manual_computation`: what one device runs, as `shard_map` wrote it."""
    found = _MANUAL.search(operation.text)
    if found is None:
        raise InputError(f"{where}: line {operation.line}", "a manual_computation without a body")
    return Function(operation.name, tuple(dict.fromkeys(_VALUE.findall(found[1]))),
                    _body(found[2], where, operation.line))


def blocks(operation: Operation, where: str) -> list[Function]:
    """The regions of an operation in its general form, `"name"(…) ({…}, {…})`: the branches of a case, a loop's two."""
    start = operation.text.find("({")
    return [Function(operation.name, arguments, _body(text, where, operation.line))
            for arguments, text in _regions(operation.text[start + 1:] if start >= 0 else "")]


def loop_regions(operation: Operation, where: str) -> tuple[tuple[str, ...], Function, Function]:
    """What a `while` begins with, its condition and its body: both take the carried values as arguments."""
    if _CARRIES.match(operation.text) is None:
        start, found = tuple(operation.operands), blocks(operation, where)
    else:
        head, _, rest = operation.text.partition("\n")
        pairs = _CARRIED.findall(head)
        start, carried = tuple(each[1] for each in pairs), tuple(each[0] for each in pairs)
        found = [Function(operation.name, carried, _body(text, where, operation.line)) for _, text in _regions(rest)]
    if len(found) != 2 or any(len(each.arguments) != len(start) for each in found):
        raise InputError(f"{where}: line {operation.line}", "a while without its condition and body",
                         expected="stablehlo.while(%a = %b, …) : … cond {…} do {…}")
    return start, found[0], found[1]


def _regions(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """(arguments, statements) of every pair of outermost braces."""
    depth, start = 0, 0
    plain = _STRING.sub(lambda each: "_" * len(each[0]), text)
    for place, letter in enumerate(plain):
        if letter == "{":
            start, depth = (place + 1 if not depth else start), depth + 1
        elif letter == "}":
            depth -= 1
            if not depth:
                inside = text[start:place]
                head = _BLOCK.match(inside)
                yield (tuple(dict.fromkeys(_VALUE.findall(head[1]))), inside[head.end():]) if head else ((), inside)


def _body(text: str, where: str, line: int) -> tuple[Operation, ...]:
    body: list[Operation] = []
    for number, statement in _statements(text, where):
        if statement.strip():
            _append(body, statement, where, line + number)
    return tuple(body)


def _append(body: list[Operation], statement: str, where: str, line: int) -> None:
    """One more operation; the regions of a loop or reduction, printed behind its types, go to its text."""
    if body and _BEHIND.match(statement):
        body[-1] = replace(body[-1], text=f"{body[-1].text}\n{statement}")
    else:
        body.append(_operation(statement, where, line))


def _arguments(text: str) -> str:
    """The part of a signature inside its first pair of brackets."""
    depth = 1
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return text[:place]
    return text


def _statements(text: str, where: str) -> Iterator[tuple[int, str]]:
    """(line, text) of statements: lines, joined while brackets are open, regions of reductions among them."""
    held: list[str] = []
    depth, first = 0, 1
    for number, line in enumerate(text.splitlines(), 1):
        bare = _STRING.sub('""', line).partition("//")[0]
        opens_block = not held and (re.match(r"\s*(module\b|func\.func\b)", bare) is not None)
        if not held:
            first = number
        held.append(_LOCATION.sub("", line))
        if not opens_block or depth:
            plain = bare.replace("->", "")
            depth += sum(plain.count(c) for c in "({[<") - sum(plain.count(c) for c in ")}]>")
        if sum(map(len, held)) > LONGEST:
            raise InputError(f"{where}: line {first}", "an operation without an end", expected="balanced brackets")
        if depth <= 0:
            yield first, "\n".join(held)
            held, depth = [], 0
    if held:
        raise InputError(f"{where}: line {first}", "brackets are not closed", expected="a whole file")


def tensor_type(match: re.Match[str], where: str) -> Tensor:
    """A tensor type as shape, element type, bytes of an element."""
    dtype = match[2]
    width = WIDTHS.get(dtype)
    narrow = re.fullmatch(r"u?i(\d+)|f([468])E\w+", dtype)
    if width is None and dtype.startswith("ui"):
        width = WIDTHS.get(dtype[1:])
    if width is None and narrow is not None and narrow[2]:
        width = int(narrow[2]) / 8
    if width is None:
        raise InputError(where, f"element type {dtype}", expected=", ".join(WIDTHS))
    return Tensor(tuple(int(size) for size in match[1].split("x") if size), dtype, width)


def _types(text: str, where: str) -> tuple[Tensor, ...]:
    if "tensor<?" in text or re.search(r"tensor<[0-9x]*\?", text):
        raise InputError(where, "a dynamic shape", expected="static shapes")
    return tuple(tensor_type(found, where) for found in _TYPE.finditer(text))


def _operation(statement: str, where: str, line: int) -> Operation:
    place = f"{where}: line {line}"
    found = _HEAD.match(statement)
    if found is None:
        raise InputError(place, f"{statement.strip()[:60]!r}", expected="an operation: %0 = stablehlo.add %1, %2 : …")
    results: list[str] = []
    for each in (found[1] or "").split(","):
        name, _, count = each.strip().partition(":")
        results += [f"{name}#{k}" for k in range(min(int(count), 1 << 16))] if count else [name] if name else []
    head, tail = _split_types(found[3])
    into, arrow, out = tail.rpartition("->")
    inputs = _types(into, place) if arrow else ()
    outputs = _types(out, place)
    return Operation(tuple(results), found[2], tuple(_VALUE.findall(_outside(head))), head, inputs, outputs, line)


def _split_types(text: str) -> tuple[str, str]:
    """What is before and behind the last colon that is outside of brackets."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        letter = text[place]
        if letter in ")}]" or (letter == ">" and text[place - 1:place] != "-"):
            depth += 1
        elif letter in "({[<":
            depth -= 1
        elif letter == ":" and not depth:
            return text[:place], text[place + 1:]
    return text, ""


def _outside(text: str) -> str:
    """`text` without regions in braces, whose values are their own."""
    out, depth = [], 0
    for letter in text:
        depth += letter == "{"
        if not depth:
            out.append(letter)
        depth -= letter == "}" and depth > 0
    return "".join(out)
