"""A layout: how a training step is divided over NPUs, and every layout that a job allows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from astrarium.errors import InputError
from astrarium.planner.job import Job
from astrarium.planner.rules import UNEVEN_PARTS, Rule, Ruling, rulings
from astrarium.search import Space
from astrarium.search.constraints import ContradictionError
from astrarium.workload.schedule import load_schedule

__all__ = ["Allowed", "Layout", "layouts"]

Recompute = Literal["none", "selective", "operators", "full"]
USUAL = ("1f1b", "interleaved")
MOST = 8        # values of a part that a refusal names
NEAR = 4        # counts of NPUs on either side that it tries
DIVIDES = re.compile(r"""['"](\w+) % \(?(.+?)\)? == 0['"]""")


class Layout(Struct, frozen=True, order=True):
    """One parallelisation; ranks = tp * cp * pp * dp, ep is a part of dp. `tp_sequence` is Megatron's sequence
    parallelism. `schedule`: of the registry; left out: 1F1B, interleaved where `virtual_stages` is above 1."""

    tp: int = 1
    cp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    zero: int = 0
    micro_batch: int = 1
    recompute: Recompute = "none"
    virtual_stages: int = 1
    tp_sequence: bool = False
    schedule: str = ""

    def __str__(self) -> str:
        """`tp 8 sp, pp 4 x 5, dp 16, mb 1, zero 1, recompute selective`: what is 1, 0 or none is left out."""
        said = [f"tp {self.tp}" + (" sp" if self.tp_sequence else "")] if self.tp > 1 else []
        said += [f"cp {self.cp}"] if self.cp > 1 else []
        said += [f"pp {self.pp}" + (f" x {self.virtual_stages}" if self.virtual_stages > 1 else "")
                 + (f" {self.schedule}" if self.schedule else "")] if self.pp > 1 else []
        said += [f"dp {self.dp}"] + ([f"ep {self.ep}"] if self.ep > 1 else [])
        said += [f"mb {self.micro_batch}"] + ([f"zero {self.zero}"] if self.zero else [])
        return ", ".join(said + ([f"recompute {self.recompute}"] if self.recompute != "none" else []))

    @property
    def ranks(self) -> int:
        """NPUs that it needs."""
        return self.tp * self.cp * self.pp * self.dp

    @property
    def parts(self) -> int:
        """Parts that the model is divided into."""
        return self.pp * self.virtual_stages

    @property
    def plain(self) -> dict[str, Any]:
        """The fields of a Transformer for this layout, name -> value."""
        usual = USUAL[self.virtual_stages > 1]
        return {**{name: getattr(self, name) for name in self.__struct_fields__}, "schedule": self.schedule or usual}


def _listed(name: str, values: Sequence[Any]) -> str:
    return f"{name} {' or '.join(map(str, values))}"


def _divisors(number: int, most: int | None = None) -> list[int]:
    return [each for each in range(1, min(number, most or number) + 1) if number % each == 0]


