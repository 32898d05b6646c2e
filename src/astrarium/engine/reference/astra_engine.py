"""ASTRA-sim's rule book put together: ranks, their queues and doors, the mail between them, one network, one clock."""

from __future__ import annotations

from functools import partial

from astrarium.engine.plan import Algorithm, CollectivePlan, Kind, Phase, Plan
from astrarium.engine.reference.astra_bus import Door
from astrarium.engine.reference.astra_custom import Custom
from astrarium.engine.reference.astra_halving import HalvingDoubling
from astrarium.engine.reference.astra_messages import COLLECTIVE, P2P, DirectMail, Mail, RendezvousMail
from astrarium.engine.reference.astra_network import astra_network
from astrarium.engine.reference.astra_rank import AstraRank
from astrarium.engine.reference.astra_remote import RemoteMemory
from astrarium.engine.reference.astra_ring import Direct, Place, Ring
from astrarium.engine.reference.astra_streams import Machine, Picker, Queues, Step, Stream
from astrarium.engine.reference.astra_tree import Tree
from astrarium.engine.reference.clock import Clock, Event, NpuEvents
from astrarium.engine.reference.geometry import circle_base
from astrarium.engine.reference.meetings import Meeting, Meetings
from astrarium.engine.reference.program import Table, peer_and_tag, table, tables
from astrarium.engine.reference.record import Record
from astrarium.engine.reference.traffic import Traffic
from astrarium.errors import UnsupportedError

__all__ = ["AstraEngine"]

CHUNK_BITS = 24


class AstraEngine:
    """A run. `run` plays it; afterwards `clock`, `traffic` and `ranks` hold what was measured."""

    def __init__(self, plan: Plan, record: Record | None) -> None:
        self.plan, self.clock = plan, Clock()
        self.traffic = Traffic(plan.network, plan.npus) if record is not None else None
        direct = DirectMail(self.clock, astra_network(self.clock, plan.network, self.traffic), plan.npu_of.tolist())
        self.mail: Mail = RendezvousMail(direct) if plan.policy.rendezvous else direct
        self.remote = RemoteMemory(plan.remote)
        self.meetings = Meetings(plan)
        self.custom = {c.custom: [table(p) for p in c.custom.programs] for c in plan.collectives if c.custom}
        self.ranks = [Runtime(self, rank, rows, record) for rank, rows in enumerate(tables(plan))]

    def run(self) -> None:
        """Start every rank at 0, in order, and run until nothing happens any more."""
        for rank in self.ranks:
            rank.nodes.look()
        self.clock.run()


