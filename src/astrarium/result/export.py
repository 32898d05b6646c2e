"""A Result as tables with units in their column names, as JSON and as Parquet."""

from __future__ import annotations

import importlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from astrarium.config.whole import write_whole
from astrarium.errors import InputError, install_line
from astrarium.result.nodes import Work
from astrarium.result.queues import Queues
from astrarium.result.result import Result
from astrarium.version import stamp
from astrarium.vocab import CommOp

__all__ = ["json_pieces", "tables", "write_json", "write_parquet"]

Column = npt.NDArray[Any]
Table = Mapping[str, Column]
BLOCK = 1 << 14     # rows per piece of text
WORKS = np.array([work.name.lower() for work in Work])
NOTHING: Mapping[str, Any] = MappingProxyType({})
OPS = np.array([op.name.lower() for op in CommOp])


def _ns(ps: npt.ArrayLike) -> Column:
    return np.asarray(ps, np.int64) / 1000


def tables(result: Result, *, nodes: bool = False) -> dict[str, Table]:
    """Name -> column -> array: `ranks` (every rank), `jobs` (of a run of several), `collectives`, `links`, `dims`,
    `dims_over_time` (a row per dim and span of time), `critical_path`, of packets `flows` (a row per message),
    `packet_links` (a row per link) and `queues_over_time` (a row per link and span of time, of a run that recorded
    them), and if asked for `nodes` (of the rows' own ranks). Without recorded node
    times, `ranks` with their finish and `jobs` alone."""
    outcome, row = result.outcome, result.outcome.row
    ranks: dict[str, Column] = {"rank": result.first_rank + np.arange(len(row)), "finish_ns": _ns(outcome.finish)[row]}
    jobs: dict[str, Table] = {"jobs": _jobs(result)} if result.jobs else {}
    if not result.recorded:
        return {"ranks": ranks, **jobs}
    for name in ("compute", "exposed_comm", "exposed_memory", "exposed_host", "bubble", "idle"):
        ranks[f"{name}_ns"] = _ns(getattr(result.ranks, name))[row]
    ranks["peak_memory_bytes"] = result.memory.peak[row]
    found: dict[str, Table] = {"ranks": ranks, **jobs, "collectives": _collectives(result), "links": _links(result),
                               "dims": _dims(result), "dims_over_time": _over_time(result),
                               "critical_path": _path(result)}
    found |= _packets(result)
    if result.queues is not None:
        found["queues_over_time"] = _queues(result.queues)
    if nodes:
        found["nodes"] = _nodes(result)
    return found


def _packets(result: Result) -> dict[str, Table]:
    found: dict[str, Table] = {}
    if (f := result.flows) is not None:
        found["flows"] = {"source_npu": f.source, "destination_npu": f.destination, "size_bytes": f.size,
                          "asked_ns": _ns(f.asked), "arrived_ns": _ns(f.arrived), "time_ns": _ns(f.time),
                          "lost_bytes": f.lost}
    if (q := result.packet_links) is not None:
        found["packet_links"] = {"link": q.number, "name": np.array([q.name(row) for row in range(q.number.size)]),
                           "queue_bytes": q.queue, "buffer_bytes": q.buffer, "ecn_marks": q.marks,
                           "pauses": q.pauses, "paused_ns": _ns(q.paused)}
    return found


def _jobs(result: Result) -> Table:
    jobs = result.jobs
    comm = [np.nan if job.exposed_comm_ps is None else job.exposed_comm_ps / 1000 for job in jobs]
    return {"job": np.array([job.name for job in jobs]), "ranks": np.array([len(job.ranks) for job in jobs]),
            "first_rank": np.array([job.ranks.start for job in jobs]),
            "npus": np.array([" ".join(map(str, job.npus.tolist())) for job in jobs]),
            "start_ns": _ns([job.start_ps for job in jobs]), "makespan_ns": _ns([job.makespan_ps for job in jobs]),
            "exposed_comm_ns": np.array(comm), "alone_ns": _ns([job.alone_ps for job in jobs]),
            "slowdown": np.array([job.slowdown for job in jobs])}


def _collectives(result: Result) -> Table:
    c = result.collectives
    return {"op": OPS[c.op], "group": c.group, "number": c.number, "ranks": c.ranks, "payload_bytes": c.payload,
            "start_ns": _ns(c.start), "ready_ns": _ns(c.ready), "end_ns": _ns(c.end), "time_ns": _ns(c.end - c.ready),
            "algbw_gb_per_s": c.algbw, "busbw_gb_per_s": c.busbw, "instances": c.instances,
            "how": c.how}


def _links(result: Result) -> Table:
    links = result.links
    found: dict[str, Column] = {
        "dim": links.dim, "source_npu": links.source, "target_npu": links.target, "size_bytes": links.size,
        "busy_ns": _ns(links.busy), "utilisation": links.utilisation}
    if links.names is None or not links.number.size:
        return found
    return {**found, "link": links.number, "name": np.array([links.name(row) for row in range(links.number.size)]),
            "tier": np.array(links.tiers())}


