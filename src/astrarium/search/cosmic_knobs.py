"""Read COSMIC's knob files (Parameter Set schema of the public ArchGym code) as spaces.

Such a file is Python that assigns dictionaries and lists of plain values; only those are read, nothing is executed:

    SYSTEM_KNOBS, NETWORK_KNOBS, WORKLOAD_KNOBS = {name: (range, mode), ...}
        range: a set of values, or (min, max, step)
        mode: 'N/A' a scalar, 'TRUE' one value for all dims, 'FALSE' one per dim
    DERIVED_KNOBS = [rule names]
    CONSTRAINTS = ["product SECTION KNOB OP num SECTION KNOB", "mult SECTION KNOB SECTION KNOB ... OP num SECTION KNOB"]
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from astrarium.config.yamlfile import read_text
from astrarium.design import Design
from astrarium.errors import InputError, nearest
from astrarium.search.choice import Choice
from astrarium.search.space import Space

__all__ = ["KnobFile", "parse_knobs", "read_knobs", "space_of_knobs"]

SECTIONS = {"SYSTEM_KNOBS": "system", "NETWORK_KNOBS": "network", "WORKLOAD_KNOBS": "workload"}
LISTS = ("DERIVED_KNOBS", "CONSTRAINTS")
LARGEST = 10_000      # values of one range

_SHAPES = {"Ring": "ring", "Switch": "switch", "FullyConnected": "fully_connected"}
_ALGORITHMS = {"ring": "ring", "direct": "direct", "halvingDoubling": "halving_doubling",
               "doubleBinaryTree": "double_binary_tree"}
_ONE = re.compile(r"[A-Za-z0-9_-]+")


def _same(value: Any) -> Any:
    return value


def _unit(unit: str) -> Callable[[Any], str]:
    return lambda value: f"{value} {unit}"


def _named(names: Mapping[str, str]) -> Callable[[Any], str]:
    def change(value: Any) -> str:
        if value not in names:
            raise InputError("", f"{value!r} is not known", expected="one of " + ", ".join(names),
                             did_you_mean=nearest(str(value), names))
        return names[value]
    return change


_KNOBS: dict[tuple[str, str], tuple[str, Callable[[Any], Any]]] = {
    ("network", "topology"): ("network.dims[*].shape", _named(_SHAPES)),
    ("network", "npus-count"): ("network.dims[*].npus", _same),
    ("network", "bandwidth"): ("network.dims[*].bandwidth", _unit("GB/s")),
    ("network", "latency"): ("network.dims[*].latency", _unit("ns")),
    ("system", "scheduling-policy"): ("collective.scheduling", _named({"LIFO": "lifo", "FIFO": "fifo"})),
    ("system", "preferred-dataset-splits"): ("collective.chunks", _same),
    ("system", "active-chunks-per-dimension"): ("collective.active_chunks", _same),
    ("system", "endpoint-delay"): ("collective.endpoint_delay", _unit("ns")),
    ("system", "collective-optimization"): ("collective.composition",
                                            _named({"baseline": "baseline", "localBWAware": "blueconnect"})),
    ("system", "peak-perf"): ("compute.peak", _unit("TFLOP/s")),
    ("system", "local-mem-bw"): ("memory.bandwidth", _unit("GB/s")),
    **{("system", f"{op.replace('_', '-')}-implementation"): (f"collective.{op}[*]", _named(_ALGORITHMS))
       for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")},
    ("workload", "dp"): ("workload.dp", _same),
    ("workload", "sp"): ("workload.sp", _same),
    ("workload", "pp"): ("workload.pp", _same),
    ("workload", "batch"): ("workload.global_batch", _same),
    ("workload", "weight_sharded"): ("workload.zero", lambda value: {0: 0, 1: 3}[value]),
}
_BY_SHAPE = "if(network.dims[*].shape == 'ring', 'ring', if(network.dims[*].shape == 'switch', " \
            "'halving_doubling', 'direct'))"
_OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


class KnobFile(Struct, frozen=True):
    """The content of a knob file: section -> name -> (values, mode), rule names, constraint lines."""

    name: str
    knobs: Mapping[str, Mapping[str, tuple[tuple[Any, ...], str]]]
    derived: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


def read_knobs(path: str | os.PathLike[str]) -> KnobFile:
    """Read a knob file. Raises InputError with the line."""
    name = os.fspath(path)
    return parse_knobs(read_text(name), name)


def parse_knobs(text: str, name: str = "") -> KnobFile:
    """Parse the text of a knob file; nothing in it is executed. Raises InputError with the line."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(name, f"is not Python ({error})") from None
    knobs: dict[str, dict[str, tuple[tuple[Any, ...], str]]] = {}
    lists: dict[str, tuple[str, ...]] = {}
    for statement in tree.body:
        target = _target(statement)
        if target in SECTIONS:
            knobs[SECTIONS[target]] = _section(_literal(statement, name), f"{name}:{statement.lineno}", target)
        elif target in LISTS:
            found = _literal(statement, name)
            if not isinstance(found, (list, tuple, set)) or not all(isinstance(each, str) for each in found):
                raise InputError(f"{name}:{statement.lineno}: {target}", "is not a list of texts")
            lists[target] = tuple(sorted(found) if isinstance(found, set) else found)
    if not knobs:
        raise InputError(name, "holds no knobs", expected=" or ".join(SECTIONS))
    return KnobFile(name, knobs, lists.get("DERIVED_KNOBS", ()), lists.get("CONSTRAINTS", ()))


