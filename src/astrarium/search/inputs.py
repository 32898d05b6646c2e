"""Inputs of a study besides its plan: the version, the catalog, files, plug-ins, Python functions.

A study file records them as entry -> digest, and nothing is added to trials of other inputs.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import CodeType
from typing import Any

from astrarium import catalog, registry
from astrarium.catalog.files import VARIABLE
from astrarium.config import Config, replace_all, to_plain
from astrarium.config.spec import specs
from astrarium.search.choice import field_at
from astrarium.search.expression import Const, Op
from astrarium.search.goal import Goal
from astrarium.search.space import Space, space_plain

__all__ = ["Inputs", "differing", "digest_of", "file_fields", "files_of", "inputs_of", "of_values", "plugin_digests",
           "text_of_class", "text_of_function", "version_of"]

Inputs = Mapping[str, str]
"""Name of an input, for people -> its version, or its digest."""

BLOCK = 1 << 18         # bytes of a file read at a time
NAMED = 3               # entries that a message names
MISSING = "missing"
OURS = "astrarium"
CATALOG = os.path.dirname(catalog.__file__)
AGENT = "agent "        # of entries that say who searched, on which no value depends
PLAIN = (bool, int, float, str, bytes, type(None))


def inputs_of(space: Space, goal: Goal, agent: object = None) -> dict[str, str]:
    """The inputs of a study of `space` and `goal` by `agent`, now and on this machine, sorted by name."""
    configs = list(_configs(space, goal))
    found = {"Astrarium": _version(), **_catalog(), **_code(space, goal, configs, agent)}
    paths = {path for config in configs for _, path in _own_files(config)}
    for path in sorted({*paths, *_chosen_paths(space)}):
        for name in files_of(path) or [path]:
            found[f"file {name}"] = _file(name)
    for axis in space.axes:
        if whole := [value for value in axis.values if isinstance(value, Config)]:      # what names stand for
            found[f"values of {axis.name}"] = digest_of(map(to_plain, whole))
    for name, config in _cases(space, goal):
        found[f"case {name}"] = digest_of([to_plain(config)])
    return dict(sorted(found.items()))


def _code(space: Space, goal: Goal, configs: Sequence[Config], agent: object) -> dict[str, str]:
    """Digests of code outside Astrarium: classes of configurations and agents, installed plug-ins, functions of the
    goal."""
    agents = [agent] if isinstance(agent, Config) else []
    kinds = {("class ", type(each)) for each in configs} | {(AGENT, type(each)) for each in agents}
    text = repr((space_plain(space), goal.requirements, [each.measure for each in goal.objectives],
                 [each.tag for each in agents]))
    return {
        **{f"{word}{kind.__module__}.{kind.__qualname__}": digest_of([text_of_class(kind)])
           for word, kind in kinds if kind.__module__.partition(".")[0] != OURS},
        **{(AGENT if kind == "agent" else f"plug-in {kind}.") + name: digest
           for kind, name, digest in plugin_digests(text)},
        **{f"objective {each.name}": digest_of(text_of_function(each.measure))
           for each in goal.objectives if not isinstance(each.measure, str)}}


def differing(known: Inputs, now: Inputs) -> str:
    """Text about the entries in which two records differ; empty if they are equal."""
    names = [name for name in sorted({*known, *now}) if known.get(name) != now.get(name)]
    said = [_difference(name, known.get(name), now.get(name)) for name in names]
    more = len(said) - NAMED
    return ", ".join(said[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def of_values(inputs: Inputs) -> Inputs:
    """The entries on which values of trials depend: all but those of the agent."""
    return {name: digest for name, digest in inputs.items() if not name.startswith(AGENT)}


def _difference(name: str, known: str | None, now: str | None) -> str:
    if known is None or now is None:
        return f"{name} is {'new' if known is None else 'gone'}"
    if now == MISSING:
        return f"{name} is missing"
    return f"{name} was {known}, is {now}" if name == "Astrarium" else f"{name} has changed"


def files_of(path: str) -> list[str]:
    """The files of a file field: those of a pattern, the file itself, or one per rank of a prefix."""
    from astrarium.trace.rank_files import files_by_rank  # generated workloads do without it

    ranks = list(files_by_rank(path).values())
    return [path, *ranks] if os.path.isfile(path) else ranks


def file_fields(config: Config) -> Iterator[tuple[str, str]]:
    """Yield (dotted path, value) of every file field."""
    for where, each in _within(config, ""):
        for name, value in _own_files(each):
            yield f"{where}.{name}" if where else name, value


def _own_files(config: Config) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of the file fields of one configuration, without those of inner ones."""
    for spec in specs(type(config)):
        value = getattr(config, spec.name)
        if spec.knob.file and isinstance(value, str) and value:
            yield spec.name, value