def _choices(job: Job, npus: int) -> dict[str, Sequence[Any]]:
    """Values of every part of a layout, from the sizes of the job alone."""
    layers, experts = job.layers, job.experts
    return {
        "tp": _divisors(npus), "pp": _divisors(npus, layers), "cp": _divisors(npus, job.seq),
        "dp": _divisors(npus), "ep": [each for each in _divisors(experts) if npus % each == 0] if experts else [1],
        "zero": [0, 1, 2, 3], "micro_batch": _divisors(job.global_batch), "recompute": ["none", "selective", "full"],
        "virtual_stages": list(range(1, max(1, layers // 2) + 1)), "tp_sequence": [False, True],
        "schedule": list(USUAL)}


RULES = (
    "workload.tp > 1 or not workload.tp_sequence",
    "workload.dp * workload.cp > 1 or workload.zero == 0",
    "workload.schedule != 'interleaved' or workload.virtual_stages > 1",
)


class Allowed(Struct, frozen=True):
    """Layouts of `npus` NPUs that the rules of the workload and of the planner allow. `choices`: part of a layout ->
    its values; `rulings`: the planner's rules that leave out some layouts, and what lifted them; `host`: NPUs of a
    host."""

    job: Job
    npus: int
    choices: Mapping[str, Sequence[Any]]
    fixed: Mapping[str, Sequence[Any]]
    rulings: tuple[Ruling, ...]
    host: int = 1

    def __iter__(self) -> Iterator[Layout]:
        """Every layout. Raises ContradictionError where there is none."""
        rules = [each.rule for each in self.rulings if not each.lifted]
        try:
            space = self._space(rules)
        except ContradictionError as error:
            raise self._refusal(rules, error.message) from None
        yield from _points(space)

    def left_out(self, rule: Rule) -> Iterator[Layout]:
        """Every layout that this rule alone leaves out, of few virtual stages where some are; those with recomputation
        only if none is without."""
        few = [each for each in self.choices["virtual_stages"] if each <= UNEVEN_PARTS]
        plain = {"virtual_stages": few or self.choices["virtual_stages"],
                 **({"recompute": ["none"]} if "none" in self.choices["recompute"] else {})}
        others = [each.rule for each in self.rulings if not each.lifted and each.rule is not rule]
        try:
            space = msgspec.structs.replace(self, choices={**self.choices, **plain})._space(others)
        except ContradictionError:
            return
        yield from (layout for layout in _points(space) if not rule.allows(layout.plain))

    @property
    def possible(self) -> bool:
        """Whether there is a layout."""
        return self._some([each.rule for each in self.rulings if not each.lifted])

    def _refusal(self, rules: Sequence[Rule], why: str) -> ContradictionError:
        """Why there is no layout, and which values of each fixed part, with the others as they are, leave one."""
        asked = ", ".join(_listed(name, values) for name, values in self.fixed.items())
        unmet = _worded(why.replace("workload.uneven != 'refuse' or ", "").replace("workload.", "").replace(
            "model.", ""))
        usual = _choices(self.job, self.npus)
        better = [_listed(name, values) for name in self.fixed if (values := [
            each for each in usual[name] if msgspec.structs.replace(
                self, choices={**self.choices, name: [each]})._some(rules)][:MOST])]
        return ContradictionError(
            "gpus", f"no layout of {self.npus:,} NPUs and {self.job.global_batch:,} samples "
            f"{f'with {asked} ' if asked else ''}is allowed: {unmet.replace('no design meets', 'none meets')}",
            expected=", or ".join([*better, *self._counts(rules), "other sizes"]) + self._or_lift(rules))

    def _counts(self, rules: Sequence[Rule]) -> list[str]:
        """The nearest counts of NPUs, in whole hosts, that leave a layout, where no part is fixed."""
        if self.fixed:
            return []
        step = self.host if self.npus > self.host else 1
        sides = (range(self.npus - step, 0, -step), range(self.npus + step, 2 * self.npus + step, step))
        found = [next((count for count in side[:NEAR] if msgspec.structs.replace(
            self, npus=count, choices=_choices(self.job, count))._some(rules)), 0) for side in sides]
        return [f"{' or '.join(f'{each:,}' for each in found if each)} NPUs"] if any(found) else []

    def _or_lift(self, rules: Sequence[Rule]) -> str:
        """What a refusal says of rules: which of them to lift, if that leaves a layout; else nothing."""
        alone = [rule.name for rule in rules if self._some([each for each in rules if each is not rule])]
        if not alone and rules and self._some(()):
            alone = [",".join(rule.name for rule in rules)]
        return f", or --lift {' or '.join(alone)}" if alone else ""

    def _some(self, rules: Sequence[Rule]) -> bool:
        """Whether these rules leave a layout."""
        try:
            return self._space(rules).count > 0
        except ContradictionError:
            return False

    def _space(self, rules: Sequence[Rule]) -> Space:
        chosen: dict[str, Sequence[Any]] = dict(self.choices)
        for rule in rules:
            chosen |= rule.left(chosen)
        whole = f"workload.pp * workload.virtual_stages <= {max(1, self.job.layers)}"
        every = f"workload.tp * workload.cp * workload.pp * workload.dp == {self.npus}"
        where = (every, whole, *RULES, *(rule.where for rule in rules if len(rule.parts) > 1))
        return Space(self.job.unplaced, {f"workload.{name}": list(values) for name, values in chosen.items()}, where)


def _worded(unmet: str) -> str:
    """Unmet conditions with divisors in words."""
    plain = unmet.replace("sp * cp * if(tp_sequence, tp, 1)", "cp (times tp with tp_sequence)")
    return DIVIDES.sub(r'"\2 divides \1"', plain)


def _points(space: Space) -> Iterator[Layout]:
    names = [axis.name.removeprefix("workload.") for axis in space.axes]
    for point in space.points():
        values = dict(zip(names, space.numbers(point)))
        yield Layout(**values | {"schedule": "" if values["schedule"] in USUAL else values["schedule"]})


def layouts(job: Job, npus: int, host: int, fixed: Mapping[str, Sequence[Any]] | None = None,
            lift: Sequence[str] = ()) -> Allowed:
    """The layouts of a job on `npus` NPUs, `host` of them in a host. `fixed`: part of a layout -> its only values,
    which lift the rules (see `rules`) that forbid them; `lift`: names of other rules to lift. Raises InputError for
    names that are none."""
    choices, fixed = _choices(job, npus), fixed or {}
    for name in fixed:
        if name not in choices:
            raise InputError(name, "is no part of a layout", expected="one of " + ", ".join(choices))
        wrong = [each for each in fixed[name] if type(each) is not type(choices[name][0])]
        if wrong or not fixed[name]:
            raise InputError(name, f"{str(wrong[0])[:60]!r} is no value of it" if wrong else "has no value",
                             expected=f"values such as {choices[name][-1]}")
    for name in fixed.get("schedule", ()):
        if not load_schedule(name).plain:
            raise InputError("schedule", f"{name}: the planner has no lower bounds of copies of the model",
                             expected="a schedule of one copy, whose parts go round the stages in turn")
    choices |= fixed
    return Allowed(job, npus, choices, fixed, rulings(job, host, choices, fixed, lift), host)