def _target(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return ""


def _literal(statement: ast.stmt, name: str) -> Any:
    assert isinstance(statement, ast.Assign)
    try:
        return ast.literal_eval(statement.value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise InputError(f"{name}:{statement.lineno}", "is not plain data",
                         expected="dictionaries, sets, lists, numbers and texts written out") from None


def _section(found: Any, where: str, target: str) -> dict[str, tuple[tuple[Any, ...], str]]:
    if not isinstance(found, dict):
        raise InputError(f"{where}: {target}", "is not a dictionary")
    section = {}
    for key, entry in found.items():
        if not isinstance(entry, tuple) or len(entry) != 2 or entry[1] not in ("N/A", "TRUE", "FALSE"):
            raise InputError(f"{where}: {target}[{key!r}]", "is not (range, mode)",
                             expected="a set or (min, max, step), and 'N/A', 'TRUE' or 'FALSE'")
        section[str(key)] = (_range(entry[0], f"{where}: {target}[{key!r}]"), entry[1])
    return section


def _range(found: Any, where: str) -> tuple[Any, ...]:
    if isinstance(found, (set, frozenset, list)):
        return tuple(sorted(found, key=lambda each: (isinstance(each, str), each)))
    if isinstance(found, tuple) and len(found) == 3 and all(isinstance(each, (int, float)) for each in found):
        low, high, step = found
        if step > 0 and 0 <= (high - low) / step < LARGEST:
            return tuple(low + index * step for index in range(int((high - low) // step) + 1))
    raise InputError(where, f"{str(found)[:60]} is not a range", expected="a set, or (min, max, step)")


class _Made(Struct):
    choices: dict[str, Any] = field(default_factory=dict)
    derived: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)


def space_of_knobs(file: KnobFile, base: Design, *, fully_connected_links: int | None = None) -> Space:
    """Make the space of a knob file around `base`, whose dims are the file's dims and whose NPUs are its `num_npus`.

    tp is derived from dp, sp and pp. Under the rule `network bandwidth divided` the bandwidths are those of an NPU; the
    public code divides those of a fully connected dim by 7 whatever its size (`fully_connected_links=7`), the talk by
    n - 1 (None). Raises InputError for a knob, rule or constraint without a counterpart.
    """
    made = _Made()
    for section, knobs in file.knobs.items():
        for name, (values, mode) in knobs.items():
            _add(made, file, section, name, values, mode)
    for rule in file.derived:
        _derive(made, file, rule, base, fully_connected_links)
    if {"workload.dp", "workload.sp", "workload.pp"} & set(made.choices):
        made.derived["workload.tp"] = f"{base.network.npus} // (workload.dp * workload.sp * workload.pp)"
    where = [_constraint(file, line, base) for line in file.constraints]
    return Space(base, made.choices, where, made.derived, made.variables)


def _add(made: _Made, file: KnobFile, section: str, name: str, values: Sequence[Any], mode: str) -> None:
    where = f"{file.name}: {section} {name}"
    if (section, name) not in _KNOBS:
        known = [key for kind, key in _KNOBS if kind == section]
        raise InputError(where, "has no counterpart here", expected="one of " + ", ".join(known),
                         did_you_mean=nearest(name, known))
    path, change = _KNOBS[section, name]
    try:
        typed = [change(value) for value in values]
    except (InputError, KeyError) as error:
        raise InputError(where, error.message if isinstance(error, InputError) else f"{error} is not known",
                         expected=error.expected if isinstance(error, InputError) else None) from None
    made.choices[path] = Choice(values=typed, shared=mode == "TRUE" and "[*]" in path)


def _derive(made: _Made, file: KnobFile, rule: str, base: Design, links: int | None) -> None:
    if rule == "network bandwidth divided" and links is None:
        made.choices["network.dims[*].bandwidth_per_npu"] = made.choices.pop("network.dims[*].bandwidth")
    elif rule == "network bandwidth divided":
        given = made.choices.pop("network.dims[*].bandwidth")
        for index in range(len(base.network.dims)):
            shape, name = f"network.dims[{index}].shape", f"bandwidth{index}"
            made.variables[name] = [float(str(value).split()[0]) for value in given.values]
            made.derived[f"network.dims[{index}].bandwidth"] = \
                f"{name} / if({shape} == 'ring', 2, if({shape} == 'fully_connected', {links}, 1))"
    elif rule == "system implementations":
        made.derived |= {f"collective.{op}[*]": "collective.all_reduce[*]" for op in _OPS[1:]}
    elif rule.endswith("-implementation") and rule.removeprefix("system ").removesuffix("-implementation") in (
            op.replace("_", "-") for op in _OPS):
        op = rule.removeprefix("system ").removesuffix("-implementation").replace("-", "_")
        made.derived[f"collective.{op}[*]"] = _BY_SHAPE
    else:
        raise InputError(f"{file.name}: DERIVED_KNOBS", f"{rule!r} has no counterpart here",
                         expected="network bandwidth divided, system implementations, or system OP-implementation")


def _constraint(file: KnobFile, line: str, base: Design) -> str:
    """Translate one line of the mini-language to an expression."""
    where = f"{file.name}: CONSTRAINTS"
    words = line.split()
    at = next((index for index, word in enumerate(words) if word in ("<=", ">=", "==", "<", ">")), 0)
    left, right = words[:at], words[at + 1:]
    if len(left) < 3 or left[0] not in ("product", "mult") or not len(left) % 2 or len(right) not in (2, 3):
        raise InputError(where, f"{line!r} is not understood",
                         expected="product SECTION KNOB OP num SECTION KNOB, or mult SECTION KNOB ... OP num ...")
    pairs = list(zip(left[1::2], left[2::2]))
    terms = [_path(file, section, knob) for section, knob in pairs]
    return f"product({', '.join(terms)}) {words[at]} {_number(file, right, base)}"


def _number(file: KnobFile, words: Sequence[str], base: Design) -> str:
    if words[0] != "num" or not all(_ONE.fullmatch(word) for word in words[1:]):
        raise InputError(f"{file.name}: CONSTRAINTS", f"{' '.join(words)!r} is not understood",
                         expected="num SECTION KNOB, or num NUMBER")
    if len(words) == 2 and words[1].isdecimal():
        return words[1]
    if tuple(words[1:]) == ("workload", "num_npus"):
        return str(base.network.npus)
    return _path(file, words[1], words[-1])


def _path(file: KnobFile, section: str, knob: str) -> str:
    if (section, knob) not in _KNOBS:
        raise InputError(f"{file.name}: CONSTRAINTS", f"there is no {section} {knob}",
                         did_you_mean=nearest(knob, [key for _, key in _KNOBS]))
    return _KNOBS[section, knob][0]
