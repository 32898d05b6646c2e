"""How a packet gets between an NPU's compute side and its message side: fixed delays, or ASTRA-sim's shared LogGP bus.

The bus has two ends, `npu` and `adapter`. A transfer costs the sender `offset + G * (bytes - 1)` and reaches the other
end `L + o` later (offset: `o`, or what is left of the gap `g`). The npu end owns a second, inner bus towards memory
(G = 0.0038 ns/byte) which every outgoing transfer crosses first, and every incoming one before it is done.
Times are ns inside this file and ps where events are scheduled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum

from astrarium.engine.plan import Policy
from astrarium.engine.reference.clock import Clock, Event, NpuEvents

__all__ = ["FAST_DELAY", "Door"]

FAST_DELAY = 10_000  # ps: endpoint delay of ASTRA-sim's "local" rings
INNER_GAP_PER_BYTE = 0.0038
Parameters = tuple[float, float, float, float, int]  # L, o, g, G, local-reduction-delay
BURST = 8  # transfers in a row after which an end gives way


class Door:
    """One NPU's way in and out. `out` and `into` call `done` when a packet of `size` bytes has crossed.

    With `reduce` the packet is also added to local data: three passes over memory, each truncated to whole ns.
    """

    def __init__(self, clock: Clock, npu: NpuEvents, policy: Policy, reduce_bandwidth: float) -> None:
        self._npu, self._delay, self._reduce_bandwidth = npu, policy.endpoint_delay, reduce_bandwidth
        self._bus = Bus(clock, npu, policy.shared_bus, inner=True) if policy.shared_bus is not None else None

    def out(self, size: int, fast: bool, done: Event) -> None:
        """From the NPU to its network adapter."""
        if fast or self._bus is None:
            self._npu.after(FAST_DELAY if fast else self._delay, done)
        else:
            self._bus.npu.request(Transfer(_kept(size), False, False, done))

    def into(self, size: int, fast: bool, reduce: bool, send_back: bool, done: Event) -> None:
        """From the adapter to the NPU; `send_back`: the bus also carries the result back."""
        arrived = (lambda: self._reduce(size, done)) if reduce else done
        if fast or self._bus is None:
            self._npu.after(FAST_DELAY if fast else self._delay, arrived)
        else:
            self._bus.adapter.request(Transfer(_kept(size), reduce, send_back, arrived))

    def _reduce(self, size: int, done: Event) -> None:
        pass_ns = int(size / self._reduce_bandwidth * 1e9) if self._reduce_bandwidth else 0
        self._npu.after(3 * pass_ns * 1000, done)


def _kept(size: int) -> int:
    """Bytes as ASTRA-sim's bus keeps them: 32 bits with a sign."""
    return (size + 2**31) % 2**32 - 2**31


class Transfer:
    """A request on the bus: what still has to happen to it (`process`, then `send_back`), and whom to call then."""

    __slots__ = ("done", "process", "send_back", "size")

    def __init__(self, size: int, process: bool, send_back: bool, done: Event) -> None:
        self.size, self.process, self.send_back, self.done = size, process, send_back, done


class State(Enum):
    FREE = 0
    SENDING = 1
    RECEIVING = 2


class Bus:
    """Two ends that hand transfers to each other."""

    def __init__(self, clock: Clock, npu: NpuEvents, parameters: Parameters, inner: bool) -> None:
        latency, overhead, gap, _, reduction = parameters
        memory = Bus(clock, npu, (latency, overhead, gap, INNER_GAP_PER_BYTE, reduction), False) if inner else None
        self.npu = End(clock, npu, parameters, memory)
        self.adapter = End(clock, npu, parameters, None)
        self.npu.partner, self.adapter.partner = self.adapter, self.npu