def _dims(result: Result) -> Table:
    dims = result.dims
    return {"dim": np.arange(len(dims.size)), "size_bytes": dims.size, "mean_utilisation": dims.mean_utilisation,
            "max_utilisation": dims.max_utilisation}


def _over_time(result: Result) -> Table:
    dims = result.dims
    count, bins = dims.busy_over_time.shape
    start = np.tile(np.arange(bins, dtype=np.int64) * dims.bin, count)
    end = np.minimum(start + dims.bin, result.makespan_ps)
    return {"dim": np.repeat(np.arange(count), bins), "start_ns": _ns(start), "end_ns": _ns(end),
            "links_busy_ns": _ns(dims.busy_over_time.reshape(-1)),
            "mean_utilisation": dims.utilisation_over_time.reshape(-1)}


def _queues(queues: Queues) -> Table:
    count, bins = queues.longest.shape
    start = np.tile(np.arange(bins, dtype=np.int64) * queues.bin, count)
    names = np.array([queues.name(row) for row in range(count)])
    return {"link": np.repeat(queues.number, bins), "name": np.repeat(names, bins), "start_ns": _ns(start),
            "end_ns": _ns(start + queues.bin), "longest_bytes": queues.longest.reshape(-1),
            "paused_ns": _ns(queues.paused.reshape(-1))}


def _path(result: Result) -> Table:
    path = result.path
    programs = result.plan.program_of[path.rank]
    ids = [int(result.plan.programs[p].node_id[n]) if n >= 0 else -1
           for p, n in zip(programs.tolist(), path.node.tolist(), strict=True)]
    column = np.array(ids, np.int64 if max(ids, default=0) < 2**63 else object)
    return {"rank": result.first_rank + path.rank, "node_id": column, "work": WORKS[path.work],
            "start_ns": _ns(path.start), "end_ns": _ns(path.end)}


def _nodes(result: Result) -> Table:
    nodes = result.nodes
    ids = [result.plan.programs[p].node_id for p in result.plan.program_of[result.first_ranks].tolist()]
    return {"rank": result.first_rank + result.first_ranks[nodes.row], "node_id": np.concatenate(ids),
            "work": WORKS[nodes.work], "start_ns": _ns(nodes.start), "end_ns": _ns(nodes.end)}


def json_pieces(result: Result, *, nodes: bool = False, more: Mapping[str, Any] = NOTHING) -> Iterator[str]:
    """One JSON object in pieces: `summary` and what is given as `more`, then each table as a list of records; NaN
    becomes null."""
    head = {**stamp("run"), "summary": result.summary()}
    yield json.dumps(head, separators=(",", ":"))[:-1]
    for name, value in more.items():
        yield f',"{name}":' + json.dumps(value, separators=(",", ":"))
    for name, table in tables(result, nodes=nodes).items():
        yield f',"{name}":['
        for number, piece in enumerate(_records(table)):
            yield ("," if number else "") + piece
        yield "]"
    yield "}\n"


def _records(table: Table) -> Iterator[str]:
    names = list(table)
    length = len(table[names[0]]) if names else 0
    for start in range(0, length, BLOCK):
        columns = [_plain(column[start:start + BLOCK]) for column in table.values()]
        rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
        yield json.dumps(rows, separators=(",", ":"))[1:-1]


def _plain(column: Column) -> list[Any]:
    if column.dtype.kind != "f":
        return list(column.tolist())
    return [None if math.isnan(value) else int(value) if value.is_integer() else value for value in column.tolist()]


def write_json(result: Result, path: str | os.PathLike[str], *, nodes: bool = False,
               more: Mapping[str, Any] = NOTHING) -> None:
    """Write everything as one JSON file, whole or not at all; the summary also has `more`. `Result.load` reads it."""
    with write_whole(os.fspath(path)) as file:
        file.writelines(piece.encode() for piece in json_pieces(result, nodes=nodes, more=more))


def write_parquet(result: Result, folder: str | os.PathLike[str], *, nodes: bool = False,
                  more: Mapping[str, Any] = NOTHING) -> tuple[str, ...]:
    """Write one Parquet file per table into `folder` (made if need be); the paths. The summary and `more` are metadata
    of `ranks.parquet` (`astrarium`, JSON). `Result.load` reads the folder. Needs the extra `parquet`."""
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise InputError("parquet", "pyarrow is not installed", expected=install_line("parquet")) from error
    into = FilePath(folder)
    into.mkdir(parents=True, exist_ok=True)
    written = []
    for name, table in tables(result, nodes=nodes).items():
        target = into / f"{name}.parquet"
        made = arrow.table({key: arrow.array(column.astype(str) if column.dtype == object else column)
                            for key, column in table.items()})
        if name == "ranks":
            about = json.dumps({**stamp("run"), "summary": result.summary(), **more}, separators=(",", ":"))
            made = made.replace_schema_metadata({"astrarium": about})
        with write_whole(str(target)) as file:
            parquet.write_table(made, file)
        written.append(str(target))
    return tuple(written)
