"""A rival of the exam of kernels: every order of loads, stores and semaphores of a tiny launch, one after the other.

Loads and stores happen request by request. What a request stores lands at some later time, one line at a time, in any
order but per line and workgroup; a release that fences waits until all of its workgroup has landed. A thread goes on
when it has stored. A load of a line with a flag waits until something has landed there, unless it is blind. Operations
with packets are dealt to other threads than those without. What nobody can see the order of is done at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple, TypeVar

from msgspec.structs import replace
from tests.gpu.test_kernels import GPU

from astrarium.gpu.engine import Buffer, Launch, Operation, OpKind, Place, Workgroup

Line = tuple[int, int, int]             # GPU, buffer, request
Token = tuple[int, ...]                 # who stored: GPU, workgroup, operation, request; () at first
MOST = 400_000
T = TypeVar("T")


class State(NamedTuple):
    """`at`: per thread, its operation, requests' sources that are loaded, requests that are stored. `memory`: per line
    what landed. `flying`: per workgroup, (line, token) in the order of issue. `semaphores`: counts."""

    at: tuple[tuple[int, frozenset[tuple[int, int]], frozenset[int]], ...]
    memory: tuple[tuple[Line, Token], ...]
    flying: tuple[tuple[tuple[Line, Token], ...], ...]
    semaphores: tuple[tuple[tuple[int, int], int], ...]


class EveryOrder:
    """All states that a launch of one stream can come to. `seen`: per load (thread, operation, request, source) whose
    stores it can get; `ends`: what memory can hold when all is over; `stuck`: whether it can end before that."""

    def __init__(self, launch: Launch, blind: Set[tuple[int, int, int]] = frozenset()):
        self.launch, self.blind = launch, blind
        self.groups = [(gpu, group) for gpu in range(launch.gpus) for group in range(len(launch.grid(gpu)))]
        self.threads = [(*who, each, packets) for who in self.groups for each in range(launch.streams[0].wavefronts)
                        for packets in (False, True)]
        self.stores, self.loads = self._uses()
        self.seen: dict[tuple[int, ...], set[Token]] = {}
        self.ends: set[tuple[tuple[Line, Token], ...]] = set()
        self.stuck = False
        self._go()

    @property
    def determined(self) -> bool:
        """Whether every order has every load get the same, and ends alike."""
        return not self.stuck and len(self.ends) == 1 and all(len(each) == 1 for each in self.seen.values())

    def _uses(self) -> tuple[Counter[Line], set[Line]]:
        """How many requests store to each line; lines that are loaded without waiting for a flag."""
        stores, loads = Counter[Line](), set[Line]()
        for gpu, group in self.groups:
            for at, op in enumerate(self.launch.grid(gpu)[group].operations):
                for request in range(op.size if op.kind in _DATA else 0):
                    stores.update(self._line(gpu, place, request) for place in op.targets)
                    loads |= {self._line(gpu, place, request) for place in op.sources
                              if not self._waits(gpu, group, at, place)}
        return stores, loads

    def _waits(self, gpu: int, group: int, at: int, place: Place) -> bool:
        return self.launch.buffers[place.buffer].flagged and (gpu, group, at) not in self.blind

    def _packets(self, op: Operation) -> bool:
        return any(self.launch.buffers[place.buffer].flagged for place in (*op.sources, *op.targets))

    def _go(self) -> None:
        first = State(tuple((0, frozenset[tuple[int, int]](), frozenset[int]()) for _ in self.threads), (),
                      tuple(() for _ in self.groups), ())
        todo, known = [first], {first}
        while todo:
            state = todo.pop()
            quiet = next(self._quiet(state), None)
            after = [*self._after(state)] if quiet is None else [quiet]
            if not after:
                over = all(self._operation(i, state) is None for i in range(len(self.threads)))
                self.stuck |= not over
                self.ends |= {state.memory} if over else set()
            for each in after:
                if each not in known:
                    known.add(each)
                    todo.append(each)
            assert len(known) < MOST, "too many states"

    def _operation(self, i: int, state: State) -> Operation | None:
        gpu, group, *_ = self.threads[i]
        operations = self.launch.grid(gpu)[group].operations
        return operations[state.at[i][0]] if state.at[i][0] < len(operations) else None

    def _quiet(self, state: State) -> Iterator[State]:
        """Steps that commute with all others."""
        for number, flying in enumerate(state.flying):
            for at, (line, _) in enumerate(flying):
                if self.stores[line] == 1 and line not in self.loads:
                    yield self._landed(state, number, at)
        for i in range(len(self.threads)):
            op = self._operation(i, state)
            if op is not None and op.kind in _DATA:
                yield from self._data(state, i, op, quiet=True)

    def _after(self, state: State) -> Iterator[State]:
        for number, flying in enumerate(state.flying):
            yield from self._land(state, number, flying)
        for number, (gpu, group) in enumerate(self.groups):
            mine = [i for i, each in enumerate(self.threads) if each[:2] == (gpu, group)]
            ops = [self._operation(i, state) for i in mine]
            if ops[0] is not None and ops[0].kind not in _DATA and len({state.at[i][0] for i in mine}) == 1:
                yield from self._control(state, number, gpu, mine, ops[0])
        for i in range(len(self.threads)):
            op = self._operation(i, state)
            if op is not None and op.kind in _DATA:
                yield from self._data(state, i, op)

    def _land(self, state: State, number: int, flying: tuple[tuple[Line, Token], ...]) -> Iterator[State]:
        for at, (line, _) in enumerate(flying):
            if line not in (each for each, _ in flying[:at]):
                yield self._landed(state, number, at)

    def _landed(self, state: State, number: int, at: int) -> State:
        flying = state.flying[number]
        memory = tuple(sorted({**dict(state.memory), flying[at][0]: flying[at][1]}.items()))
        return state._replace(memory=memory, flying=_put(state.flying, number, flying[:at] + flying[at + 1:]))

    def _control(self, state: State, number: int, gpu: int, mine: list[int], op: Operation) -> Iterator[State]:
        counts = dict(state.semaphores)
        if op.kind == OpKind.ACQUIRE and counts.get((gpu, op.semaphore), 0) < op.value:
            return
        if op.kind == OpKind.RELEASE:
            if op.fence and state.flying[number]:
                return
            key = (gpu + op.peer) % self.launch.gpus, op.semaphore
            counts[key] = counts.get(key, 0) + 1
        at = list(state.at)
        for i in mine:
            at[i] = at[i][0] + 1, frozenset(), frozenset()
        yield state._replace(at=tuple(at), semaphores=tuple(sorted(counts.items())))

    def _data(self, state: State, i: int, op: Operation, *, quiet: bool = False) -> Iterator[State]:
        """One more load, or a request's stores where all of its loads are there. `quiet`: what commutes."""
        gpu, group, wavefront, packets = self.threads[i]
        number, loaded, stored = state.at[i]
        instruction, wavefronts = self.launch.machine.instruction, self.launch.streams[0].wavefronts
        requests = [each for each in range(op.size) if each // instruction % wavefronts == wavefront
                    and self._packets(op) == packets]
        flying, memory = state.flying[self.groups.index((gpu, group))], dict(state.memory)
        if len(stored) == len(requests):
            yield state._replace(at=_put(state.at, i, (number + 1, frozenset(), frozenset())))
        for request in requests:
            for source, place in enumerate(op.sources):
                line = self._line(gpu, place, request)
                waits = self._waits(gpu, group, number, place)
                if (request, source) in loaded or line in dict(flying) or (waits and line not in memory) or (
                        quiet and self.stores[line] > waits):
                    continue
                self.seen.setdefault((gpu, group, number, request, source), set()).add(memory.get(line, ()))
                yield state._replace(at=_put(state.at, i, (number, loaded | {(request, source)}, stored)))
            if request not in stored and all((request, source) in loaded for source in range(len(op.sources))):
                new = tuple((self._line(gpu, place, request), (gpu, group, number, request)) for place in op.targets)
                if quiet and any(self.stores[line] > 1 or line in self.loads for line, _ in new):
                    continue
                yield state._replace(at=_put(state.at, i, (number, loaded, stored | {request})),
                                     flying=_put(state.flying, self.groups.index((gpu, group)), flying + new))

    def _line(self, gpu: int, place: Place, request: int) -> Line:
        return (gpu + place.peer) % self.launch.gpus, place.buffer, place.offset + request