class Runtime:
    """What one rank owns: its nodes, its queues, its way to the network, its events."""

    def __init__(self, engine: AstraEngine, rank: int, rows: Table, record: Record | None) -> None:
        plan = engine.plan
        self.rank, self.rows, self._engine = rank, rows, engine
        self.events = NpuEvents(engine.clock)
        self.door = Door(engine.clock, self.events, plan.policy, plan.reduction_rate(int(plan.npu_of[rank])))
        self.mail = engine.mail
        self.queues = Queues(plan.policy, len(plan.network.dims))
        self.meetings: dict[int, Meeting] = {}
        self._picker = Picker(plan.policy.queues_per_dim)
        self._trees: dict[tuple[int, int], bool] = {}
        self._priority = 0
        start, end = record.rows(rank) if record is not None else (None, None)
        self.nodes = AstraRank(engine.clock, rows, plan.lanes, self._issue, start, end)

    def argument(self, node: int) -> tuple[int, int, int]:
        """The rank's own arguments of a comm node: slot_a, slot_b, slot_c."""
        plan = self._engine.plan
        place = int(plan.slot_ptr[self.rank]) + self.rows.slot[node]
        return int(plan.slot_a[place]), int(plan.slot_b[place]), int(plan.slot_c[place])

    def _issue(self, node: int, done: Event) -> None:
        kind, size = self.rows.kind[node], self.rows.size[node]
        if kind == Kind.DELAY:
            self.events.after(self.rows.duration[node], done)
        elif kind == Kind.COLLECTIVE:
            self._collective(node, done)
        elif kind == Kind.REMOTE:
            self._engine.remote.access(self.rank, self.events, size, done)
        else:
            peer, tag = peer_and_tag(self.rank, self.rows, node, self.argument(node), len(self._engine.ranks))
            if kind == Kind.SEND:
                self.mail.send(tag * 4 + P2P, self.rank, peer, size, done)
            else:
                self.mail.receive(tag * 4 + P2P, peer, self.rank, size, done)

    def _collective(self, node: int, done: Event) -> None:
        number, group, explicit = self.argument(node)
        plan = self._engine.plan.collectives[number]
        meeting = self.meetings[node] = self._engine.meetings.join(self.rank, group, plan, self.rows.node_id[node])
        priority = self._next_priority(explicit)
        waves = [chunk.phases for chunk in plan.chunks for _ in range(chunk.repeat) if chunk.phases]
        if not waves:
            self.events.after(0, done)
            return
        left = len(waves)

        def chunk_done() -> None:
            nonlocal left
            left -= 1
            if not left:
                done()

        for number, phases in enumerate(waves):
            steps = [self._step(plan, phase) for phase in phases]
            make = partial(self._machine, plan, meeting, number)
            self.queues.advance(Stream(steps, priority, make, chunk_done))

    def _next_priority(self, explicit: int) -> int:
        lifo = self._engine.plan.policy.lifo
        if not lifo:
            return explicit
        self._priority += lifo
        return self._priority

    def _step(self, plan: CollectivePlan, phase: Phase) -> Step:
        level = max(phase.dim, 0)
        if phase.algorithm == Algorithm.CUSTOM:
            return Step(phase, 0, False, False)
        queue, backwards = self._picker.take(level, phase.pick)
        key, root_last = (plan.op, phase.dim), False
        if phase.algorithm == Algorithm.DOUBLE_BINARY_TREE:
            root_last = self._trees.get(key, True)
            self._trees[key] = not root_last
        return Step(phase, queue, backwards, root_last)

    def _machine(self, plan: CollectivePlan, meeting: Meeting, chunk: int, step: Step, done: Event) -> Machine:
        tag = ((meeting.number << CHUNK_BITS) + chunk) * 4 + COLLECTIVE
        position = self._engine.meetings.position(meeting.group, self.rank)
        phase = step.phase
        if phase.algorithm == Algorithm.CUSTOM:
            return self._custom(plan, meeting, position, done)
        first, index = circle_base(phase, position)
        ranks = self._engine.meetings.circle(meeting.group, first, phase.stride, phase.n)
        place = Place(self.rank, index, ranks, step.backwards)
        if phase.algorithm == Algorithm.RING:
            return Ring(self, phase, place, tag, done)
        if phase.algorithm == Algorithm.DIRECT:
            return Direct(self, phase, place, tag, done)
        if phase.algorithm == Algorithm.HALVING_DOUBLING:
            return HalvingDoubling(self, phase, place, tag, done)
        if phase.algorithm == Algorithm.DOUBLE_BINARY_TREE:
            return Tree(self, phase, place, tag, done, step.root_last)
        raise UnsupportedError("collective", "a schedule does not run under ASTRA-sim's order",
                               expected="ring, direct, halving_doubling or double_binary_tree")

    def _custom(self, plan: CollectivePlan, meeting: Meeting, position: int, done: Event) -> Machine:
        custom = plan.custom
        if custom is None:
            raise UnsupportedError("collective", "a custom phase without a custom program")
        members = self._engine.meetings.members(meeting.group)
        program = self._engine.custom[custom][int(custom.program_of[position])]
        return Custom(self.events, self.mail, custom, program, position, members.__getitem__,
                      lambda tag: tag * 4 + P2P, done)     # matched with those of the traces, as in ASTRA-sim
