"""Runs communications in SimGrid. A script of its own: it runs under whichever interpreter has the `simgrid` module.

stdin: JSON {"links": [[bytes/s, s], ...], "flows": [{"bytes": n, "hops": [[link, ...], ...]}, ...]}. Each hop of a flow
is one communication over its links together, started when the hop before has arrived (store and forward). stdout: JSON
list, per flow the time in seconds at which its last hop has arrived. SimGrid's corrections for TCP are off: a
communication takes latency + bytes / share, and flows have max-min fair shares, equal ones where latencies are equal.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import simgrid

PLAIN = ["--cfg=network/model:CM02", "--cfg=network/latency-factor:1", "--cfg=network/bandwidth-factor:1",
         "--cfg=network/weight-S:0", "--cfg=network/TCP-gamma:0", "--cfg=network/crosstraffic:0"]


def send(name: str, size: int, ready: Any) -> None:
    """The sender of one hop, once the hop before has arrived."""
    if ready is not None:
        ready.acquire()
    simgrid.Mailbox.by_name(name).put(name, size)


def receive(name: str, ready: Any, flow: int, done: list[float]) -> None:
    """The receiver of one hop: starts the next one, or marks the end of the flow."""
    simgrid.Mailbox.by_name(name).get()
    if ready is not None:
        ready.release()
    else:
        done[flow] = simgrid.Engine.clock


def main() -> None:
    work: dict[str, Any] = json.load(sys.stdin)
    engine = simgrid.Engine([sys.argv[0], *PLAIN])
    zone = simgrid.NetZone.create_full_zone("all")
    done = [-1.0] * len(work["flows"])
    made = [zone.create_link(f"link {number}", bandwidth).set_latency(latency).seal()
            for number, (bandwidth, latency) in enumerate(work["links"])]
    ends: dict[tuple[int, ...], list[Any]] = {}
    for links in {tuple(links) for flow in work["flows"] for links in flow["hops"]}:
        hosts = ends[links] = [zone.create_host(f"{side} of {links}", 1e9) for side in ("source", "target")]
        way = [simgrid.LinkInRoute(made[link]) for link in links]
        zone.add_route(hosts[0].netpoint, hosts[1].netpoint, None, None, way, False)
        # A rendezvous tells both sides, so there is a way back; it carries nothing.
        zone.add_route(hosts[1].netpoint, hosts[0].netpoint, None, None, way, False)
    zone.seal()
    for flow, about in enumerate(work["flows"]):
        gates = [None, *(simgrid.Semaphore(0) for _ in about["hops"][1:]), None]
        for hop, links in enumerate(about["hops"]):
            source, target = ends[tuple(links)]
            name = f"flow {flow} hop {hop}"
            simgrid.Actor.create(f"send {name}", source, send, name, about["bytes"], gates[hop])
            simgrid.Actor.create(f"receive {name}", target, receive, name, gates[hop + 1], flow, done)
    engine.run()
    json.dump(done, sys.stdout)


main()
