"""Predictions from one recording of what another one measured: the steps of a device trace, alone and changed."""

from __future__ import annotations

import gzip
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

import astrarium as ar
from astrarium.cli.replay_design import replay_design
from astrarium.profile.link import link, write_linked
from astrarium.result.nodes import Work
from astrarium.trace import read_node, read_traces, write_traces

Json = dict[str, Any]
HOST = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "Operator", "Runtime")
GPU = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")


def load(path: Path) -> list[Json]:
    """The complete events of a device trace."""
    found = json.loads(gzip.decompress(path.read_bytes()))
    return [event for event in found["traceEvents"] if event.get("ph") == "X" and event.get("cat") in (*HOST, *GPU)]


def steps(events: Sequence[Json]) -> list[tuple[float, float]]:
    """Begin and end of every profiler step, us."""
    found = [event for event in events if event["name"].startswith("ProfilerStep") and event["cat"] in HOST]
    return sorted((event["ts"], event["ts"] + event["dur"]) for event in found)


def only(events: Sequence[Json], begin: float, end: float) -> list[Json]:
    """The host events that begin in a span of time, and the GPU operations that they launched."""
    host = [event for event in events if event["cat"] in HOST and begin <= event["ts"] < end]
    launched = {event["args"]["correlation"] for event in host if "correlation" in event["args"]}
    return host + [event for event in events if event["cat"] in GPU and event["args"].get("correlation") in launched]


def replay_us(folder: Path, events: Sequence[Json], without: Callable[[float], bool] | None = None) -> float:
    """The replayed time of some events, linked; `without` says of a host node's start (us after the first event) that
    it takes no time."""
    folder.mkdir()
    (folder / "device.json").write_text(json.dumps({"traceEvents": list(events)}))
    write_linked(folder / "w", link(None, folder / "device.json"))
    prefix = folder / "w"
    if without is not None:
        traces = read_traces([folder / "w.0.et"])
        columns = traces.classes[0]
        gone = [node for node, (start, host) in enumerate(zip(columns.start.tolist(), columns.is_cpu_op.tolist(),
                                                              strict=True)) if host and without(start)]
        prefix = folder / "changed"
        write_traces(traces, prefix, edits={(0, node): replace(read_node(traces, 0, node), duration=0)
                                            for node in gone})
    return float(ar.simulate(replay_design(f"{prefix}.*.et")).makespan) / 1000


def linked_together(traces: Path, folder: Path, ranks: int) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """Links the Megatron ranks, each with an operator from the first rank's begin to its own, to `folder / "w"`.

    Returns [ranks, collectives] recorded durations, and per rank (begin, length) of its recording; all in us.
    """
    events = [load(traces / f"megatron_tp8_kineto_{rank}.json.gz") for rank in range(ranks)]
    spans = [(min(e["ts"] for e in each), max(e["ts"] + e["dur"] for e in each)) for each in events]
    first = min(begin for begin, _ in spans)
    for rank, (each, (begin, _)) in enumerate(zip(events, spans, strict=True)):
        step = next(event for event in each if event["name"].startswith("ProfilerStep"))
        each.append({**step, "name": "not yet begun", "cat": "cpu_op", "ts": first, "dur": begin - first, "args": {}})
        path = folder / f"device.{rank}.json"
        path.write_text(json.dumps({"traceEvents": each}))
        write_linked(folder / "w", link(traces / f"megatron_tp8_et_{rank}.json.gz", path, rank=rank))
    columns = [read_traces([folder / f"w.{rank}.et"]).classes[0] for rank in range(ranks)]
    recorded = np.array([each.duration[each.comm_node] for each in columns], np.int64)
    return recorded, [(begin - first, end - begin) for begin, end in spans]


def resimulated(folder: Path, network: ar.Network) -> ar.Result:
    """The traces `folder / "w"` with collectives on a network, everything else as recorded."""
    lanes = dict.fromkeys(("compute_streams", "comm_streams", "p2p_streams", "copy_streams", "cpu_threads"), 1 << 20)
    return ar.simulate(ar.Design(workload=ar.Trace(f"{folder / 'w'}.*.et"), compute=ar.Replay(missing="0 ns"),
                                 network=network, system=ar.System(**lanes)))


def collective_us(result: ar.Result) -> list[np.ndarray]:
    """Per rank its collectives' times from its own arrival, us."""
    nodes, row = result.nodes, result.outcome.row
    return [((nodes.end - nodes.start)[(nodes.row == row[rank]) & (nodes.work == Work.COLLECTIVE)]) / 1e6
            for rank in range(len(row))]


def said(what: str, predicted: float, measured: float, rival: float) -> float:
    """Prints a prediction beside the measurement and what a rival without a model says; the prediction's error."""
    error = predicted / measured - 1
    print(f"{what}: predicted {predicted / 1000:.1f} ms, measured {measured / 1000:.1f} ms, {100 * error:+.1f} % "
          f"({100 * (rival / measured - 1):+.1f} % without a model)")
    return error


def median(values: Sequence[float]) -> float:
    return float(statistics.median(values))
