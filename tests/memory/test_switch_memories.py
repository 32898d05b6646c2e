"""Memories at switches of the network: their traffic against closed forms, beside collectives, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import astrarium as ar
from astrarium.result import Result
from astrarium.trace import TraceBuilder, traces_of_bytes
from astrarium.trace.columns import Traces
from astrarium.vocab import CommOp

MB, NPUS = 1_000_000, 4
MEDIA: list[dict[str, Any]] = [
    {"backend": "closed_form"}, {"backend": "contention"}, {"backend": "contention", "switching": "store_and_forward"},
    {"backend": "fluid"}]
Make = Callable[[TraceBuilder, int], object]


def traces(make: Make, ranks: int = NPUS) -> Traces:
    found = []
    for rank in range(ranks):
        trace = TraceBuilder()
        make(trace, rank)
        found.append(trace.encode())
    return traces_of_bytes(found)


def pool(total: str | None = "100 GB/s", **given: Any) -> ar.Tier:
    return ar.Tier(**{"name": "pool", "capacity": "1 TB", "bandwidth": "100 GB/s", "npus": NPUS, "total": total,
                      "latency": "2 us", "over": "network", "dim": 0, **given})


def design(*tiers: ar.Tier, dims: list[Any] | None = None, medium: dict[str, Any] | None = None, **given: Any,
           ) -> ar.Design:
    switch = ar.Switch(NPUS, bandwidth="100 GB/s", latency="500 ns")
    return ar.Design(**{"workload": ar.Trace("in memory"), "memory": ar.Memory(bandwidth="1 TB/s", tiers=tiers),
                        "network": ar.Network(dims or [switch], **medium or {}), **given})


def both(made: ar.Design, given: Any) -> Result:
    """A run of both engines, which agree on every time and on all traffic."""
    one, other = (ar.simulate(made, traces=given, pure=pure) for pure in (False, True))
    for name in ("start", "end", "finish", "use_busy"):
        assert getattr(one.outcome, name).tolist() == getattr(other.outcome, name).tolist(), name
    for name in ("dim", "source", "target", "size", "busy"):
        assert getattr(one.links, name).tolist() == getattr(other.links, name).tolist(), name
    return one


@pytest.mark.parametrize("medium", MEDIA, ids=str)
@pytest.mark.parametrize("total", [50, 100, 400])
@pytest.mark.parametrize("store", [False, True])
def test_one_alone(medium: dict[str, Any], total: int, store: bool) -> None:
    """The latencies of both links, and the bytes at the slower link's rate; stored and forwarded, through one after the
    other, of which a wide memory has many."""
    found = both(design(pool(f"{total} GB/s"), medium=medium),
                 traces(lambda trace, rank: trace.memory("a", 10 * MB, tier="pool", store=store) if rank == 0 else
                        trace.comp("c", 1)))
    rates = (100, min(100, total)) if "switching" in medium else (min(100, total),)
    assert found.makespan_ps == 2_500_000 + sum(10 * MB * 1000 // rate for rate in rates)
    assert found.outcome.unfolded_because == "memories at switches"


@pytest.mark.parametrize("medium", MEDIA, ids=str)
def test_npus_share_the_memorys_link(medium: dict[str, Any]) -> None:
    """Four NPUs read 100 GB/s one after the other; at 200 GB/s two by two; at 400 GB/s none meets another."""
    def ends(total: str) -> list[int]:
        made = traces(lambda trace, _: trace.memory("a", 10 * MB, tier="pool"))
        return [time - 2_500_000 for time in both(design(pool(total), medium=medium), made).outcome.finish.tolist()]

    late = 1 if "switching" in medium else 0        # through the second link
    for total, turns in (("100 GB/s", (1, 2, 3, 4)), ("200 GB/s", (1, 1, 2, 2)), ("400 GB/s", (1,) * 4)):
        assert ends(total) == [(late + turn) * 100_000_000 for turn in turns]


@pytest.mark.parametrize("medium", MEDIA, ids=str)
def test_loads_and_collectives_share_the_npus_links(medium: dict[str, Any]) -> None:
    """Of a memory with a link as wide as those of all NPUs: an NPU's own link carries both, no faster than it can."""
    def makespan(*names: str) -> int:
        def make(trace: TraceBuilder, rank: int) -> None:
            if "load" in names or "store" in names:
                trace.memory("a", 40 * MB, tier="pool", store="store" in names)
            if "sum" in names:
                trace.coll("sum", CommOp.ALL_REDUCE, 40 * MB)
        made = design(pool("400 GB/s"), medium=medium, collective=ar.Collective(all_reduce=["direct"], chunks=4),
                      memory=ar.Memory(tiers=[pool("400 GB/s")]))
        return both(made, traces(make)).makespan_ps

    load, reduction = makespan("load"), makespan("sum")
    for way in ("load", "store"):
        together = makespan(way, "sum")
        assert together >= (40 + 60) * MB * 1000 // 100         # bytes of both through an NPU's one link
        assert together > max(load, reduction)


