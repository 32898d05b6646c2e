"""Columns that rows of a kind may have in addition to the required ones; a similar name is taken for a typing error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType

from astrarium.errors import InputError

__all__ = ["OPTIONAL", "check_columns"]

ALIKE = 0.8     # of two names, from which on one is taken for a slip in the other (note and nodes: 0.67)

OPTIONAL: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "collective": ("nodes", "algo", "time_us", "busbw_GBs"),
    "inference": ("n_gpus", "tp", "precision", "concurrency", "unit", "stack", "engine"),
    "training": ("nodes", "params_B", "layers", "hidden", "heads", "kv_heads", "head_size", "ffn", "vocab", "seq", "tp",
                 "pp", "dp", "cp", "ep", "vp", "mbs", "gbs", "recompute", "precision", "zero", "order", "stack",
                 "step_s", "model_tflops_gpu", "tok_s_gpu", "mem_GiB"),
    "vllm": ("gpu_mem_util", "precision", "max_num_batched_tokens")})
"""Kind of row -> columns that are read where a file has them. All others are ignored."""


def check_columns(where: str, kind: str, columns: Sequence[str], needed: Sequence[str]) -> None:
    """Raise InputError for a column that is not read, and nearly has the name of one that the file lacks, or begins it.
    """
    known = OPTIONAL.get(kind, ())
    absent = [each for each in known if each not in columns]
    for column in columns:
        begun = [each for each in absent if len(column) > 2 and each.startswith(column)]
        meant = [] if column in (*known, *needed) else begun or get_close_matches(column, absent, 1, ALIKE)
        if meant:
            raise InputError(f"{where}: {column[:60]}", f"is no column of {kind} rows, which would be ignored",
                             expected="a column that is read, or a name that is less like one", did_you_mean=meant[0])
