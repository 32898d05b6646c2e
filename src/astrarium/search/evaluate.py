"""Evaluate points: resolve a goal against a space, make designs, run them, judge their results."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.config import replace_all
from astrarium.design import Design
from astrarium.engine import Record
from astrarium.errors import BeyondError, InputError, StallError, StoppedError, nearest
from astrarium.lower.kept import BYTES, Kept
from astrarium.search.axes import Point, named_paths
from astrarium.search.before import SLACK, longest, lower_bounds, range_of, ruled_out, said, slack_of
from astrarium.search.constraints import ContradictionError, Rule, components_of, levels_of
from astrarium.search.expression import CONDITIONS, Const, Interval, Node, Op, bounds, compiled, names_in
from astrarium.search.goal import Case, Goal, Measure, Objective
from astrarium.search.limits import NO_LIMITS, Guard, Limits
from astrarium.search.scope import Scope
from astrarium.search.space import Space
from astrarium.search.subject import Run, subject_of
from astrarium.search.trial import BEYOND, Verdict
from astrarium.search.update import Updater
from astrarium.units import format_time

__all__ = ["Evaluator", "Judge"]

TOGETHER = 32       # trials of a group at most
MOMENT = 0.05       # seconds of a step after which a group is closed


class Judge:
    """A goal with its names resolved against a space, checked as far as possible without a run. `subject`: what is
    evaluated; `figures`: names of the figures in the goal; `record`: what runs must record."""

    def __init__(self, space: Space, goal: Goal):
        """Raises InputError for an unknown name, an objective that is not a number, a division by zero for some
        design."""
        self.space, self.goal, self.subject = space, goal, subject_of(space.base)
        known = self.subject.figures
        self.scope = Scope(space.base, named_paths(space.axes), space.derived, tuple(known))
        self.objectives: list[Node | Measure] = [
            self._number(each.measure, each.name) if isinstance(each.measure, str) else each.measure
            for each in goal.objectives]
        self.requirements = [self._condition(text, f"require[{index}]")
                             for index, text in enumerate(goal.requirements)]
        trees = [node for node in [*self.objectives, *self.requirements] if not callable(node)]
        self.figures = tuple(name for name in known if any(name in names_in(node) for node in trees))
        self.functions = any(callable(each) for each in self.objectives)
        kept = {known[name].record for name in self.figures}
        self.record: Record = True if self.functions or True in kept else "nodes" if "nodes" in kept else False
        for node, text in zip(trees, [*[str(each.measure) for each in goal.objectives if not callable(each.measure)],
                                      *goal.requirements]):
            self._divisors(node, text)

    def _node(self, text: str, where: str) -> Node:
        try:
            return self.scope.node(text, where)
        except InputError as error:
            known = [*self.subject.figures, *self.subject.named]
            guess = error.did_you_mean or nearest(error.path, known)
            message, expected = error.message, error.expected
            if error.path.isidentifier() and message.startswith("unknown key"):
                message, expected = "is no figure", "a figure (astrarium list figure) or a path of the design"
            raise InputError(error.path or where, message, did_you_mean=guess, expected=expected if guess else
                             "a path of the design, or one of " + ", ".join(known)) from None

    def _number(self, text: str, where: str) -> Node:
        node = self._node(text, where)
        wrong = isinstance(node, Const) and (isinstance(node.value, bool) or not isinstance(node.value, (int, float)))
        if wrong or (isinstance(node, Op) and node.name in CONDITIONS):
            raise InputError(where, f"{text!r} is not a number", expected="an expression that gives a number")
        return node

    def _condition(self, text: str, where: str) -> Node:
        node = self._node(text, where)
        if isinstance(node, Op) and node.name in CONDITIONS:
            return node
        raise InputError(where, f"{text!r} is not a condition on designs", expected="a comparison")

    def ranges(self) -> dict[str, Interval]:
        """The range of each figure of the goal and of each axis of numbers."""
        found: dict[str, Interval] = {name: (self.subject.figures[name].least, math.inf) for name in self.figures}
        for axis in self.space.axes:
            values = [*axis.values, *(() if axis.otherwise is None else (axis.otherwise,))]
            if not axis.size:
                found[axis.name] = (axis.domain.low, axis.domain.high)
            elif all(isinstance(value, (int, float)) for value in values):
                found[axis.name] = (float(min(values)), float(max(values)))
        return found

    def _divisors(self, node: Node, text: str) -> None:
        """Raise InputError for a divisor that is 0 for some design of the space, or that a figure can make 0."""
        if not isinstance(node, Op):
            return
        for arg in node.args:
            self._divisors(arg, text)
        if node.name not in ("/", "//", "%"):
            return
        low, high = bounds(node.args[1], self.ranges())
        if low > 0 or high < 0:
            return
        names = names_in(node.args[1])
        figures = [name for name in names if name in self.subject.figures]
        if not figures and not self._reached(Op("==", (node.args[1], Const(0)))):
            return
        what = (f"{', '.join(figures)} can be 0" if figures
                else f"for some {' and '.join(names)} of the space" if names else "always")
        raise InputError(text, f"divides by zero ({what})", expected="a divisor that is never 0, such as max(1, ...)")

    def _reached(self, node: Node) -> bool:
        """Whether some design of the space meets a condition; True if a continuum is in it, or it joins too many
        knobs."""
        space = self.space
        levels = levels_of(space.axes, space.scope)
        if any(name not in levels for name in names_in(node)):
            return True
        try:
            components_of(space.axes, [*space.rules, Rule("", node, "")], levels)
        except ContradictionError:
            return False
        except InputError:      # it joins too much to find out
            return True
        return True


class _Trial(Struct, eq=False):
    """A point between its steps: prepared, run, judged."""

    point: Point
    cap: float | None = None
    row: list[Any] = field(default_factory=list)
    figures: list[float] = field(default_factory=list)
    runs: list[tuple[float, Design, Run]] = field(default_factory=list)
    results: list[tuple[float, Design, Any]] = field(default_factory=list)
    verdict: Verdict | None = None
    seconds: float = 0.0
    cpu: float = 0.0

    def take(self, step: Callable[[_Trial], Verdict | None], guard: Guard) -> None:
        """Take one step unless there is a verdict, and count its seconds; an error is a verdict without values."""
        if self.verdict is not None:
            return
        start = time.perf_counter()
        try:
            verdict, self.cpu = guard.step(lambda: step(self), self.cpu)
        except (InputError, StallError, StoppedError) as error:
            verdict = Verdict(None, problem=str(error)[:1000])
            self.runs, self.results = [], []
        self.seconds += time.perf_counter() - start
        if verdict is not None:
            self.verdict = replace(verdict, seconds=self.seconds)


class _Condition(Struct, frozen=True):
    """A requirement: its slack, and whether a design alone decides it, before a run."""

    slack: Callable[[Sequence[Any]], float]
    early: bool


class Evaluator:
    """Judges points of a space; several threads may call it at once.

    Args:
        space: The space; it has a base design.
        goal: Objectives, requirements and cases.
        fold: `auto` or `off`; None: as the design says.
        limits: CPU time and memory of each design.
        cache: About how many bytes of workloads, traces and collectives are cached for later points.

    Raises:
        InputError: if the goal or a case does not fit the space.
    """

    def __init__(self, space: Space, goal: Goal, *, fold: str | None = None, limits: Limits = NO_LIMITS,
                 cache: int = BYTES):
        if space.base is None:
            raise InputError("base", "is missing", expected="the design that the choices change")
        self.space, self.goal, self.fold, self.guard = space, goal, fold, Guard(limits)
        self.judge = Judge(space, goal)
        self.figures = [self.judge.subject.figures[name] for name in self.judge.figures]
        names = [axis.name for axis in space.axes]
        slots = {name: index for index, name in enumerate([*names, *self.judge.figures])}
        self._first = len(names)
        early = {name for name, figure in zip(self.judge.figures, self.figures) if figure.of_design is not None}
        known = set(names) | early
        self._conditions = [_condition(node, slots, known) for node in self.judge.requirements]
        self._values = [(_nothing, each) if callable(each) else (compiled(each, slots), None)
                        for each in self.judge.objectives]
        self._early = early if any(each.early for each in self._conditions) else set()
        self._slacks = [None if each.early else slack_of(node)
                        for each, node in zip(self._conditions, self.judge.requirements)]
        self._bounded = {name: figure for name, figure in zip(self.judge.figures, self.figures)
                         if figure.at_least is not None
                         and any(node is not None and name in names_in(node) for node in self._slacks)}
        aimed = () if callable(self.judge.objectives[0]) else names_in(self.judge.objectives[0])
        self._aimed = {name: figure for name, figure in zip(self.judge.figures, self.figures)
                       if figure.at_least is not None and name in aimed}
        self._names = [*names, *self.judge.figures]
        self._ranges = self.judge.ranges()
        cases = goal.cases or (Case("", 1.0),)
        if self.judge.functions and len(cases) > 1:
            raise InputError("cases", "do not go with an objective that is a Python function, which sees one run",
                             expected="expressions, or one case")
        self.cases = [(case.weight, self._case(case)) for case in cases]
        self._kept = Kept(cache)
        self._check_figures()

    def _check_figures(self) -> None:
        """Raise InputError for figures whose data (power, prices) designs of the space do not have."""
        checks = [check for figure in self.figures if (check := figure.check) is not None]
        if checks and self.space.count:
            assignment = self.space.assignment(self.space.sample(random.Random(0)))
            for check in checks:
                for _, updater in self.cases:
                    check(updater.apply(assignment))

    def _case(self, case: Case) -> Updater[Design]:
        space = self.space
        assert space.base is not None
        chosen = next((path for path in case.changes if path in space.paths), None)
        if chosen is not None:
            raise InputError(f"cases.{case.name}.{chosen}", "is chosen by the space", expected="other paths")
        base = replace_all(space.base, case.changes) if case.changes else space.base
        return Updater(base, space.paths)

    def __call__(self, point: Point) -> Verdict:
        """Judge one point. If the configuration or a model refuses the design, the verdict has no values, and says
        why."""
        return next(self.all([point]))

    def all(self, points: Sequence[Point], cap: float | None = None) -> Iterator[Verdict]:
        """Judge points; verdicts come in their order. A design whose only objective is sure to be worse than `cap`
        (negative if more is better) is stopped. A group of points is prepared, then run, then judged: each step
        finds its own code and data in the machine's caches."""
        left = [_Trial(point, cap) for point in points]
        while left:
            prepared = self._quickly(self._prepare, left)
            left = left[len(prepared):]
            while prepared:
                ran = self._quickly(self._run, prepared)
                prepared = prepared[len(ran):]
                for trial in ran:
                    trial.take(self._judge, self.guard)
                yield from [trial.verdict for trial in ran if trial.verdict is not None]

    def _quickly(self, step: Callable[[_Trial], Verdict | None], trials: Sequence[_Trial]) -> Sequence[_Trial]:
        """Take a step of as many trials as fit in MOMENT seconds, at least one; returns them."""
        over, done = time.perf_counter() + MOMENT, 0
        while done < min(TOGETHER, len(trials)) and (done == 0 or time.perf_counter() < over):
            trials[done].take(step, self.guard)
            done += 1
        return trials[:done]

    def _prepare(self, trial: _Trial) -> Verdict | None:
        assignment, row = self.space.assignment(trial.point), self.space.numbers(trial.point)
        designs = [(weight, updater.apply(assignment)) for weight, updater in self.cases]
        figures = [math.nan] * len(self.judge.figures)
        self._of_designs(designs, figures)
        row.extend(figures)
        if self._early:
            slacks = [each.slack(row) if each.early else 0.0 for each in self._conditions]
            unmet = next((text for text, slack in zip(self.goal.requirements, slacks) if slack < 0), None)
            if unmet is not None:
                return Verdict(None, tuple(figures), tuple(slacks), f"requirement {unmet} is not met")
        if self._bounded and (refused := self._ruled_out(designs, row, figures)) is not None:
            return refused
        if trial.cap is not None and self._aimed and (refused := self._too_much(designs, row, figures, trial.cap)):
            return refused
        trial.row, trial.figures = row, figures
        trial.runs = [(weight, design, self._prepared(design)) for weight, design in designs]
        return None

    def _ruled_out(self, designs: Sequence[tuple[float, Design]], row: Sequence[Any], figures: Sequence[float]
                   ) -> Verdict | None:
        """The verdict of a design that cannot meet a requirement, by lower bounds of its figures; None of others."""
        ranges = lower_bounds(self._bounded, designs, self._kept)
        known = {name: value for name, value in zip(self._names, row) if not _unknown(value)}
        unmet = ruled_out(self._slacks, known, ranges, self._bounded)
        if unmet is None:
            return None
        slacks = [each.slack(row) if each.early else 0.0 for each in self._conditions]
        slacks[unmet.number] = unmet.slack
        return Verdict(None, tuple(figures), tuple(slacks),
                       f"requirement {self.goal.requirements[unmet.number]} is not met: {unmet.because}")

    def _too_much(self, designs: Sequence[tuple[float, Design]], row: Sequence[Any], figures: Sequence[float],
                  cap: float) -> Verdict | None:
        """The verdict of a design whose objective is worse than `cap` by bounds of its figures; None of others."""
        objective, node = self.goal.objectives[0], self.judge.objectives[0]
        assert not callable(node)
        ranges = lower_bounds(self._aimed, designs, self._kept)
        known = {name: value for name, value in zip(self._names, row) if not _unknown(value)}
        range_ = range_of(node, known, {**self._ranges, **ranges})
        if not _beyond(objective, cap)(range_):
            return None
        return Verdict(None, tuple(figures), (), f"{BEYOND}: {said(ranges, self._aimed)}, so {objective.name} is worse "
                       f"than {abs(cap):.6g}", bound=-range_[1] if objective.maximize else range_[0])

    def _run(self, trial: _Trial) -> Verdict | None:
        runs, trial.runs = trial.runs, []
        if trial.cap is None:
            trial.results = [(weight, design, run()) for weight, design, run in runs]
            return None
        most = left = self._longest(trial.row, trial.cap)
        try:
            for weight, design, run in runs:
                trial.results.append((weight, design, run(left / weight)))
                left -= weight * float(trial.results[-1][2].makespan)
        except BeyondError:
            trial.results, name = [], self.goal.objectives[0].name
            return Verdict(None, tuple(trial.figures), (), f"{BEYOND}: the makespan is more than {format_time(most)}, "
                           f"so {name} is worse than {abs(trial.cap):.6g}")
        return None

    def _longest(self, row: Sequence[Any], cap: float) -> float:
        """The makespan, in ns, beyond which a design's objective is worse than `cap`."""
        objective, node = self.goal.objectives[0], self.judge.objectives[0]
        if callable(node):
            return math.inf
        known = {name: value for name, value in zip(self._names, row) if not _unknown(value)}
        return longest(node, known, self._ranges, _beyond(objective, cap))

    def _judge(self, trial: _Trial) -> Verdict:
        row, figures = trial.row, trial.figures
        self._of_results(trial.results, figures)
        row[self._first:] = figures
        _, design, result = trial.results[0]
        values = [expression(row) if function is None else function(design, result)
                  for expression, function in self._values]
        for name, value in zip(self.goal.objectives, values):
            if not isinstance(value, (int, float)) or not math.isfinite(value):
                raise InputError(name.name, f"is {value!r}, which is not a finite number")
        slacks = [each.slack(row) for each in self._conditions]
        trial.results = []
        return Verdict(tuple([float(value) for value in values]), tuple(figures), tuple(slacks))

    def _prepared(self, design: Design) -> Run:
        return self.judge.subject.prepare(design, self.fold, self.judge.record, self._kept)

    def _of_designs(self, designs: Sequence[tuple[float, Design]], figures: list[float]) -> None:
        for place, figure in enumerate(self.figures):
            function = figure.of_design
            if function is not None:
                figures[place] = max(function(design) for _, design in designs)

    def _of_results(self, results: Sequence[tuple[float, Design, Any]], figures: list[float]) -> None:
        for place, figure in enumerate(self.figures):
            if figure.of_design is not None:
                continue
            values = [(weight, figure.measure(design, result)) for weight, design, result in results]
            if figure.over_cases == "largest":
                figures[place] = max(value for _, value in values)
            else:
                total = sum(weight * value for weight, value in values)
                figures[place] = total / sum(weight for weight, _ in values) if figure.over_cases == "mean" else total


def _beyond(objective: Objective, cap: float) -> Callable[[Interval], bool]:
    """Whether an objective in a range is sure to be worse than `cap`."""
    return (lambda range_: -range_[1] > cap) if objective.maximize else (lambda range_: range_[0] > cap)


def _unknown(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _nothing(_: Sequence[Any]) -> float:
    return math.nan


def _condition(node: Node, slots: dict[str, int], known: set[str]) -> _Condition:
    early = all(name in known for name in names_in(node))
    if isinstance(node, Op) and node.name in SLACK:
        more, less = SLACK[node.name]
        high, low, strict = compiled(node.args[more], slots), compiled(node.args[less], slots), len(node.name) == 1

        def slack(row: Sequence[Any]) -> float:
            left = float(high(row) - low(row))
            return -math.ulp(0.0) if strict and left == 0 else left
        return _Condition(slack, early)
    truth = compiled(node, slots)
    return _Condition(lambda row: 0.0 if truth(row) else -1.0, early)