@pytest.mark.parametrize("dims", [[(3, 0), (2, None)], [(3, None), (2, 1)], [(3, 0), (2, 1)]])
def test_places_of_memories_change_nothing_else(dims: list[tuple[int, int | None]]) -> None:
    """Collectives, messages and their links, of any placement, beside memories that nobody reads."""
    switches = [ar.Switch(n, bandwidth="10 GB/s", latency="300 ns") for n, _ in dims]
    tiers = [pool("7 GB/s", name=f"p{d}", dim=d, npus=3 if d == 0 else 6) for _, d in dims if d is not None]

    def make(trace: TraceBuilder, rank: int) -> None:
        trace.coll("sum", CommOp.ALL_REDUCE, 60_000)
        if rank in (0, 5):
            (trace.send if rank else trace.recv)("m", 5 - rank, 1000)
        trace.coll("all", CommOp.ALL_TO_ALL, 6000)

    for medium in MEDIA:
        given = traces(make, 6)
        runs = [both(design(*some, dims=switches, medium=medium, system=ar.System(placement=[3, 1, 5, 0, 2, 4])), given)
                for some in ([], tiers)]
        assert runs[0].outcome.end.tolist() == runs[1].outcome.end[:runs[0].outcome.end.size].tolist()
        assert runs[0].links.source.tolist() == runs[1].links.source.tolist()
        assert runs[0].links.size.tolist() == runs[1].links.size.tolist()
        assert runs[0].links.name(0) == runs[1].links.name(0)


def test_each_switch_has_its_part() -> None:
    """A pool of 6 NPUs at the 3 switches of the outer dim: each gives a third of 30 GB/s to its 2 NPUs."""
    dims = [ar.Switch(3, bandwidth="1 TB/s", latency="0 ns"), ar.Switch(2, bandwidth="100 GB/s", latency="0 ns")]
    made = design(pool("30 GB/s", dim=1, npus=6, latency="0 ns"), dims=dims)
    found = both(made, traces(lambda trace, _: trace.memory("a", MB, tier="pool"), 6))
    assert found.outcome.finish.tolist() == [100_000_000] * 3 + [200_000_000] * 3
    assert [found.links.name(link) for link in range(3)] == [f"dim 1: out of memory port {port}" for port in range(3)]
    assert found.links.size.tolist() == [2 * MB] * 3 + [MB] * 6


def test_remote_memory_and_nodes_without_a_tiers_name() -> None:
    """`memory.remote` with a dim, per node and as a pool, and the only tier, read by nodes that name none."""
    given = traces(lambda trace, _: [trace.memory("a", MB), trace.memory("b", MB, store=True)])
    dims = [ar.Switch(2, bandwidth="100 GB/s", latency="0 ns"), ar.Switch(2, bandwidth="100 GB/s", latency="0 ns")]
    node = ar.Remote("per_node", bandwidth="50 GB/s", npus_per_node=2, over="network", dim=0)
    whole = ar.Remote("pool", bandwidth="100 GB/s", over="network", dim=1)
    only = pool("100 GB/s", dim=1, latency="0 ns")
    for memory in (ar.Memory(remote=node), ar.Memory(remote=whole), ar.Memory(tiers=[only])):
        found = both(design(dims=dims, memory=memory), given)
        assert found.makespan_ps == 60_000_000      # two of 1 MB at 50 GB/s, then a store that began beside a load


def test_two_jobs_share_a_pool(tmp_path: Path) -> None:
    """On NPUs of their own, they meet at the pool's link and nowhere else."""
    for rank in range(2):
        trace = TraceBuilder()
        trace.memory("a", 10 * MB, tier="pool")
        trace.write(tmp_path / f"one.{rank}.et")
    jobs = ar.Jobs([ar.Job(ar.Trace(str(tmp_path / "one.*.et")), f"{first}:{first + 2}") for first in (0, 2)])
    results = [ar.simulate(design(pool(latency="0 ns"), workload=jobs, medium={"backend": "fluid"}), pure=pure)
               for pure in (False, True)]
    for result in results:
        assert [job.makespan_ps for job in result.jobs] == [200_500_000, 400_500_000]
        assert [job.alone_ps for job in result.jobs] == [200_500_000] * 2


