"""The toy medium of the pure-Python engine, and what test_toy_medium.py runs with a core that has it, too."""

from __future__ import annotations

import json
from types import MappingProxyType

import astrarium as ar
from astrarium import engine, registry
from astrarium.engine.media import MediumKind
from astrarium.engine.outcome import PacketCounts
from astrarium.engine.plan import Changes, NetworkPlan
from astrarium.oracle.clock import DEPART, DONE, Clock, Event, Key, Order, ticks
from astrarium.oracle.fabric import coordinate, differing_dims, hops, strides
from astrarium.oracle.record import Traffic


class Toy:
    """Messages never wait for each other."""

    def __init__(self, clock: Clock, network: NetworkPlan, traffic: Traffic | None,
                 changes: Changes | None = None) -> None:
        del traffic, changes
        self._clock, self._dims, self._strides = clock, network.dims, strides(network.dims)

    def waits(self) -> list[str]:
        """Nothing waits."""
        return []

    def counts(self) -> PacketCounts | None:
        """No packets."""
        return None

    def send(self, key: Key, order: Order, source: int, destination: int, size: int, delivered: Event,
             tag: int = 0) -> None:
        """Departs in its turn; arrives when the last of its dims is crossed."""
        del order, tag
        time = 0
        for d in differing_dims(self._dims, self._strides, source, destination):
            dim, stride = self._dims[d], self._strides[d]
            ends = coordinate(source, stride, dim.npus), coordinate(destination, stride, dim.npus)
            time += ticks(dim.latency * hops(dim.shape, dim.npus, *ends)) + ticks(size / dim.bandwidth)
        clock = self._clock
        clock.at(clock.now, DEPART, key, lambda: clock.at(clock.now + time, DONE, key, delivered))


TOY = MediumKind("toy_medium:Toy")


def main() -> None:
    """A registry line each, then a training step on both engines: on the toy medium, and on packets by the toy
    transport."""
    table = registry._BUILT_IN
    assert not isinstance(table["backend"], str)
    line = {"toy": ("toy_medium:TOY", "Messages never wait for each other.")}
    delayed = {"delayed": ("toy_transport:Delayed", "Whatever is sent arrives after a delay.")}
    assert not isinstance(table["transport"], str)
    registry._BUILT_IN = MappingProxyType({**table, "backend": MappingProxyType({**table["backend"], **line}),
                                           "transport": MappingProxyType({**table["transport"], **delayed})})
    design = ar.Design(
        workload=ar.Transformer("llama3-8b", tp=2, pp=2, dp=2, global_batch=8, micro_batch=1, seq=1024),
        compute=ar.Roofline(peak="100 TFLOP/s"), memory=ar.Memory(bandwidth="1 TB/s"),
        network=ar.Network([ar.Ring(2, bandwidth="100 GB/s", latency="500 ns"),
                            ar.Switch(4, bandwidth="25 GB/s", latency="2 us")], backend="toy"))
    packets = ar.replace_all(design, {"network.backend": "packets",
                                      "network.packets.transport": {"name": "delayed", "delay": "3 us"}})
    found = []
    for each in (design, packets):
        result = ar.simulate(each)
        pure = engine.execute(result.plan, record=False, fold=False, pure=True)
        found.append({name: one.finish[one.row].tolist() for name, one in (("core", result.outcome), ("pure", pure))})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
