"""What answers of one worker share."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from astrarium.config import replace_all
from astrarium.config.yamlfile import scalar
from astrarium.design import Design, load_design
from astrarium.errors import InputError
from astrarium.result import Result
from astrarium.service.context import Context
from astrarium.service.web.answers.axes import followed
from astrarium.service.web.answers.safe import refuse_code
from astrarium.simulate import simulate

__all__ = ["Caches", "Changed"]

DESIGNS, RESULTS = 32, 64       # cached


class Changed:
    """A design of a file with changes: `sets` as they were asked for, `also` what follows from them."""

    def __init__(self, base: Design, design: Design, sets: Mapping[str, str], also: Mapping[str, str]):
        self.base, self.design, self.sets, self.also = base, design, dict(sets), dict(also)


class Caches:
    """Designs by file and time of its change, results by design, and what runs share."""

    def __init__(self, context: Context):
        self.folder, self.kept = context.folder, context.kept
        self._designs: OrderedDict[tuple[str, float], Design] = OrderedDict()
        self._results: OrderedDict[Design, Result] = OrderedDict()

    def base(self, name: str) -> Design:
        """The design in a file of the folder. Raises InputError."""
        path = self.folder.path(name, "design")
        key = name, os.stat(path).st_mtime
        if key not in self._designs:
            found = load_design(os.path.relpath(path, self.folder.root))
            refuse_code(found)
            self._designs[key] = found
            if len(self._designs) > DESIGNS:
                self._designs.popitem(last=False)
        self._designs.move_to_end(key)
        return self._designs[key]

    def changed(self, name: str, sets: Mapping[str, str]) -> Changed:
        """The design of a file with `sets` (path of a knob -> value as text). Raises InputError for another path."""
        from astrarium.service.web.answers.knobs import knobs_of

        base = self.base(name)
        if not sets:
            return Changed(base, base, {}, {})
        known = {knob.path for knob in knobs_of(base)}
        for path in sets:
            if path not in known:
                raise InputError(path[:200], "is no knob of this design", expected="one of those on its page")
        also = followed(base, sets)
        values: dict[str, Any] = {path: scalar(text) for path, text in {**sets, **also}.items()}
        design = replace_all(base, values)
        refuse_code(design)
        return Changed(base, design, sets, also)

    def result(self, design: Design) -> Result:
        """The run of a design. Raises InputError."""
        if design not in self._results:
            self._results[design] = simulate(design, kept=self.kept)
            if len(self._results) > RESULTS:
                self._results.popitem(last=False)
        self._results.move_to_end(design)
        return self._results[design]