class End:
    """One end of a bus: sends one transfer at a time, receives any number, processes one at a time."""

    partner: End

    def __init__(self, clock: Clock, npu: NpuEvents, parameters: Parameters, memory: Bus | None) -> None:
        self._clock, self._npu, self._memory = clock, npu, memory
        latency, overhead, gap, self._per_byte, self._reduction = parameters
        self._latency, self._overhead, self._gap = int(latency), int(overhead), int(gap)
        self._state = self._previous = State.FREE
        self._last_transfer = 0
        self._in_a_row = 0
        self._processing_one = False
        self._sends: deque[Transfer] = deque()
        self._receives: deque[Transfer] = deque()
        self._processing: deque[Transfer] = deque()

    def request(self, transfer: Transfer) -> None:
        """Start a transfer towards the other end, at an end with memory after reading it from there."""
        if self._memory is None:
            self._enqueue(transfer)
        else:
            self._memory.adapter.request(Transfer(transfer.size, False, False, lambda: self._enqueue(transfer)))

    def _enqueue(self, transfer: Transfer) -> None:
        self._sends.append(transfer)
        self._next_send()

    def _next_send(self) -> None:
        """Send the next transfer if this end is free, unless it has had its burst and the other end waits."""
        if self._state is not State.FREE or not self._sends:
            return
        other = self.partner
        if self._in_a_row > BURST and other._sends and other._in_a_row <= BURST:
            other._next_send()
            return
        since = self._now() - self._last_transfer
        keeps_gap = self._previous is State.SENDING and self._overhead + since <= self._gap
        offset = self._gap - since if keeps_gap else self._overhead
        transfer = self._sends.popleft()
        wire = max(self._per_byte * (transfer.size - 1), -float(offset))     # of no bytes: not back in time
        other._receive(transfer, int(offset + wire + self._latency + self._overhead))
        self._state = State.SENDING
        self._npu.after(int(offset + wire) * 1000, self._send_finished)

    def _receive(self, transfer: Transfer, delay: int) -> None:
        self._receives.append(transfer)
        self._previous, self._state = self._state, State.RECEIVING
        self._in_a_row = 0
        self._npu.after(delay * 1000, self._receive_finished)

    def _send_finished(self) -> None:
        self._last_transfer = self._now()
        self._previous, self._state = self._state, State.FREE
        self._in_a_row += 1
        self._next_send()

    def _receive_finished(self) -> None:
        self._last_transfer = self._now()
        self._previous = self._state
        if len(self._receives) < 2:
            self._state = State.FREE
        transfer = self._receives.popleft()
        if transfer.process:
            transfer.process = False
            self._by_memory(transfer, True, self._start_processing)
        else:
            self._leave(transfer)
        self._next_send()

    def _leave(self, transfer: Transfer) -> None:
        """Received and, where asked for, processed: back to the other end, or done."""
        if transfer.send_back:
            transfer.send_back = False
            self._by_memory(transfer, True, self._enqueue)
        else:
            self._by_memory(transfer, False, self._retire)

    def _by_memory(self, transfer: Transfer, and_back: bool, then: Callable[[Transfer], None]) -> None:
        """`then` at once at an end without memory, else when the inner bus has carried it (`and_back`: both ways)."""
        if self._memory is None:
            then(transfer)
        else:
            self._memory.npu.request(Transfer(transfer.size, False, and_back, lambda: then(transfer)))

    def _retire(self, transfer: Transfer) -> None:
        transfer.done()
        self._next_send()

    def _start_processing(self, transfer: Transfer) -> None:
        self._processing.append(transfer)
        self._process_next()
        self._next_send()

    def _process_next(self) -> None:
        if self._processing and not self._processing_one:
            self._processing_one = True
            delay = self._processing[0].size // 100 * self._reduction + 50
            self._npu.after(delay * 1000, self._processing_finished)

    def _processing_finished(self) -> None:
        self._processing_one = False
        self._leave(self._processing.popleft())
        self._process_next()
        self._next_send()

    def _now(self) -> int:
        return self._clock.now // 1000
