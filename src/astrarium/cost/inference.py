"""Money, energy and CO2 of the tokens of an inference workload: what its run costs, over the tokens that it gives.

Output tokens are the `generated` tokens of all sequences of the batch, input tokens those of their prompts. Each figure
puts all of a run on one of the two. Prices and powers are those of `cost.running` and `cost.power`; `run` takes the
catalog's for the device where the design has none, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from astrarium.cost.figure import Figure
from astrarium.cost.power import check_site, site_energy
from astrarium.cost.running import carbon_of_run, check_carbon, check_hourly, cost_of_run
from astrarium.cost.shares import KWH, SHOWN, shares
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.result import Result

__all__ = ["CARBON_PER_MEGA_INPUT_TOKENS", "CARBON_PER_MEGA_TOKENS", "COST_PER_MEGA_INPUT_TOKENS",
           "COST_PER_MEGA_TOKENS", "ENERGY_PER_MEGA_INPUT_TOKENS", "ENERGY_PER_MEGA_TOKENS"]

SOURCES = ("inference", "disaggregated")
PHASES = {"per_mega_tokens": "decode", "per_mega_input_tokens": "prefill"}       # in which the tokens are
WORDS = {"per_mega_tokens": "10^6 output tokens", "per_mega_input_tokens": "10^6 input tokens"}
LABELS = {"cost": "price", "energy": "energy", "carbon": "CO2"}


def _energy(design: Design, result: Result) -> float:
    """kWh of a run."""
    return site_energy(design, result) / KWH


AMOUNTS: dict[str, tuple[Callable[[Design, Result], float], Callable[[Design, str], None]]] = {
    "cost": (cost_of_run, check_hourly), "energy": (_energy, check_site), "carbon": (carbon_of_run, check_carbon)}
"""Name -> the amount of a run, as `shares` takes it, and what raises InputError for a design that does not say it."""


def _check(name: str, key: str, design: Design) -> None:
    """Raises InputError for workloads without such tokens, and for missing prices."""
    work: Any = design.workload
    if work.tag not in SOURCES or (work.tag == "inference" and work.phase not in ("request", PHASES[key])):
        raise InputError(f"{name}_{key}", f"is not known: the workload has no {PHASES[key]}",
                         expected="source: inference or disaggregated, with that phase")
    AMOUNTS[name][1](design, f"{name}_{key}")


def _measure(name: str, key: str, design: Design, result: Result) -> float:
    work: Any = design.workload
    tokens = float(work.prompt) if key == "per_mega_input_tokens" else sum(
        each.tokens for each in result.phases if each.name == "decode")
    found = shares(name, AMOUNTS[name][0](design, result), {key: work.batch * tokens})
    if key not in found:
        raise InputError(f"{name}_{key}", "is not known: the run gave no such tokens")
    return found[key]


def _alone(key: str, design: Design) -> bool:
    """Whether `run` prints a figure: that of output tokens, if there are some."""
    no_output = getattr(design.workload, "phase", "") == "prefill"
    return design.workload.tag in SOURCES and (key == "per_mega_input_tokens") == no_output


def _figure(name: str, key: str) -> Figure:
    return Figure(of_both=lambda design, result: _measure(name, key, design, result), record=True, over_cases="mean",
                  check=lambda design: _check(name, key, design), label=f"{LABELS[name]} of {WORDS[key]}",
                  shown=SHOWN[name], of_time=1, of_catalog=True, printed=lambda design: _alone(key, design))


COST_PER_MEGA_TOKENS = _figure("cost", "per_mega_tokens")
ENERGY_PER_MEGA_TOKENS = _figure("energy", "per_mega_tokens")
CARBON_PER_MEGA_TOKENS = _figure("carbon", "per_mega_tokens")
COST_PER_MEGA_INPUT_TOKENS = _figure("cost", "per_mega_input_tokens")
ENERGY_PER_MEGA_INPUT_TOKENS = _figure("energy", "per_mega_input_tokens")
CARBON_PER_MEGA_INPUT_TOKENS = _figure("carbon", "per_mega_input_tokens")
