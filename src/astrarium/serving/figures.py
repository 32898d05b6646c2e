"""Figures of serving designs: what searches may minimise, maximise and require.

They are of the steady state, or of the whole run if the stream is too short to have one. Times are ns. Latencies of a
saturated stream grow with its length, so it has none. Money, energy (J) and CO2 (kg) are as in `prices`; a search
assumes none, so the design says its prices and powers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from astrarium.cost import FIGURES, Figure
from astrarium.cost.rates import RATES
from astrarium.cost.shares import PER, SHOWN, on_whole_host
from astrarium.errors import InputError
from astrarium.serving.deployment import Deployment
from astrarium.serving.design import ServingDesign
from astrarium.serving.members import Member
from astrarium.serving.outcome import Served
from astrarium.serving.policy import Objective
from astrarium.serving.prices import amounts
from astrarium.serving.serve import most_requests
from astrarium.serving.slo import METRICS, STATISTICS, Limit, Slo
from astrarium.units import format_time

__all__ = ["SERVED"]

OF_DESIGN = ("network_cost", "network_bandwidth", "system_cost", "capital_cost", "power_peak", "embodied_carbon")


def _amount(name: str, key: str, design: ServingDesign, served: Served) -> float:
    whole, share = on_whole_host(design)
    return amounts(name, [(RATES[name](whole, f"{name}_{key}"), share)], served)[key]


def _latency(metric: str, statistic: str, _: ServingDesign, served: Served) -> float:
    if served.saturated:
        raise InputError(f"{metric}_{statistic}", "has no value: requests come faster than they are answered "
                         "(saturated)", expected="a lower rate, or servers that answer more")
    return Limit(metric, statistic, 1.0).of(served)


def _rate(key: str, design: ServingDesign, served: Served) -> float:
    return float(served.rates(served.window, design.objective)[key])


def _summary(key: str, _: ServingDesign, served: Served) -> float:
    return float(served.summary()[key])


def _rate_within(statistic: str, design: ServingDesign, _: Served) -> float:
    """Requests/s; the objective holds for a statistic (see Slo)."""
    promised = {name: getattr(design.objective, name) for name in ("ttft", "tpot")}
    slo = Slo(tuple(Limit(name, statistic, float(most)) for name, most in promised.items() if most is not None))
    alone = Deployment((design,), (Member(design="", policy=design.policy),), design.buckets, ({},))
    found = most_requests(alone, design.requests, slo).best
    return 0.0 if found is None else found.rate


def _promised(name: str, design: ServingDesign) -> None:
    if design.objective == Objective():
        raise InputError(name, "is not known without an objective", expected="objective: {ttft: 2 s, tpot: 30 ms}")


def _all() -> dict[str, Figure]:
    found = {f"{metric}_{statistic}": Figure(
        of_both=partial(_latency, metric, statistic), over_cases="mean" if statistic == "mean" else "largest",
        shown=format_time, of_time=int(metric == "tpot")) for metric in METRICS for statistic in STATISTICS}
    for name, key in (("requests_per_second", "requests_per_s"), ("tokens_per_second", "output_tokens_per_s"),
                      ("tokens_per_second_per_npu", "output_tokens_per_s_per_npu")):
        found[name] = Figure(of_both=partial(_rate, key), over_cases="mean")
    for name, key in (("goodput", "goodput_per_s"), ("good_share", "good_share")):
        found[name] = Figure(of_both=partial(_rate, key), over_cases="mean", check=partial(_promised, name))
    for statistic in ("p99", "good90"):
        found[f"rate_{statistic}"] = Figure(of_both=partial(_rate_within, statistic), over_cases="mean",
                                            check=partial(_promised, f"rate_{statistic}"))
    for name, key in (("tokens_per_second_per_user", "output_tokens_per_s_per_user"), ("busy_share", "busy_share"),
                      ("prefix_hit_share", "prefix_hit_share")):
        found[name] = Figure(of_both=partial(_summary, key), over_cases="mean", of_time=-int("user" in name))
    for name in ("preemptions", "queue_most", "cache_use_most", "saturated"):
        found[name] = Figure(of_both=partial(_summary, name), over_cases="largest")
    for name, shown in SHOWN.items():
        for key in PER:
            found[f"{name}_{key}"] = Figure(of_both=partial(_amount, name, key), over_cases="mean", shown=shown,
                                            check=partial(_priced, name, key))
    return found


def _priced(name: str, key: str, design: ServingDesign) -> None:
    RATES[name](design, f"{name}_{key}")


SERVED: Mapping[str, Figure] = MappingProxyType({**_all(), **{name: FIGURES[name] for name in OF_DESIGN}})
"""Every figure of a serving design by its name, those of designs alone among them."""
