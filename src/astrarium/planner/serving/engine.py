"""An engine that may serve: its layout, formats and limits; and all engines that a plan compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, get_args

from msgspec import Struct

from astrarium import catalog
from astrarium.errors import InputError, nearest
from astrarium.planner.rules import Rule, Ruling, known_rules, ruled
from astrarium.serving.layout import Layout
from astrarium.workload.inference.formats import Cache, Format
from astrarium.workload.model.base import Model

__all__ = ["CHECKPOINT", "NAMES", "PUBLISHED", "Engine", "Engines", "engines", "formats_of"]

PUBLISHED = "published"     # formats of the checkpoint, of a model that has some
CHECKPOINT = "checkpoint"   # the same, or bf16
NAMES = ("host", "stages", "experts", "tokens", "apart")
TOKENS = (2048, 4096, 8192, 16384)
FORMATS: Mapping[str, Sequence[str]] = {"weights": (*get_args(Format), PUBLISHED), "cache": get_args(Cache)}


class Engine(Struct, frozen=True, order=True):
    """`weights`: their format by its short name; `tokens`: the most of a step, `batch`: most sequences, `share` of
    memory that it fills; 0: those of the stack. With `prefill` it is two pools: `workers` engines of that layout
    prefill, and as many of `layout` decode."""

    layout: Layout
    weights: str
    cache: str
    tokens: int = 0
    batch: int = 0
    share: float = 0.0
    prefill: tuple[Layout, ...] = ()
    workers: tuple[int, int] = (1, 1)

    @property
    def npus(self) -> int:
        """NPUs of it."""
        first = self.workers[0] * self.prefill[0].npus if self.prefill else 0
        return first + self.workers[1] * self.layout.npus

    @property
    def words(self) -> str:
        """`tp 4`, or both pools."""
        if not self.prefill:
            return str(self.layout)
        return f"prefill {self.workers[0]} x ({self.prefill[0]}), decode {self.workers[1]} x ({self.layout})"

    def __str__(self) -> str:
        """`tp 4, steps of 8,192`."""
        return self.words + (f", steps of {self.tokens:,}" if self.tokens else "")

    @property
    def format(self) -> str:
        """`fp8, cache bf16`."""
        return f"{self.weights}, cache {self.cache}"

    @property
    def plain(self) -> dict[str, Any]:
        """Name of a part -> value."""
        plain = {**_degrees(self.layout), "weights": self.weights, "cache": self.cache, "max_tokens": self.tokens}
        if self.prefill:
            plain |= {"prefill": _degrees(self.prefill[0]), "workers": list(self.workers)}
        return plain


def _degrees(layout: Layout) -> dict[str, int]:
    return {"tp": layout.tp, "dp": layout.dp, "pp": layout.pp, "ep": layout.ep}


def formats_of(engine: Engine, experts: int) -> dict[str, str]:
    """Fields of `workload.formats`. Published fp8 checkpoints of models with experts have blocks of 128 x 128, nvfp4
    ones leave all but the experts in bf16 (NVIDIA's checkpoints)."""
    if engine.weights == PUBLISHED:
        return {"cache": engine.cache}
    if experts and engine.weights == "nvfp4":
        return {"weights": "bf16", "experts": "nvfp4", "cache": engine.cache}
    weights = "fp8_block" if experts and engine.weights == "fp8" else engine.weights
    return {"weights": weights, "cache": engine.cache}


class Engines(Struct, frozen=True):
    """Engines of at most `npus` NPUs that the rules allow. `choices`: part -> its values; `rulings`: the rules that
    leave out some, and what lifted them."""

    npus: int
    experts: int
    choices: Mapping[str, Sequence[Any]]
    rulings: tuple[Ruling, ...]

    @property
    def apart(self) -> bool:
        """Whether pools are compared, too."""
        return any(each.rule.name == "apart" and each.lifted for each in self.rulings)

    def __iter__(self) -> Iterator[Engine]:
        """Every engine that prefills and decodes, the smallest layout first."""
        rules = [each.rule for each in self.rulings if not each.lifted and each.rule.name != "apart"]
        names = [name for name in self.choices if name != "apart"]
        for values in product(*(self.choices[name] for name in names)):
            part = dict(zip(names, values, strict=True))
            layout = Layout(part["tp"], part["dp"], part["pp"], part["ep"])
            if layout.npus <= self.npus and layout.tp * layout.dp % layout.ep == 0 and all(
                    rule.allows(part) for rule in rules):
                yield Engine(layout, part["weights"], part["cache"], part["max_tokens"])


def engines(model: Model, device: str, npus: int, host: int, tokens: int,
            fixed: Mapping[str, Sequence[Any]], lift: Sequence[str]) -> Engines:
    """The engines of a model on a device, `host` NPUs of which are in a host.

    Args:
        tokens: The most of a step that the stack has.
        fixed: Part of an engine -> its only values, which lift the rules that forbid them.
        lift: Names of rules to lift.

    Raises:
        InputError: A name is not a part or not a rule, or a value is of another kind.
    """
    experts = model.ep_units() or 0
    choices = _choices(model, device, npus, experts, tokens)
    for name, values in fixed.items():
        if name not in choices:
            raise InputError(f"fix {name[:60]}", "is no part of an engine", expected="one of " + ", ".join(choices),
                             did_you_mean=nearest(name, choices))
        wrong = next((each for each in values if type(each) is not type(choices[name][0])), None)
        if wrong is not None or not values:
            raise InputError(f"fix {name}", f"{str(wrong)[:60]!r} is no value of it" if values else "has no value",
                             expected=f"values such as {choices[name][-1]}")
        if unknown := next((each for each in values if each not in FORMATS.get(name, values)), None):
            raise InputError(f"fix {name}", f"{unknown[:60]!r} is not known",
                             expected="one of " + ", ".join(FORMATS[name]),
                             did_you_mean=nearest(unknown, FORMATS[name]))
    known_rules(lift, NAMES)
    return Engines(npus, experts, {**choices, **fixed}, ruled(_rules(host, tokens), choices, fixed, lift))


def _choices(model: Model, device: str, npus: int, experts: int, tokens: int) -> dict[str, Sequence[Any]]:
    sizes = [1 << power for power in range(npus.bit_length()) if 1 << power <= npus]
    peaks = catalog.load("devices").get(device, {}).get("peaks", {})
    weights = [PUBLISHED] if model.checkpoint is not None else ["bf16"] + [
        name for name, peak in (("fp8", "fp8"), ("nvfp4", "fp4")) if peak in peaks]
    return {"tp": sizes, "dp": sizes if experts else [1], "pp": sizes, "ep": sizes if experts else [1],
            "weights": weights, "cache": ["bf16", "fp8"] if "fp8" in peaks else ["bf16"],
            "max_tokens": sorted({*TOKENS, tokens}), "apart": [False, True]}


def _rules(host: int, tokens: int) -> tuple[Rule, ...]:
    return (
        Rule("host", f"tp stays within a host ({host} NPUs)", f"workload.tp <= {host}"),
        Rule("stages", "engines have no pipeline stages: a stage waits for the others at each token",
             "workload.pp == 1"),
        Rule("experts", "whole experts are spread over all NPUs of an engine, or, with dp 1, all are cut over tp",
             "workload.ep == workload.tp * workload.dp or workload.ep == 1 and workload.dp == 1"),
        Rule("apart", "an engine prefills and decodes: pools for either are not compared", "workload.apart == false"),
        Rule("tokens", f"steps have at most {tokens:,} tokens, as in the stack", f"workload.max_tokens == {tokens}"))
