"""What a simulation says."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Plan
from astrarium.memory.config import Tier
from astrarium.registry import cell, printed
from astrarium.result.collectives import Collectives, collectives_of
from astrarium.result.flows import Flows, PacketLinks, flows_of, packet_links_of
from astrarium.result.jobs import JobRanks, JobResult, jobs_of
from astrarium.result.links import Dims, LinkNames, Links, dims_of, links_of
from astrarium.result.memory import MemoryUse, memory_use
from astrarium.result.messages import Comm, Messages, comm_of, messages_of
from astrarium.result.nodes import Nodes, first_ranks, nodes_of, recorded
from astrarium.result.path import Path, critical_path
from astrarium.result.phases import PhaseTime, phase_times
from astrarium.result.ports import Ports, ports_of
from astrarium.result.queues import Queues, queues_of
from astrarium.result.ranks import Ranks, ranks_of
from astrarium.result.shown import Duration, Size, duration
from astrarium.result.source import Source
from astrarium.result.unexplained import unexplained_share

if TYPE_CHECKING:
    from astrarium.result.stored import Stored

__all__ = ["Duration", "Result", "Size"]


class Result(Struct, frozen=True, eq=False, dict=True):
    """A finished run. Times are integer ps in columns per row of `outcome` (a rank, or a class of equal ranks; rank
    r is row `outcome.row[r]`); everything below is computed when first asked for. `first_rank` is the job's number of
    rank 0, where one rank of a larger job ran alone: `summary` and the tables count from it.

    `traces` name the nodes and tensors: files that were read, or a generated workload. `capacity` [rows]: bytes of
    each row's NPU, None where the design does not say. `tiers` of memory behind the local one. `job_ranks` tells the
    jobs of a run of several apart. `names`: of nodes and links of a fabric's graph.
    """

    plan: Plan
    outcome: Outcome
    traces: Source | None = None
    capacity: tuple[float | None, ...] = ()
    first_rank: int = 0
    tiers: tuple[Tier, ...] = ()
    job_ranks: JobRanks | None = None
    names: LinkNames | None = None

    def __str__(self) -> str:
        """The tables of the command line."""
        return printed("run", self)

    _repr_html_ = cell("run")

    def __repr__(self) -> str:
        """Short: the arrays of a Plan are nothing to print."""
        return f"Result(makespan='{self.makespan}', ranks={len(self.outcome.row)}, classes={len(self.outcome.finish)})"

    @property
    def recorded(self) -> bool:
        """Whether node times were kept; without them only finish and compute are known."""
        return recorded(self.outcome)

    @property
    def makespan_ps(self) -> int:
        """The last rank's finish, ps."""
        return self.outcome.makespan

    @property
    def makespan(self) -> Duration:
        """The last rank's finish (a float of ns that prints with its unit)."""
        return duration(self.outcome.makespan)

    @cached_property
    def ports(self) -> Ports:
        """How long ranks need their ports, where collectives have a given time."""
        return ports_of(self.plan, self.outcome)

    @property
    def at_least_ps(self) -> int:
        """The makespan, or where that is longer, how long some rank needs a port (`ports`), ps: figures of cost and
        plans count with this."""
        return max(self.outcome.makespan, self.ports.most)

    @property
    def at_least(self) -> Duration:
        """`at_least_ps` as a float of ns that prints with its unit."""
        return duration(self.at_least_ps)

    @property
    def last_rank(self) -> int:
        """The rank that finishes last, the lowest of equals."""
        return int(self.first_ranks[int(np.argmax(self.outcome.finish))]) if self.outcome.finish.size else 0

    @property
    def spent(self) -> dict[str, int]:
        """What `at_least_ps` consists of for the rank that finishes last, ps: compute, exposed_comm, exposed_memory,
        exposed_host, ports (collectives of given time that share ports: `at_least_ps` without the makespan), bubble."""
        row, ranks = int(self.outcome.row[self.last_rank]), self.ranks
        return {"compute": int(ranks.compute[row]), "exposed_comm": int(ranks.exposed_comm[row]),
                "exposed_memory": int(ranks.exposed_memory[row]), "exposed_host": int(ranks.exposed_host[row]),
                "ports": self.at_least_ps - self.makespan_ps, "bubble": int(ranks.bubble[row])}

    @property
    def compute(self) -> Duration:
        """Compute time of the rank that finishes last."""
        return duration(int(self.ranks.compute[self.outcome.row[self.last_rank]]))

    @property
    def exposed_comm(self) -> Duration:
        """Exposed communication of the rank that finishes last (see `Ranks`)."""
        return duration(int(self.ranks.exposed_comm[self.outcome.row[self.last_rank]]))

    @property
    def peak_memory(self) -> Size | None:
        """The highest use of local memory on any rank; None where no trace names its tensors."""
        peak = self.memory.peak[~np.isnan(self.memory.peak)]
        return Size.of(float(peak.max())) if peak.size else None

    @property
    def out_of_memory(self) -> bool | None:
        """Whether some rank needs more memory than its NPU has; None where nothing can be said."""
        return self.memory.out_of_memory

    @cached_property
    def first_ranks(self) -> I64:
        """The lowest rank of every row [rows]."""
        return first_ranks(self.outcome)

    @cached_property
    def nodes(self) -> Nodes:
        """Every node of every row, with its times."""
        return nodes_of(self.plan, self.outcome)

    @cached_property
    def comm(self) -> Comm:
        """Communication nodes with the ranks that they belong to."""
        return comm_of(self.plan, self.outcome)

    @cached_property
    def messages(self) -> Messages:
        """Which receive took which send (entries of `comm`)."""
        return messages_of(self.comm)

    @cached_property
    def ranks(self) -> Ranks:
        """What each row's time went into."""
        begin = self.nodes.start.copy()
        recv, send = self.messages.recv, self.messages.send
        own = self.comm.rank[recv] == self.first_ranks[self.outcome.row[self.comm.rank[recv]]]
        place = self.comm.place[recv[own]]
        begin[place] = np.maximum(begin[place], self.comm.start[send[own]])
        return ranks_of(self.outcome, self.plan.policy.order, self.nodes, begin)

    @cached_property
    def collectives(self) -> Collectives:
        """Every collective that ran."""
        return collectives_of(self.plan, self.outcome, self.comm, self.first_ranks)

    @cached_property
    def links(self) -> Links:
        """Traffic per link or port."""
        return links_of(self.plan, self.outcome, self.names)

    @cached_property
    def dims(self) -> Dims:
        """Traffic per network dim."""
        return dims_of(self.plan, self.outcome, self.links)

    @cached_property
    def flows(self) -> Flows | None:
        """Completion times of messages; None where the back end has no packets."""
        return flows_of(self.outcome)

    @cached_property
    def packet_links(self) -> PacketLinks | None:
        """Links where packets waited; None where the back end has no packets."""
        return packet_links_of(self.plan, self.outcome, self.names)

    @cached_property
    def queues(self) -> Queues | None:
        """Queues of links over time, where `network.packets.queues` asked for them."""
        return queues_of(self.plan, self.outcome, self.names)

    @cached_property
    def path(self) -> Path:
        """The critical path."""
        return critical_path(self.plan, self.outcome, self.nodes, self.comm, self.messages)

    @cached_property
    def unexplained(self) -> float | None:
        """Share of the critical path, 0 to 1, that linked traces leave unexplained; None without such traces."""
        return unexplained_share(self.plan, self.traces, self.path)

    @cached_property
    def memory(self) -> MemoryUse:
        """Memory of each row, local and in tiers."""
        capacity = self.capacity or (None,) * len(self.outcome.finish)
        return memory_use(self.outcome, self.traces, capacity, self.tiers)

    @cached_property
    def phases(self) -> tuple[PhaseTime, ...]:
        """Prefill and decode of an inference workload; else none."""
        return phase_times(self.outcome, self.traces)

    @cached_property
    def jobs(self) -> tuple[JobResult, ...]:
        """What each job took, of several on one fabric; none for any other workload."""
        if self.job_ranks is None:
            return ()
        return jobs_of(self.plan, self.outcome, self.ranks.exposed_comm if self.recorded else None, self.job_ranks)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Stored:
        """What `run --json` wrote (a file), or `run --parquet` (a folder): summary, tables, figures. Raises InputError
        for what is neither."""
        from astrarium.result.stored import load

        return load(path)

    def busiest_link(self) -> tuple[str, float] | None:
        """(name, utilisation) of the busiest link or port, the first of equals; None where no traffic was recorded."""
        if not self.links.busy.size:
            return None
        at = int(np.argmax(self.links.busy))
        return self.links.name(at), float(self.links.utilisation[at])

    def summary(self) -> dict[str, Any]:
        """The figures of the command line's table: plain values, units in the keys; times are of the rank that
        finishes last."""
        found: dict[str, Any] = {"makespan_ns": self.makespan_ps / 1000, "ranks": len(self.outcome.row),
                                 "last_rank": self.first_rank + self.last_rank}
        if self.ports.most:
            row, dim = self.ports.where
            found["at_least_ns"] = self.at_least_ps / 1000
            found["port"] = {"rank": self.first_rank + int(self.first_ranks[row]), "dim": dim,
                             "needed_ns": self.ports.most / 1000}
        if self.recorded:
            row, ranks = int(self.outcome.row[self.last_rank]), self.ranks
            for name in ("compute", "exposed_comm", "exposed_memory", "exposed_host", "bubble"):
                found[f"{name}_ns"] = int(getattr(ranks, name)[row]) / 1000
            peak, link = self.peak_memory, self.busiest_link()
            found["peak_memory_bytes"] = None if peak is None else int(peak)
            found["out_of_memory"] = self.out_of_memory
            if self.tiers:
                found["tiers"] = [{"name": tier.name, "capacity_bytes": tier.capacity,
                                   "peak_bytes": None if np.isnan(tier.peak).all() else int(np.nanmax(tier.peak))}
                                  for tier in self.memory.tiers]
            if self.memory.problem:
                found["memory_unknown_because"] = self.memory.problem
            found["busiest_link"], found["busiest_link_utilisation"] = link or (None, None)
            found["critical_path"] = self.path.shares()
            if self.unexplained is not None:
                found["unexplained_share"] = self.unexplained
            for phase in self.phases:
                name = "ttft_ns" if phase.name == "prefill" else "tpot_ns"
                found[name] = phase.per_token / 1000
        found |= {"events": self.outcome.events, "classes": len(self.outcome.finish), "folded": self.outcome.folded,
                  "unfolded_because": self.outcome.unfolded_because, "how": list(self.outcome.how),
                  "in_program_order": self.outcome.in_program_order}
        return found