@pytest.mark.parametrize(("change", "message"), [
    ({"memory.tiers[0].dim": 1}, r"memory.tiers\[0\].dim: network.dims\[1\] is no switch"),
    ({"memory.tiers[0].npus": 2}, r"memory.tiers\[0\].npus: 2 NPUs share it, and dims 0 to 0 join 4"),
    ({"memory.tiers[0].bandwidth": "50 GB/s"}, r"memory.tiers\[0\].bandwidth: is less than that of an NPU's link"),
    ({"memory.tiers[0].over": "own"}, r"tiers\[0\].dim: has no effect with over: own"),
    ({"memory.remote": ar.Remote("pool", bandwidth="1 GB/s", over="network", dim=0), "network.dims[0]":
      ar.Ring(4, bandwidth="1 GB/s", latency="0 ns")}, "is no switch"),
    ({"compat": "astra_sim"}, r"memory.tiers\[0\].dim: memories at switches do not exist"),
])
def test_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ar.InputError, match=message):
        ar.simulate(ar.replace_all(design(pool()), change), traces=traces(lambda trace, _: trace.comp("c", 1)))


def test_refused_remote() -> None:
    levels: dict[str, Any] = {"levels": [ar.PoolLevel("all", 4, "1 GB/s")], "groups": 1, "chunk": "1 kB"}
    for kind, more in (("per_npu", {}), ("pool", levels)):
        with pytest.raises(ar.InputError, match=r"Remote.dim: has no effect for"):
            ar.Remote(kind, bandwidth="1 GB/s", over="network", dim=0, **more)


def test_copies_between_tiers_are_refused() -> None:
    host = ar.Tier("host", capacity="1 GB", bandwidth="10 GB/s")
    copy: dict[str, Any] = {"chakra.mem.mem_op": "COPY", "chakra.mem.src_tier": "host", "chakra.mem.dst_tier": "pool"}
    with pytest.raises(ar.TraceError, match="copies between a memory at the network's switches and another tier"):
        ar.simulate(design(pool(), host), traces=traces(lambda trace, _: trace.memory("a", MB, **copy)))


@pytest.mark.parametrize("medium", [MEDIA[0], MEDIA[2], MEDIA[3]], ids=str)
@pytest.mark.parametrize("where", ["tier", "remote"])
def test_training_with_its_model_on_the_network(medium: dict[str, Any], where: str) -> None:
    """Layers of a small GPT, whose periods the core may skip: all runs give the same times, not below the bound of the
    bytes through the pool's links, nor below a pool that meets nobody."""
    dims = [ar.Switch(2, bandwidth="50 GB/s", latency="500 ns"), ar.Switch(2, bandwidth="50 GB/s", latency="1 us")]
    work = ar.Transformer({"like": "gpt2-small", "layers": 6}, dp=4, zero=3, global_batch=4, seq=128,
                          offload="model" if where == "remote" else "none")
    far = pool("60 GB/s", dim=1, bandwidth="50 GB/s")
    memory = ar.Memory(bandwidth="1 TB/s", tiers=[far], placement=ar.Placement(parameters="pool", gradients="pool")) \
        if where == "tier" else ar.Memory(bandwidth="1 TB/s", remote=ar.Remote(
            "pool", bandwidth="60 GB/s", latency="2 us", over="network", dim=1))
    made = design(workload=work, memory=memory, dims=dims, medium=medium, compute=ar.Roofline("40 TFLOP/s"))
    runs = [ar.simulate(made, **how) for how in ({"pure": True}, {}, {"record": False}, {"fold": "off"})]
    assert len({result.makespan_ps for result in runs}) == 1
    assert len({tuple(result.outcome.finish[result.outcome.row].tolist()) for result in runs}) == 1
    links = runs[1].links
    ports = (links.source >= NPUS) | (links.target >= NPUS)
    assert ports.any()
    assert runs[0].makespan_ps >= int(links.size[ports].max()) * 1000 / 30
    alone: dict[str, Any] = {"memory.remote": ar.Remote("per_npu", bandwidth="50 GB/s", latency="2 us")} \
        if where == "remote" else {"memory.tiers[0]": pool(None, dim=None, over="own", npus=1, bandwidth="50 GB/s")}
    assert runs[0].makespan_ps > ar.simulate(ar.replace_all(made, alone)).makespan_ps
