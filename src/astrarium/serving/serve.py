"""A design and a stream of requests in, latencies and throughput out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

from astrarium import config
from astrarium.config import Config, Knob, Problem, parse_yaml
from astrarium.config.yamlfile import read_text
from astrarium.design import Design, load_design
from astrarium.errors import InputError
from astrarium.serving.deployment import Deployment
from astrarium.serving.find import FoundRate, find_rate
from astrarium.serving.loop import Told, run
from astrarium.serving.members import Change, Failures, Member
from astrarium.serving.outcome import Served
from astrarium.serving.policy import Buckets, Objective, Policy
from astrarium.serving.requests import Arrivals, busiest, requests_of
from astrarium.serving.settings import of_stack
from astrarium.serving.slo import Slo
from astrarium.serving.steps.simulated import Known

__all__ = ["FINE", "LONGER", "Serving", "load_serving", "most_requests", "policy_of", "serve", "serve_deployed",
           "serve_slower"]

LONGER = 1.3        # times as long a step is where the margin is tested
BUSIEST = 4000      # requests with which it is
FINE = 0.01         # share between the rates of `most_requests`


Stream: TypeAlias = Annotated[Arrivals, Knob("Who asks when.")]
Steps: TypeAlias = Annotated[Policy, Knob("How steps are filled.")]
Rounding: TypeAlias = Annotated[Buckets, Knob("What step shapes are rounded up to.")]
Promise: TypeAlias = Annotated[Objective, Knob("What was promised (SLO).")]


def _who(serving: Serving) -> Iterator[Problem]:
    if serving.design and serving.fleet:
        yield Problem("design", "stands beside fleet, whose entries have designs", "one of design, fleet")
    if not serving.design and not serving.fleet:
        yield Problem("design", "is missing", "design, or fleet: [{design: ..., count: 2}, ...]")


class Serving(Config, frozen=True, kw_only=True):
    """A stream of requests, and what answers it: an instance of a design, or a fleet."""

    rules = (_who,)
    design: Annotated[str, Knob("The design file: a workload with source: inference or disaggregated.", file=True)] = ""
    fleet: Annotated[Sequence[Member], Knob("Instances of several designs behind one router, in place of design.")] = ()
    requests: Stream
    policy: Steps = Policy()
    buckets: Rounding = Buckets()
    objective: Promise = Objective()
    changes: Annotated[Sequence[Change], Knob("Instances that go down or start at stated times.")] = ()
    failures: Annotated[Failures, Knob("Instances that fail at random.")] = Failures()

    @property
    def members(self) -> Sequence[Member]:
        """The entries of the fleet; of a design alone, one."""
        return self.fleet or (Member(design=self.design, policy=self.policy),)

    @property
    def alone(self) -> str:
        """The file of the only design. Raises InputError for a fleet, and for instances that go down."""
        for name in ("fleet", "changes", "failures"):
            if getattr(self, name) not in ((), Failures()):
                raise InputError(name, "is only for serve",
                                 expected="a serving file with one design, without changes and failures")
        return self.design


def load_serving(path: str | os.PathLike[str], changes: Mapping[str, object] = MappingProxyType({}),
                 of_design: Mapping[str, object] = MappingProxyType({})) -> Serving:
    """Read a serving file (YAML), with `changes` (path -> value) made. What its policy leaves out is that of the stack
    of its design (with the changes `of_design`), where this has one; what the policy of an entry of a fleet leaves
    out, that of the file. Raises InputError with every problem, its line, and what was expected."""
    serving = config.load(Serving, path, changes)
    if serving.fleet and of_design:
        raise InputError(next(iter(of_design)), "is of a design, and the file names a fleet",
                         expected="the change in the design files")
    given = parse_yaml(read_text(os.fspath(path)), os.fspath(path)).data
    stated, found = _stated(given, changes, ""), dict[str, object]()
    for number, member in enumerate(serving.members):
        at = f"fleet[{number}]." if serving.fleet else ""
        own = _stated(given["fleet"][number], changes, at) if serving.fleet and number < len(given["fleet"]) else stated
        under = {**of_stack(load_design(member.design, of_design)), **{
            name: getattr(serving.policy, name) for name in stated}}
        found |= {f"{at}policy.{name}": value for name, value in under.items() if name not in own}
    return config.replace_all(serving, found) if found else serving


def _stated(given: Any, changes: Mapping[str, object], at: str) -> set[str]:
    """Names of the policy that a file or an entry states, or a change below `at`."""
    stated = given.get("policy") if isinstance(given, Mapping) else None
    path = f"{at}policy."
    return {*(stated or {}), *(re.split(r"[.\[]", change.removeprefix(path))[0] for change in changes
                               if change.startswith(path))}


def policy_of(design: Design) -> Policy:
    """The policy of a design's stack; the usual one where it has none."""
    return config.decode(Policy, of_stack(design))


def serve(design: Design | str | os.PathLike[str], requests: Arrivals, policy: Policy | None = None,
          buckets: Buckets | None = None, *, known: Known | None = None, progress: Told | None = None) -> Served:
    """Answer `requests` on a design (or a file of one) whose workload is an Inference or Disaggregated; `policy`: if
    left out, that of the design's stack.

    Of the workload counts what the model is and how it is laid out; batch, lengths and phase come from the requests.
    Step times come from tables, or each shape is simulated once (the result's `how` says which); `known` keeps them
    between runs of the same design. `progress` is told, after every event, how many requests are answered, of how many,
    and the simulated time in ps. Raises InputError where the workload is another one, or memory.capacity is missing or
    too small.
    """
    chosen = design if isinstance(design, Design) else load_design(design)
    member = Member(design="", policy=policy or policy_of(chosen))
    alone = Deployment((chosen,), (member,), buckets or Buckets(), ({} if known is None else known,))
    return serve_deployed(alone, requests, progress)


def serve_deployed(deployment: Deployment, requests: Arrivals, progress: Told | None = None) -> Served:
    """Answer `requests` on a deployment; `progress` as of `serve`. Raises InputError."""
    return run(deployment.reached(requests_of(requests)), deployment.fleet(), progress)


def serve_slower(deployment: Deployment, requests: Arrivals, progress: Told | None = None) -> Served:
    """What becomes of the busiest requests (BUSIEST in a row; all where instances go down, start or fail) where every
    step takes 30 % longer: whether the servers are near saturation shows before a small error of step times decides it.
    """
    stream, fleet = requests_of(requests), deployment.fleet(LONGER)
    whole = fleet.outages.changes or fleet.outages.mtbf
    return run(stream if whole else busiest(stream, BUSIEST), fleet, progress)


def most_requests(deployment: Deployment, requests: Arrivals, slo: Slo, *, longer: float = 1.0,
                  progress: Told | None = None) -> FoundRate:
    """The highest rate of a stream at which all limits hold, within FINE; its own rate is the first that is tried.

    All rates have the same requests, whose arrivals come closer together. `longer`: times that steps take as long.
    Raises InputError where the stream has no rate.
    """
    start = getattr(requests, "rate", None)
    if start is None:
        raise InputError("requests", f"kind {requests.tag} has no rate to find", expected="poisson, gamma or sharegpt")

    def at(rate: float) -> Served:
        stream = requests_of(config.replace(requests, "rate", rate))
        return run(deployment.reached(stream), deployment.fleet(longer), progress)

    return find_rate(at, slo, float(start), tolerance=FINE)
