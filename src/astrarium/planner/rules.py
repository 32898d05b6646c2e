"""Rules that bound the layouts a plan looks at: each has a name, is printed with the answer, and can be lifted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

from msgspec import Struct

from astrarium.errors import InputError, nearest
from astrarium.planner.job import ENDS, Job
from astrarium.search.expression import compiled, names_in
from astrarium.search.scope import parse

__all__ = ["NAMES", "UNEVEN_PARTS", "Rule", "Ruling", "known_rules", "ruled", "rules_of", "rulings"]

MOST_SAMPLES, MOST_TOKENS = 8, 32768       # of a micro-batch: the larger of the two
SHORTEST = 1024         # tokens of a sample that a context-parallel rank has at least
MOST_CP = 16
USUAL_PP = (2, 4, 8, 16)
UNEVEN_PARTS = 2        # of a stage, if no usual pipeline divides the layers
NAMES = ("host", "cp", "micro_batch", "zero", "stages")
Choices = Mapping[str, Sequence[Any]]


class Rule(Struct, frozen=True, dict=True):
    """`text`: a sentence; `where`: the condition on one or two parts of a layout, by their paths in a design."""

    name: str
    text: str
    where: str

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts of a layout in the condition."""
        return tuple(path.removeprefix("workload.") for path in names_in(parse(self.where)))

    def allows(self, values: Mapping[str, Any]) -> bool:
        """Whether the condition holds for values of (at least) its parts."""
        return bool(self._holds([values[part] for part in self.parts]))

    @cached_property
    def _holds(self) -> Any:
        return compiled(parse(self.where), {f"workload.{part}": place for place, part in enumerate(self.parts)})

    def forbids(self, fixed: Choices, choices: Choices) -> bool:
        """Whether some value that is `fixed` cannot be chosen under this rule, whatever its other part is."""
        return any(not self._possible(part, value, choices) for part in self.parts for value in fixed.get(part, ()))

    def left(self, choices: Choices) -> dict[str, list[Any]]:
        """The values of its parts that it leaves with some value of the other part."""
        return {part: [value for value in choices[part] if self._possible(part, value, choices)] for part in self.parts}

    def _possible(self, part: str, value: Any, choices: Choices) -> bool:
        return any(map(self.allows, self._together({**choices, part: [value]})))

    def cuts(self, choices: Choices) -> bool:
        """Whether it leaves out some combination of the choices."""
        return not all(map(self.allows, self._together(choices)))

    def _together(self, choices: Choices) -> Iterator[dict[str, Any]]:
        """Combinations of the choices of its parts; none with virtual stages has no pipeline, where none can be."""
        for values in product(*(choices[part] for part in self.parts)):
            found = dict(zip(self.parts, values, strict=True))
            if found.get("pp", 2) > 1 or found.get("virtual_stages", 1) == 1:
                yield found


class Ruling(Struct, frozen=True):
    """A rule in one plan. `lifted`: what lifted it (`--lift`, `--fix`), or nothing."""

    rule: Rule
    lifted: str = ""

    @property
    def plain(self) -> dict[str, Any]:
        """As plain data for --json."""
        return {"name": self.rule.name, "rule": self.rule.text, "lifted": self.lifted or None}


def rules_of(job: Job, host: int) -> tuple[Rule, ...]:
    """Every rule, for a job on hosts of `host` NPUs."""
    samples = max(MOST_SAMPLES, MOST_TOKENS // job.seq)
    return (
        Rule("host", f"tp stays within a host ({host} NPUs)", f"workload.tp <= {host}"),
        Rule("cp", f"cp is at most {MOST_CP} and leaves a rank at least {SHORTEST:,} tokens of a sample",
             f"workload.cp == 1 or workload.cp <= {min(MOST_CP, job.seq // SHORTEST)}"),
        Rule("micro_batch", f"micro-batches have at most {samples} samples", f"workload.micro_batch <= {samples}"),
        Rule("zero", "ZeRO 2 and 3 have no pipeline stages, which would reduce gradients for every micro-batch",
             "workload.pp == 1 or workload.zero <= 1"),
        _stages(job))


def _stages(job: Job) -> Rule:
    """Equal stages; of a model whose layers no usual pipeline divides, also stages that are not (DeepSeek-V3's 61 run
    on 16 stages of two parts: NVIDIA/Megatron-LM, docs/user-guide/features/pipeline_parallel_layout.md)."""
    layers, parts = job.layers, "(workload.pp * workload.virtual_stages)"
    ends = f"{layers + ENDS} % {parts} == 0 and {layers + ENDS} // {parts} > 1"
    where = f"workload.pp == 1 or {layers} % {parts} == 0 or {ends}"
    equal = "stages have equally many layers; embedding and head may count as a layer each"
    if any(map(job.even, USUAL_PP)):
        return Rule("stages", equal, where)
    *others, last = map(str, USUAL_PP)
    text = f"{equal}; as {layers} layers divide by none of pp {', '.join(others)} and {last}, stages of at most " \
           f"{UNEVEN_PARTS} parts may differ by a layer"
    return Rule("stages", text, f"{where} or workload.virtual_stages <= {UNEVEN_PARTS}")


def known_rules(lift: Sequence[str], names: Sequence[str]) -> None:
    """Raise InputError for a rule to lift that is none of `names`."""
    unknown = next((name for name in lift if name not in names), None)
    if unknown is not None:
        raise InputError("lift", f"{unknown[:60]!r} is no rule", expected="one of " + ", ".join(names),
                         did_you_mean=nearest(unknown, names))


def ruled(rules: Iterable[Rule], choices: Choices, fixed: Choices, lift: Sequence[str]) -> tuple[Ruling, ...]:
    """Those of the rules that leave out some of the `choices`, and what lifted them."""
    return tuple([Ruling(rule, "--lift" if rule.name in lift else "--fix" if rule.forbids(fixed, choices) else "")
                  for rule in rules if rule.cuts(choices)])


def rulings(job: Job, host: int, choices: Choices, fixed: Choices, lift: Sequence[str]) -> tuple[Ruling, ...]:
    """The rules that leave out some of the `choices`, and what lifted them: a name in `lift`, or a `fixed` value that
    the rule forbids. Raises InputError for an unknown name."""
    known_rules(lift, NAMES)
    return ruled(rules_of(job, host), choices, fixed, lift)
