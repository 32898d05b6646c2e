"""ASTRA-sim's rules that can be left out one by one, so that a comparison can say what each of them does.

All of them are in force under `compat: astra_sim`; only `search.rule_books` leaves some out. The others (links that
are never shared, hops across dims, the algorithms' machines, tie order) are ASTRA-sim's engine: they have no switch.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.engine.plan import Plan, Policy, Program
from astrarium.errors import UnsupportedError

__all__ = ["ALL", "FINER", "RULES", "AstraRules", "in_ps"]

FINER = 1000        # ps in the ns that the engine truncates to


class AstraRules(Struct, frozen=True):
    """Which rules hold; native's are in the place of the others."""

    whole_ns: bool = True
    full_chunks: bool = True
    flat_groups: bool = True
    group_delay: bool = True
    one_slot: bool = True

    @staticmethod
    def only(*names: str) -> AstraRules:
        """No rule but these."""
        return AstraRules(**{name: name in names for name in AstraRules.__struct_fields__})


ALL = AstraRules()
RULES: Mapping[str, tuple[str, str]] = MappingProxyType({      # natively, and in ASTRA-sim
    "whole_ns": ("whole ps", "every delay truncated to whole ns"),
    "full_chunks": ("every byte once", "a rest is a full chunk"),
    "flat_groups": ("groups run over dims", "groups are one flat ring"),
    "group_delay": ("endpoint_delay in groups", "10 ns in groups"),
    "one_slot": ("sends beside collectives", "sends, copies, collectives by turns"),
})


def in_ps(plan: Plan) -> Plan:
    """Multiply all times of a plan by 1,000, so that the engine truncates to whole ps instead of whole ns. Its answer
    is then 1,000 times too large. Programs have the fraction of a ns that lowering left them. Raises UnsupportedError
    for the shared bus, and for groups whose endpoint delay is ASTRA-sim's own 10 ns, which cannot be scaled."""
    policy = plan.policy
    if policy.shared_bus is not None:
        raise UnsupportedError("astra_sim.shared_bus", "counts whole ns", expected="no shared bus")
    if any(phase.local for each in plan.collectives for chunk in each.chunks for phase in chunk.phases):
        raise UnsupportedError("collective", "groups whose endpoint delay is 10 ns count whole ns")
    network, remote = plan.network, plan.remote
    dims = tuple(replace(dim, bandwidth=dim.bandwidth / FINER, latency=dim.latency * FINER) for dim in network.dims)
    return replace(
        plan, programs=tuple(map(_program, plan.programs)), network=replace(network, dims=dims),
        policy=_policy(policy), remote=replace(remote, latency=remote.latency * FINER,
                                               bandwidth=remote.bandwidth / FINER))


def _policy(policy: Policy) -> Policy:
    return replace(policy, endpoint_delay=policy.endpoint_delay * FINER,
                   reduce_bandwidth=policy.reduce_bandwidth / FINER)


def _program(program: Program) -> Program:
    limit = np.iinfo(np.int64).max // FINER
    if program.duration.size and int(program.duration.max()) > limit:
        raise UnsupportedError("compute", "a node of more than 2.5 hours cannot be counted in ps")
    return replace(program, duration=program.duration * FINER, busy=program.busy * FINER)