def _within(value: object, path: str) -> Iterator[tuple[str, Config]]:
    """Yield (dotted path, configuration) of a value and of every configuration in it."""
    if isinstance(value, Config):
        yield path, value
        for spec in specs(type(value)):
            yield from _within(getattr(value, spec.name), f"{path}.{spec.name}" if path else spec.name)
    elif isinstance(value, tuple):
        for index, each in enumerate(value):
            yield from _within(each, f"{path}[{index}]")


def _configs(space: Space, goal: Goal) -> Iterator[Config]:
    """Yield every configuration in base, cases and choices."""
    roots = [space.base, *(design for _, design in _cases(space, goal)),
             *(value for axis in space.axes for value in axis.values if isinstance(value, (Config, tuple)))]
    for root in roots:
        for _, config in _within(root, ""):
            yield config


def _cases(space: Space, goal: Goal) -> Iterator[tuple[str, Config]]:
    if space.base is not None:
        for case in goal.cases:
            yield case.name, replace_all(space.base, case.changes)


def _chosen_paths(space: Space) -> Iterator[str]:
    """Yield the files among the values of choices, and in the expressions of derived values."""
    for axis in space.axes:
        if any(each.knob.file for each in axis.fields):
            yield from (value for value in axis.values if isinstance(value, str) and value)
    for path in space.scope.derived:
        if space.base is not None and field_at(space.base, path, {}).knob.file:
            yield from _words(space.scope.meaning(path)[0])


def _words(node: object) -> Iterator[str]:
    if isinstance(node, Const) and isinstance(node.value, str):
        yield node.value
    for each in node.args if isinstance(node, Op) else ():
        yield from _words(each)


def _file(path: str) -> str:
    """SHA-256 of a file's content, shortened."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
    except (OSError, ValueError):       # ValueError: no file can have such a name
        return MISSING
    return digest.hexdigest()[:32]


def _version() -> str:
    """The version; between releases with a digest of the code."""
    version = version_of(OURS)
    if version and "dev" not in version:
        return version
    return f"{version} (code {_folder(os.path.dirname(CATALOG), ('.py', '.so', '.pyd'))[:8]})".lstrip()


def _catalog() -> dict[str, str]:
    """Digests of the package's catalog, and of the user's catalog files."""
    beside = os.environ.get(VARIABLE, "").split(os.pathsep)
    return {"the catalog": _folder(CATALOG, (".toml", ".npz")),
            **{f"catalog {path}": _file(path) for path in beside if path}}


def _folder(folder: str, ends: tuple[str, ...]) -> str:
    """The digest of the files in and below a folder whose names end with one of `ends`."""
    names = sorted(os.path.join(where, name) for where, _, found in os.walk(folder) for name in found
                   if name.endswith(ends))
    return digest_of((os.path.relpath(name, folder), _file(name)) for name in names)


def digest_of(parts: Iterable[object]) -> str:
    """SHA-256 of plain data, shortened."""
    return hashlib.sha256(json.dumps(list(parts), default=str).encode()).hexdigest()[:32]


def text_of_function(function: Callable[..., Any]) -> Iterator[str]:
    """Yield the compiled code of a function, its defaults and its plain closure values, without functions it calls."""
    if isinstance(function, partial):
        yield from text_of_function(function.func)
        yield from _plain((*function.args, *sorted(function.keywords.items())))
        return
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    if isinstance(code, CodeType):
        yield from _code_text(code)
    yield from _plain(getattr(function, "__defaults__", None) or ())
    for cell in getattr(function, "__closure__", None) or ():
        yield from _plain([cell.cell_contents])


def _code_text(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield " ".join(code.co_names)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _code_text(each)
        else:
            yield repr(sorted(map(repr, each)) if isinstance(each, frozenset) else each)


def _plain(values: Iterable[object]) -> Iterator[str]:
    """Yield the text of values that are numbers or text, or tuples of them; other values have no stable text."""
    for each in values:
        if isinstance(each, tuple):
            yield from _plain(each)
        elif isinstance(each, PLAIN):
            yield repr(each)


def text_of_class(kind: type) -> str:
    """The source of the module of a class; of a class in the running script, the source of the class."""
    import inspect  # rarely needed

    try:
        module = inspect.getmodule(kind)
        return inspect.getsource(kind if module is None or kind.__module__ == "__main__" else module)
    except (OSError, TypeError):
        return ""


def plugin_digests(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, name, digest) of installed plug-ins whose name occurs in `text`. The digest is of the package's
    version and the module's source."""
    words = set(re.findall(r"[\w-]+", text))
    for kind in registry.kinds():
        for name, entry in registry.entries(kind).items():
            if entry.package and name in words:
                yield kind, name, digest_of([version_of(entry.package), _module(entry.target.partition(":")[0])])


def version_of(package: str) -> str:
    """The version of an installed package; empty if it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _module(name: str) -> str:
    """The source of a module; empty if it has none, or cannot be imported."""
    import inspect

    try:
        return inspect.getsource(importlib.import_module(name))
    except (ImportError, OSError, TypeError):
        return ""
