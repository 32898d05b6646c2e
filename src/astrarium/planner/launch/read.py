"""Launch arguments in a file -> a job, a layout and what both assume."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from astrarium.config.yamlfile import read_text
from astrarium.errors import InputError
from astrarium.planner.job import Job, job_of
from astrarium.planner.launch.deepspeed import deepspeed_launch, json_object
from astrarium.planner.launch.given import Launch
from astrarium.planner.launch.megatron import read_megatron
from astrarium.planner.launch.nemo import read_nemo
from astrarium.planner.launch.torchtitan import read_printed, read_torchtitan
from astrarium.planner.launch.torchtitan_printed import is_printed, printed_config, torchtitan_line
from astrarium.planner.launch.words import arguments_of
from astrarium.planner.layout import Layout
from astrarium.workload.model.decoder import Decoder

__all__ = ["READERS", "Today", "npus_of", "read_launch", "today_of"]

MOST = 1 << 20      # bytes of a file
FORMS = ("a script (.sh) or log (.txt, .log) with Megatron-LM's arguments, a NeMo 1 configuration (.yaml), DeepSpeed's "
         "(.json), torchtitan's (.toml, or the .json or log of a run)")


class Today(Struct, frozen=True):
    """A job as somebody runs it on `npus`: its layout, and fields of the workload that no layout says."""

    job: Job
    layout: Layout
    fields: Mapping[str, Any]
    npus: int
    model: str


def read_launch(path: str, ignore: Sequence[str] = ()) -> Launch:
    """The launch in a file, by the file's ending and content; of the keys that `ignore` names (or patterns of them)
    nothing counts. Raises InputError for what cannot be read, is not known or matters and is not predicted; nothing in
    it is run."""
    ending = os.path.splitext(path)[1].lower()
    if ending == ".py":
        raise InputError(path, "is a program, and nothing in it is run",
                         expected="torchtitan's log of a run with --debug.print_config, or " + FORMS)
    if ending not in READERS:
        raise InputError(path, f"{ending or 'no ending'!r} is no file of a framework", expected=FORMS)
    text = _text(path)
    return READERS[ending](text, path, ignore)


def _text(path: str) -> str:
    text = read_text(path)
    if len(text) > MOST:
        raise InputError(path, "is too large", expected=f"at most {MOST} bytes")
    return text


def _read_json(text: str, where: str, ignore: Sequence[str]) -> Launch:
    data = json_object(text, where)
    return read_printed(data, where, ignore) if is_printed(data) else deepspeed_launch(data, where, ignore)


def _read_arguments(text: str, where: str, ignore: Sequence[str]) -> Launch:
    """Of a script or a log: what torchtitan printed, its command line with a TOML file, else Megatron-LM's."""
    printed = printed_config(text, where)
    if printed is not None:
        return read_printed(printed, where, ignore)
    line = torchtitan_line(text, arguments_of(text, where)) if "CONFIG_FILE" in text or "--job.config" in text else None
    if line is None:
        return read_megatron(text, where, ignore)
    named, overrides, npus = line
    places = dict.fromkeys((named, os.path.join(os.path.dirname(where), named),
                            os.path.join(os.path.dirname(where), os.path.basename(named))))
    path = next((place for place in places if os.path.isfile(place)), None)
    if path is None:
        raise InputError(f"{where}: {named[:80]}", "which the command line of torchtitan names, is not there",
                         expected=f"that file beside {os.path.basename(where)}")
    launch = read_torchtitan(_text(path), path, ignore, overrides)
    said = f"configuration {os.path.basename(path)}" + \
        (f", with {', '.join(sorted(overrides))} of the command line" if overrides else "")
    return replace(launch, npus=npus, assumed=(said, *launch.assumed))


READERS: Mapping[str, Callable[[str, str, Sequence[str]], Launch]] = MappingProxyType({
    **dict.fromkeys((".sh", ".txt", ".args", ".log", ".out"), _read_arguments), ".yaml": read_nemo, ".yml": read_nemo,
    ".json": _read_json, ".toml": read_torchtitan})
