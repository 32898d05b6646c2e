"""The designs that answer a stream, and the fleet that they are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from astrarium.design import Design, load_design
from astrarium.errors import InputError
from astrarium.serving.fleet import Fleet, Outages
from astrarium.serving.members import Change, Failures, Member
from astrarium.serving.policy import Buckets
from astrarium.serving.requests import Requests
from astrarium.serving.servers import fleet_of
from astrarium.serving.settings import reaching
from astrarium.serving.shape import Scaled
from astrarium.serving.steps.simulated import Known

__all__ = ["Deployment", "deployed"]

HOUR = 3600e12      # ps


class Deployment(Struct, frozen=True):
    """Entries of a fleet, each with its design; `known`: step times of each design, kept between runs."""

    designs: Sequence[Design]
    members: Sequence[Member]
    buckets: Buckets
    known: Sequence[Known]
    changes: Sequence[Change] = ()
    failures: Failures = Failures()

    def fleet(self, longer: float = 1.0) -> Fleet:
        """The instances, new, with steps `longer` times as long. Raises InputError for what is not served."""
        parts = [fleet_of(design, member.policy, self.buckets, known, count=member.count, member=number,
                          startup=float(member.startup), load=None if member.load is None else float(member.load))
                 for number, (design, member, known) in enumerate(zip(self.designs, self.members, self.known,
                                                                      strict=True))]
        instances = tuple(itertools.chain.from_iterable(part.instances for part in parts))
        notes = dict.fromkeys(note for part in parts for note in part.notes)
        for server in (server for each in instances for server in each.servers if longer != 1):
            server.times = Scaled(server.times, longer)
        failures = self.failures
        outages = Outages([(round(float(each.at) * 1000), each.instance, each.up) for each in self.changes],
                          0.0 if failures.mtbf is None else float(failures.mtbf) * HOUR,
                          round(float(failures.repair) * 1000), failures.seed)
        return Fleet(instances, outages, self.members[0].policy.migrate, (*notes, *self._notes()))

    def reached(self, requests: Requests) -> Requests:
        """The requests, with notes of what the model does not reach. Raises InputError."""
        return reaching(requests, getattr(self.designs[0].workload, "model", None), self.members[0].policy.priorities)

    def _notes(self) -> Iterator[str]:
        fails = self.failures.mtbf is not None
        if self.failures != Failures() and not fails:
            yield "failures: do nothing without mtbf"
        if self.members[0].policy.migrate and not fails and all(each.up for each in self.changes):
            yield "policy.migrate does nothing: no instance goes down"
        owner = [number for number, member in enumerate(self.members) for _ in range(member.count)]
        starts = set(owner) if fails else {owner[each.instance] for each in self.changes if each.up}
        free = [f"fleet[{number}]" for number in sorted(starts)
                if not float(self.members[number].startup) and self.members[number].load is None]
        if free:
            yield f"assumed to be 0: startup of {', '.join(free)}"


def deployed(members: Sequence[Member], buckets: Buckets, changes: Sequence[Change] = (),
             failures: Failures | None = None, of_design: Mapping[str, object] = MappingProxyType({})) -> Deployment:
    """Read the designs, with `of_design` (path -> value) changed. Raises InputError for a file that is wrong, and for
    entries that do not go together."""
    designs, known = list[Design](), list[dict[tuple[object, ...], Any]]()
    for member in members:
        design = load_design(member.design, of_design)
        same = next((number for number, each in enumerate(designs) if each == design), None)
        designs.append(design)
        known.append({} if same is None else known[same])
    _check(designs, members)
    count = sum(member.count for member in members)
    for number, change in enumerate(changes):
        if change.instance >= count:
            raise InputError(f"changes[{number}].instance", f"{change.instance}, where the fleet has {count} instances",
                             expected=f"0 to {count - 1}")
    return Deployment(designs, members, buckets, known, changes, failures or Failures())


def _check(designs: Sequence[Design], members: Sequence[Member]) -> None:
    """Raise InputError for entries that one router cannot take for each other."""
    for number, (design, member) in enumerate(zip(designs, members, strict=True)):
        models = [getattr(each.workload, "model", None) for each in (designs[0], design)]
        if models[0] != models[1]:
            raise InputError(f"fleet[{number}].design", "has another model than the first entry",
                             expected="one model: any instance may answer any request")
        for name in ("routing", "migrate", "priorities"):
            if getattr(member.policy, name) != getattr(members[0].policy, name):
                raise InputError(f"fleet[{number}].policy.{name}", "is of the whole fleet", expected=f"policy.{name}")
