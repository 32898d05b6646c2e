"""One run: its ranks, collectives and messages over one network, on one clock."""

from __future__ import annotations

from functools import partial

from astrarium.engine.plan import Changing, Kind, Lane, Plan, RemoteKind
from astrarium.engine.plugins.given import Team, ask_whole
from astrarium.engine.plugins.library import Library
from astrarium.errors import PluginError, UnsupportedError
from astrarium.oracle.clock import DONE, NEVER, Clock, Event, message_order, rates_of, ticks
from astrarium.oracle.collectives import Instance, Member, Switches
from astrarium.oracle.custom import CustomMember
from astrarium.oracle.fabric import coordinate, strides
from astrarium.oracle.medium import ForeignMedium, Medium, open_medium
from astrarium.oracle.meetings import Meeting, Meetings, Post
from astrarium.oracle.nodes import Nodes
from astrarium.oracle.record import Record, Traffic
from astrarium.oracle.tables import ScheduleTable, Table, peer_and_tag, table, tables
from astrarium.vocab import Schedule

__all__ = ["Engine", "Rank"]


class Engine:
    """A run. `run` plays it; afterwards `clock`, `traffic` and `ranks` hold what was measured."""

    def __init__(self, plan: Plan, record: Record | None, team: Team | None = None) -> None:
        self.team = team or Team()
        self.plan, self.policy, self.clock = plan, plan.policy, Clock()
        self.foreign = _foreign(self.clock, plan, self.team)
        self.traffic = Traffic(plan.network, plan.npus) if record is not None and self.foreign is None else None
        self.network: Medium = self.foreign or open_medium(self.clock, plan.network, self.traffic, plan.changes)
        self.rates = rates_of(plan.changes, Changing.NPU)
        self.meetings = Meetings(plan)
        self.npu_of: list[int] = plan.npu_of.tolist()
        self.post, self.switches = Post(), Switches(plan)
        self.remote_free: dict[int, int] = {}
        self._instances: dict[int, Instance] = {}
        self._tables: dict[Schedule, ScheduleTable] = {}
        self.custom = {c.custom: [table(p) for p in c.custom.programs] for c in plan.collectives if c.custom}
        self.ranks = [Rank(self, rank, rows, record) for rank, rows in enumerate(tables(plan))]

    def run(self) -> None:
        """Run until nothing happens any more; the ranks' first look stands at time 0."""
        if self.foreign is not None:
            self.foreign.run(lambda: any(rank.nodes.left for rank in self.ranks))
        else:
            self.clock.run()

    def waits(self) -> list[str]:
        """Sentences for a stall: links and NPUs that stand still for ever, where something waits for them, and what a
        plug-in keeps."""
        stopped = {self.npu_of[rank.rank]: self.rates.stops(self.npu_of[rank.rank]) for rank in self.ranks
                   if rank.nodes.left}
        return ([] if not stopped else self.network.waits()) + [
            f"NPU {npu} stands still for ever, since {since} ps" for npu, since in stopped.items() if since is not None]

    def pick(self, rank: int, lane: int, nodes: list[int]) -> int:
        """The choice of the scheduling plug-in."""
        assert self.team.scheduling is not None
        chosen = ask_whole(self.team.labels[2], "pick", self.team.scheduling.pick, rank, lane, nodes, self.clock.now)
        if not 0 <= chosen < len(nodes):
            raise PluginError(self.team.labels[2], f"picks number {chosen} of {len(nodes)} nodes")
        return chosen

    def npu(self, group: int, position: int) -> int:
        """The NPU of a group's member."""
        return self.npu_of[self.meetings.members(group)[position]]

    def table(self, schedule: Schedule) -> ScheduleTable:
        """The lists of a schedule, made once."""
        known = self._tables.get(schedule)
        if known is None:
            known = self._tables[schedule] = ScheduleTable(schedule)
        return known

    def instance(self, meeting: Meeting) -> Instance:
        """The collective of a meeting."""
        return self._instances.setdefault(meeting.number, Instance())


def _foreign(clock: Clock, plan: Plan, team: Team) -> ForeignMedium | None:
    network = team.network
    if network is None:
        return None
    made = network.open(plan.network) if isinstance(network, Library) else network
    return ForeignMedium(clock, made, team.labels[0], team.patience)


