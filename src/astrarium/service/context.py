"""What an operation has besides its request."""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

from astrarium.config.yamlfile import parse_yaml, read_text, to_yaml
from astrarium.errors import InputError
from astrarium.service.answer import Progress
from astrarium.service.folder import Folder
from astrarium.service.limits import Limits

if TYPE_CHECKING:
    from astrarium.design import Design
    from astrarium.lower.kept import Kept
    from astrarium.serving.serve import Serving

__all__ = ["Context"]

CACHED = 64     # objects of a kind
Found = TypeVar("Found")


def _silent(_: Progress) -> None:
    """Nobody listens."""


class Context(Struct, frozen=True, dict=True):
    """`folder`, which is the current one; `limits`; `tell`, which sends progress; `held`: what the worker keeps between
    operations by name, such as an open study."""

    folder: Folder
    limits: Limits = Limits()
    tell: Callable[[Progress], None] = _silent
    held: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def kept(self) -> Kept:
        """Caches of earlier designs in this worker."""
        from astrarium.lower.kept import Kept

        found: Kept = self.held.setdefault("kept", Kept())
        return found

    def cached(self, kind: str, key: Hashable, make: Callable[[], Found]) -> Found:
        """What `make` gives, or gave for this key; the ones that were used least recently are forgotten."""
        known: OrderedDict[Hashable, Found] = self.held.setdefault(kind, OrderedDict())
        if key not in known:
            known[key] = make()
            if len(known) > CACHED:
                known.popitem(last=False)
        known.move_to_end(key)
        return known[key]

    def file(self, given: str | Mapping[str, Any], path: str = "design") -> str:
        """The name of a file that a client names, or gives as text (YAML) or as an object: these are saved first, under
        a name that follows from their content. Raises InputError."""
        if isinstance(given, str) and "\n" not in given.strip():
            self.folder.path(given, path)
            return given
        plain = parse_yaml(given, path).data if isinstance(given, str) else given
        if not isinstance(plain, dict) or not plain:
            raise InputError(path, f"{str(plain)[:60]!r} is not a mapping",
                             expected="the name of a file in the folder, or its content (YAML text or an object)")
        try:
            text = to_yaml(plain)
        except RecursionError:
            raise InputError(path, "is nested too deeply") from None
        parse_yaml(text, path)      # depth and sizes, as of any file
        return self.folder.keep(text, path)

    def design(self, name: str, changes: Mapping[str, Any]) -> Design:
        """The design in a file, with changes (path -> value); those of the last files are cached. Raises InputError."""
        from astrarium.config import replace_all
        from astrarium.design import load_design

        about = os.stat(self.folder.path(name, "design"))
        base = self.cached("designs", (name, about.st_mtime_ns, about.st_size), lambda: _unless_files(name))
        if base is None:
            return load_design(name, changes)
        return replace_all(base, changes) if changes else base

    def is_serving(self, name: str) -> bool:
        """Whether a file is a serving file."""
        about = os.stat(self.folder.path(name, "design"))

        def has_requests() -> bool:
            found = parse_yaml(read_text(name), name).data
            return isinstance(found, dict) and "requests" in found
        return self.cached("serving", (name, about.st_mtime_ns, about.st_size), has_requests)

    def serving(self, name: str, changes: Mapping[str, Any]) -> tuple[Serving, Mapping[str, Any]]:
        """A serving file with changes (path -> value), and those of them that are of its design. Raises InputError."""
        from astrarium.design import Design
        from astrarium.serving import load_serving

        of_design = {path: value for path, value in changes.items()
                     if re.split(r"[.\[]", path)[0] in Design.__struct_fields__}
        own = {path: value for path, value in changes.items() if path not in of_design}
        return load_serving(name, own, of_design), of_design

    def save(self, design: Design, name: str) -> str:
        """Write a design to a file; its name."""
        from astrarium.design import dump_design

        dump_design(design, self.folder.new(name))
        return name


def _unless_files(name: str) -> Design | None:
    """The design in a file; None where it names files, which may change, or is wrong, which changes may mend."""
    from astrarium.config.files import plain_with_files
    from astrarium.design import Design, load_design
    from astrarium.search.inputs import file_fields

    named = list[str]()

    def seen(file: str) -> str:
        named.append(file)
        return file

    try:
        plain_with_files(Design, parse_yaml(read_text(name), name).data, seen)
        found = load_design(name)
    except InputError:
        return None
    return None if named or any(file_fields(found)) else found