_DATA = frozenset({OpKind.MEMCPY, OpKind.REDUCE, OpKind.LOAD, OpKind.STORE})


def _put(of: tuple[T, ...], at: int, what: T) -> tuple[T, ...]:
    return (*of[:at], what, *of[at + 1:])


def tiny(grids: Sequence[Sequence[Sequence[Operation]]]) -> Launch:
    """A launch of two GPUs with three requests of data and two of packets, one at a time. A wait is for all signals to
    its semaphore."""
    made = Counter(((gpu + op.peer) % 2, op.semaphore) for gpu, grid in enumerate(grids) for ops in grid for op in ops
                   if op.kind == OpKind.RELEASE)
    whole = tuple(tuple(Workgroup(tuple(replace(op, value=made[gpu, op.semaphore]) if op.kind == OpKind.ACQUIRE else op
                                        for op in ops)) for ops in grid) for gpu, grid in enumerate(grids))
    machine = replace(GPU.machine(), instruction=1)
    return Launch(machine, 2, whole, (Buffer("data", 3), Buffer("packets", 2, flagged=True, lines=2)), ("a", "b"))


def variants(launch: Launch) -> Iterator[Launch]:
    """The launch, then without each operation, and with each two neighbours in the other order."""
    yield launch
    grids = [[list(group.operations) for group in grid] for grid in launch.grids]
    for gpu, grid in enumerate(grids):
        for group, ops in enumerate(grid):
            for at in range(len(ops)):
                for some in (ops[:at] + ops[at + 1:], ops[:at] + ops[at:at + 2][::-1] + ops[at + 2:]):
                    yield tiny([*grids[:gpu], [*grid[:group], some, *grid[group + 1:]], *grids[gpu + 1:]])
