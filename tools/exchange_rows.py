"""Rows of kernels that exchange tokens of experts: who measured them, and how many bytes they send."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import comb
from typing import Any

__all__ = ["KERNELS", "rows_of"]

Table = Callable[[str, str], list[dict[str, Any]]]
Found = tuple[str, str, str, dict[float, float]]
KERNELS = ("deepep", "deepep_low_latency", "nvlink_one_sided", "nvlink_two_sided")
WIDTHS = {"bfloat16": 2.0, "fp8": 1.0, "nvfp4": 0.5 + 1 / 16}     # bytes of an element, with the scales of a dispatch
FP8 = 1 + 4 / 128       # DeepEP's dispatch: fp8 and 4 bytes of scale for 128


def rows_of(tables: Table, folder: str, ranks: Sequence[tuple[int, int]], alltoall: str) -> Iterator[Found]:
    """(kernel, phase, group, bytes that a rank sends to others -> ns), of `folder` DeepEP's for groups of (hosts, ranks
    per host), of `alltoall` TensorRT-LLM's."""
    for hosts, per_host in ranks if folder else ():
        group = f"{hosts}x{per_host}" if hosts > 1 else f"{per_host}"
        for phase in ("dispatch", "combine"):
            yield "deepep", phase, group, _deepep(tables, folder, phase, hosts, hosts * per_host)
            yield "deepep_low_latency", phase, group, _low_latency(tables, folder, phase, hosts, hosts * per_host)
    if alltoall:
        yield from _nvlink(tables(alltoall, "trtllm_alltoall_perf"))


def _deepep(tables: Table, folder: str, phase: str, hosts: int, ranks: int) -> dict[float, float]:
    """The fastest number of SMs, with the time of telling each other how many tokens come (of several hosts)."""
    found: dict[float, float] = {}
    for row in tables(folder, "wideep_deepep_normal_perf"):
        if row["node_num"] == hosts and row["num_experts"] % ranks == 0:
            width = FP8 if phase == "dispatch" else 2.0
            sent = row["num_token"] * row["hidden_size"] * width * others(row["num_experts"], row["num_topk"], ranks)
            _least(found, sent, 1e3 * (row[f"{phase}_transmit_us"] + row[f"{phase}_notify_us"]))
    return found


def _low_latency(tables: Table, folder: str, phase: str, hosts: int, ranks: int) -> dict[float, float]:
    """A copy for every expert."""
    found: dict[float, float] = {}
    for row in tables(folder, "wideep_deepep_ll_perf"):
        if row["node_num"] == hosts and row["num_experts"] % ranks == 0:
            width = FP8 if phase == "dispatch" else 2.0
            sent = row["num_token"] * row["hidden_size"] * width * row["num_topk"] * (ranks - 1) / ranks
            _least(found, sent, 1e3 * row[f"{phase}_avg_t_us"])
    return found


def _nvlink(rows: Sequence[dict[str, Any]]) -> Iterator[Found]:
    """TensorRT-LLM's kernels in a rack. What the two-sided one prepares (counts and places) is part of its dispatch."""
    prepared = {(row["moe_ep_size"], row["num_tokens"], row["moe_dtype"]): row["latency"] for row in rows
                if row["op_name"] == "alltoall_prepare" and row["kernel_source"] == "NVLinkTwoSided"}
    for source, kernel in (("NVLinkOneSided", "nvlink_one_sided"), ("NVLinkTwoSided", "nvlink_two_sided")):
        for phase in ("dispatch", "combine"):
            own = [row for row in rows if (row["kernel_source"], row["op_name"]) == (source, f"alltoall_{phase}")]
            for ranks in sorted({row["moe_ep_size"] for row in own}):
                found: dict[float, float] = {}
                for row in own:
                    if row["moe_ep_size"] == ranks:
                        width = WIDTHS[row["moe_dtype"]] if phase == "dispatch" else 2.0
                        sent = row["num_tokens"] * row["hidden_size"] * width * others(row["num_experts"], row["topk"],
                                                                                      ranks)
                        more = prepared.get((ranks, row["num_tokens"], row["moe_dtype"]), 0.0)
                        both = source == "NVLinkTwoSided" and phase == "dispatch"
                        _least(found, sent, 1e6 * (row["latency"] + (more if both else 0.0)))
                yield kernel, phase, str(ranks), found


def others(experts: int, chosen: int, ranks: int) -> float:
    """Other ranks that have one of a token's experts, experts at random."""
    return (ranks - 1) * (1 - comb(experts - experts // ranks, chosen) / comb(experts, chosen))


def _least(found: dict[float, float], sent: float, ns: float) -> None:
    found[sent] = min(found.get(sent, ns), ns)