"""Ending of the file -> its reader: Megatron-LM or torchtitan, NeMo, DeepSpeed or torchtitan, torchtitan."""


def today_of(launch: Launch, where: str, *, model: str | None = None, npus: int | None = None, seq: int | None = None,
             global_batch: int | None = None, **settings: Any) -> Today:
    """What runs today; the keywords say what the launch does not, and win over it. Raises InputError."""
    npus = npus_of(launch, where, npus)
    chosen: Any = model or launch.model_name
    if chosen is None and (launch.model is None or launch.missing):
        lacks = f": it lacks {', '.join(launch.missing)}" if launch.missing else ""
        there = "them in the file, or " if launch.model else ""
        raise InputError(where, f"does not say the model{lacks}",
                         expected=f"{there}MODEL: a name of the catalog, or a config.json")
    chosen = chosen or Decoder(**(launch.model or {}))
    dp = _replicas(launch, where, npus)
    of_replicas = (launch.replica_batch or 0) * dp
    if of_replicas and launch.global_batch not in (None, of_replicas) and not global_batch:
        raise InputError(where, f"says {launch.global_batch:,} samples a step, and {launch.replica_batch:,} of each "
                         f"of {dp:,} replicas, which are {of_replicas:,}", expected="the same, or --global-batch N")
    batch = global_batch or launch.global_batch or of_replicas
    if not batch:
        raise InputError(where, "does not say how many samples a step has", expected="--global-batch N")
    job = job_of(chosen, seq=seq or launch.seq, global_batch=batch, **{**launch.settings, **settings})
    _same_model(job, launch, where)
    layout = Layout(**{**launch.layout, "dp": dp})
    fields = {**launch.fields}
    if dp % launch.copies:
        raise InputError(where, f"{launch.copies} copies of the optimizer do not divide {dp} replicas",
                         expected="a divisor")
    shards = launch.shards or dp // launch.copies
    fields |= {} if shards == dp or not layout.zero else {"zero_ranks": shards}
    name = model or launch.model_name or f"{launch.framework} model of {job.layers} layers"
    assumed = (f"read from {os.path.basename(where)} ({launch.framework})", *job.assumed, *launch.assumed)
    ignored = (f"without effect on time: {', '.join(launch.ignored)}",) if launch.ignored else ()
    return Today(replace(job, assumed=(*assumed, *ignored)), layout, fields, npus, name)


def npus_of(launch: Launch, where: str, npus: int | None) -> int:
    """How many NPUs: as the caller says, or the launch. Raises InputError where neither does, and where torchtitan's
    degrees are for another number."""
    found = npus or launch.npus or launch.degrees
    if found is None:
        raise InputError(where, "does not say how many NPUs", expected="--gpus N")
    if launch.degrees not in (None, found):
        raise InputError(f"{where}: parallelism.data_parallel_shard_degree",
                         f"times data_parallel_replicate_degree, tensor_parallel_degree, pipeline_parallel_degree and "
                         f"context_parallel_degree is {launch.degrees}",
                         expected=f"{found}, the number of NPUs, or data_parallel_shard_degree -1: all that are left")
    return found


def _replicas(launch: Launch, where: str, npus: int) -> int:
    inner = 1
    for axis in ("tp", "cp", "pp"):
        inner *= launch.layout.get(axis, 1)
    if npus % inner:
        raise InputError(where, f"tp * cp * pp is {inner}, which does not divide {npus} NPUs",
                         expected="another --gpus, or other degrees")
    return npus // inner


def _same_model(job: Job, launch: Launch, where: str) -> None:
    """InputError where MODEL and the arguments are two models."""
    for name, theirs in (launch.model or {}).items():
        mine = getattr(job.base.model, name, theirs)
        if name in ("layers", "d_model", "heads", "ffn") and mine != theirs:
            raise InputError(f"{where}: {name}", f"is {theirs}, and the model has {mine}", expected="the same model")