class Rank:
    """One rank: its nodes and what issuing each of them does."""

    def __init__(self, engine: Engine, rank: int, rows: Table, record: Record | None) -> None:
        self.rank, self.rows, self._engine = rank, rows, engine
        self.meetings: dict[int, Meeting] = {}
        self.given: dict[int, tuple[int, int, int]] = {}     # arguments of nodes that are not in the plan
        start, end = record.rows(rank) if record is not None else (None, None)
        pick = None if engine.team.scheduling is None else partial(engine.pick, rank)
        self.nodes = Nodes(engine.clock, rank, rows, engine.plan.lanes, self._order, self._issue, start, end, pick)

    def argument(self, node: int) -> tuple[int, int, int]:
        """The rank's own arguments of a comm node: slot_a, slot_b, slot_c."""
        if node in self.given:
            return self.given[node]
        plan = self._engine.plan
        place = int(plan.slot_ptr[self.rank]) + self.rows.slot[node]
        return int(plan.slot_a[place]), int(plan.slot_b[place]), int(plan.slot_c[place])

    def _order(self, node: int, now: int) -> int:
        """Lower is issued first in the COMM lane: highest priority, or latest (LIFO) or earliest (FIFO) ready."""
        lifo = self._engine.policy.lifo
        if lifo:
            return -now if lifo > 0 else now
        return -self.argument(node)[2] if self.rows.kind[node] == Kind.COLLECTIVE else 0

    def _issue(self, node: int, done: Event) -> None:
        kind, clock = self.rows.kind[node], self._engine.clock
        if kind == Kind.COLLECTIVE:
            self._collective(node, done)
        elif kind in (Kind.SEND, Kind.RECV):
            self._message(node, done)
        elif kind == Kind.REMOTE and self.rows.slot[node] < -1:
            self._access(node, done)
        else:
            end = self._remote_end(node) if kind == Kind.REMOTE else self._delay_end(node)
            if end < NEVER:
                clock.at(end, DONE, (self.rank, node, 0, 0), done)

    def _delay_end(self, node: int) -> int:
        """When a node that only lasts ends; what it lasts longer for its NPU's changes counts as busy, too."""
        now, duration, rates = self._engine.clock.now, self.rows.duration[node], self._engine.rates
        if not rates or self.rows.lane[node] != Lane.COMPUTE:
            return now + duration
        end = rates.finish(self._engine.npu_of[self.rank], now, duration)
        if self.rows.busy[node]:
            self.nodes.busy += end - now - duration
        return end

    def _message(self, node: int, done: Event) -> None:
        engine, size = self._engine, self.rows.size[node]
        peer, tag = peer_and_tag(self.rank, self.rows, node, self.argument(node), len(engine.npu_of))
        key, own, other = (self.rank, node, 0, 0), engine.npu_of[self.rank], engine.npu_of[peer]
        order = message_order(size)
        if engine.foreign is not None:
            if self.rows.kind[node] == Kind.SEND:
                engine.foreign.send(key, order, own, other, size, done, tag)
            else:
                engine.foreign.receive(key, other, own, size, done, tag)
            return
        if self.rows.kind[node] == Kind.RECV:
            if engine.post.wants((tag, peer, self.rank, size), done):
                engine.clock.at(engine.clock.now, DONE, (self.rank, node, 0, 0), done)
            return

        def delivered() -> None:
            receive = engine.post.delivered((tag, self.rank, peer, size))
            done()
            if receive is not None:
                receive()

        engine.network.send(key, order, own, other, size, delivered)

    def _access(self, node: int, done: Event) -> None:
        """A message between the rank's NPU and a memory at one of its switches."""
        engine, size = self._engine, self.rows.size[node]
        which, store = divmod(-2 - self.rows.slot[node], 2)
        own, dims = engine.npu_of[self.rank], engine.plan.network.dims
        places = [(d, place) for d, dim in enumerate(dims) for place in range(dim.npus - len(dim.ends), dim.npus)]
        d, place = places[which]
        stride = strides(dims)[d]
        memory = own + (place - coordinate(own, stride, dims[d].npus)) * stride
        ends = (own, memory) if store else (memory, own)
        engine.network.send((self.rank, node, 0, 0), message_order(size), *ends, size, done)

    def _collective(self, node: int, done: Event) -> None:
        engine = self._engine
        number, group, _ = self.argument(node)
        plan = engine.plan.collectives[number]
        meeting = self.meetings[node] = engine.meetings.join(self.rank, group, plan, self.rows.node_id[node])
        meeting.collective = number if meeting.collective < 0 else meeting.collective
        position = engine.meetings.position(group, self.rank)
        if plan.lasts:
            engine.instance(meeting).join(engine.clock, plan.lasts, len(engine.meetings.members(group)),
                                       (self.rank, node, 0, 0), done)
        elif plan.custom is not None:
            program = engine.custom[plan.custom][int(plan.custom.program_of[position])]
            CustomMember(engine, engine.post, plan.custom, program, meeting, self.rank, position, node, done).start()
        else:
            Member(engine, engine.instance(meeting), plan, meeting, self.rank, position, node, done).start()

    def _remote_end(self, node: int) -> int:
        """When a remote access issued now is over; shared memories serve in order of issue."""
        engine, remote, size = self._engine, self._engine.plan.remote, self.rows.size[node]
        if engine.team.memory is not None:
            who, now = engine.team.labels[1], engine.clock.now
            time = ask_whole(who, "access_time", engine.team.memory.access_time, size, self.rank, now)
            if time < 0:
                raise PluginError(who, f"access_time() gave {time} ps: time cannot go back")
            return now + time
        if remote.kind == RemoteKind.NONE:
            raise UnsupportedError("memory.remote", f"a node of rank {self.rank} moves {size} bytes to or from remote "
                                   "memory, and the design has none", expected="per_npu, per_node or pool")
        time = remote.latency * 1000 + ticks(size / remote.bandwidth)
        if remote.kind == RemoteKind.PER_NPU:
            return engine.clock.now + time
        place = engine.npu_of[self.rank] // remote.npus_per_node if remote.kind == RemoteKind.PER_NODE else 0
        end = max(engine.clock.now, engine.remote_free.get(place, 0)) + time
        engine.remote_free[place] = end
        return end
