"""A serving design: a design and the stream that it answers as one value, with a path for every knob.

`workload.tp`, `policy.max_tokens` and `requests.rate` are its fields, so spaces, agents and `explain` treat it as any
other design. A serving file has the same content in two files: it names that of its design.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from astrarium import config
from astrarium.config.named import merged
from astrarium.design import Design, dump_design, load_design
from astrarium.serving.policy import Buckets, Objective, Policy
from astrarium.serving.serve import Promise, Rounding, Serving, Steps, Stream, load_serving
from astrarium.serving.settings import policy_settings

__all__ = ["ServingDesign", "dump_serving", "load_serving_design"]


def _preset(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """`plain` with the settings of its stack, those of the policy too, under what it says."""
    stack = plain.get("stack")
    settings = policy_settings(stack) if isinstance(stack, str) else {}
    found = Design.preset(plain)
    return {**found, "policy": merged(settings, plain.get("policy", {}))} if settings else found


class ServingDesign(Design, frozen=True, kw_only=True):
    """A distributed AI system, the model that it serves, and the stream of requests that it answers."""

    preset = _preset
    requests: Stream
    policy: Steps = Policy()
    buckets: Rounding = Buckets()
    objective: Promise = Objective()


def load_serving_design(path: str | os.PathLike[str]) -> ServingDesign:
    """Read a serving file and the design that it names. Raises InputError with every problem and its line."""
    file = load_serving(path)
    design = load_design(file.alone)
    return ServingDesign(**_fields(design, Design), requests=file.requests, policy=file.policy, buckets=file.buckets,
                         objective=file.objective)


def dump_serving(design: ServingDesign, path: str | os.PathLike[str]) -> str:
    """Write a serving file, and its design beside it as `NAME.design.yaml`; returns the path of the latter."""
    base, end = os.path.splitext(os.fspath(path))
    beside = f"{base}.design{end or '.yaml'}"
    dump_design(Design(**_fields(design, Design)), beside)
    config.dump(Serving(design=beside, requests=design.requests, policy=design.policy, buckets=design.buckets,
                        objective=design.objective), path)
    return beside


def _fields(value: Design, kind: type[Design]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in kind.__struct_fields__}
