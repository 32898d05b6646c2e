"""Collectives of a given time: both engines, folded or not, end them so long after the last member's coming."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium import config, registry
from astrarium.collective.fabrics import fabric
from astrarium.collective.measured import Layout, measured_ns
from astrarium.collective.timers import Way, measured, named
from astrarium.errors import InputError, PluginError, StallError, UnsupportedError
from astrarium.lower import lower
from astrarium.lower.timed import times_of
from astrarium.trace import TraceBuilder, Traces, traces_of_bytes
from astrarium.vocab import CommOp

HOST, NICS = "dgx_h100_nvswitch", "infiniband_ndr"
MEASURED = ar.Collective(model="measured")


def network(hosts: int = 2, per_host: int = 4, **more: Any) -> ar.Network:
    return ar.Network([ar.Switch(per_host, bandwidth="450 GB/s", latency="500 ns", fabric=HOST),
                       ar.Switch(hosts, bandwidth="50 GB/s", latency="2 us", fabric=NICS)], **more)


def design(**sections: Any) -> ar.Design:
    return ar.Design(**{"workload": ar.Trace("in memory"), "network": network(), "collective": MEASURED, **sections})


def spmd(make: Any, ranks: int = 8) -> Traces:
    builders = [TraceBuilder() for _ in range(ranks)]
    for rank, builder in enumerate(builders):
        make(builder, rank)
    return traces_of_bytes([builder.encode() for builder in builders])


def ps(op: CommOp, payload: float, per_host: int, hosts: int) -> int:
    time = measured_ns(op, payload, Layout(per_host, hosts), fabric(HOST), fabric(NICS), host_link=450, nic_link=50)
    return round(time * 1000)


@pytest.mark.parametrize("fold", ["auto", "off"])
def test_a_collective_ends_so_long_after_the_last_came(fold: Any) -> None:
    def late(builder: TraceBuilder, rank: int) -> None:
        builder.comp("work", 10 + 5 * (rank == 3))
        builder.coll("sum", CommOp.ALL_REDUCE, 1 << 24, after=[0])

    result = ar.simulate(design(fold=fold), traces=spmd(late))
    assert result.makespan_ps == 15_000_000 + ps(CommOp.ALL_REDUCE, 1 << 24, 4, 2)


def test_payloads_are_those_of_nccl_tests() -> None:
    def gather(builder: TraceBuilder, rank: int) -> None:
        builder.coll("all", CommOp.ALL_GATHER, 1 << 20)

    assert ar.simulate(design(), traces=spmd(gather)).makespan_ps == ps(CommOp.ALL_GATHER, 8 << 20, 4, 2)


def training(**more: Any) -> ar.Transformer:
    return ar.Transformer(**{"model": "gpt2-small", "tp": 4, "dp": 2, "pp": 2, "global_batch": 8, "seq": 512,
                             "tp_sequence": True, **more})


WORKLOADS = [training(), training(zero=1, overlap=False), training(zero=3), training(model="mixtral-8x7b", ep=2),
             training(cp=2, dp=1, cp_attention="ring")]


@pytest.mark.parametrize("work", WORKLOADS, ids=["plain", "zero1", "zero3", "experts", "ring"])
def test_folded_full_and_pure_runs_agree(work: ar.Transformer) -> None:
    found = []
    for fold, pure in itertools.product(("auto", "off"), (False, True)):
        made = ar.Design(workload=work, network=network(4), collective=MEASURED, fold=fold,
                         compute=ar.Roofline(peak="989 TFLOP/s"), memory=ar.Memory(bandwidth="3350 GB/s"))
        result = ar.simulate(made, pure=pure)
        found.append((result.makespan_ps, [int(each) for each in result.outcome.finish[result.outcome.row]]))
        if not pure:
            assert ar.simulate(made, record=False).makespan_ps == result.makespan_ps     # where periods are skipped
    assert all(each == found[0] for each in found)
    simulated = ar.simulate(ar.Design(workload=work, network=network(4), compute=ar.Roofline(peak="989 TFLOP/s"),
                                      memory=ar.Memory(bandwidth="3350 GB/s")))
    assert simulated.makespan_ps != found[0][0]


def test_many_ranks_fold() -> None:
    work = training(dp=256, global_batch=256)
    made = ar.Design(workload=work, network=network(512), collective=MEASURED,
                     compute=ar.Roofline(peak="989 TFLOP/s"), memory=ar.Memory(bandwidth="3350 GB/s"))
    result = ar.simulate(made)
    assert result.outcome.folded


def test_a_group_of_one_takes_no_time_and_plans_say_how() -> None:
    plan = lower(design(), spmd(lambda builder, rank: builder.coll("sum", CommOp.ALL_REDUCE, 64)))
    assert [(each.how, each.chunks) for each in plan.collectives] == [(f"measured: {HOST} + {NICS}", ())]
    assert plan.collectives[0].lasts == ps(CommOp.ALL_REDUCE, 64, 4, 2)


def test_members_that_do_not_come_are_named() -> None:
    def absent(builder: TraceBuilder, rank: int) -> None:
        if rank != 5:
            builder.coll("sum", CommOp.ALL_REDUCE, 64)

    for pure in (False, True):
        with pytest.raises(StallError, match="waits for rank 5"):
            ar.simulate(design(), traces=spmd(absent), pure=pure)


def test_what_is_not_measured_is_refused() -> None:
    bare = ar.Network([ar.Switch(8, bandwidth="450 GB/s", latency="500 ns")])
    with pytest.raises(InputError, match=r"network\.dims\[0\]\.fabric: is missing"):
        lower(design(network=bare), spmd(lambda builder, rank: builder.coll("sum", CommOp.ALL_REDUCE, 64)))
    with pytest.raises(InputError, match=r"collective\.model"):
        design(compat="astra_sim", network=ar.Network([ar.Switch(8, bandwidth="450 GB/s", latency="500 ns")]))
    with pytest.raises(UnsupportedError, match="a collective over"):
        measured(CommOp.ALL_REDUCE, 1e6, [Way(2, 450, HOST, "network.dims[0]"),
                                          Way(2, 300, "dgx_a100_nvswitch", "network.dims[1]")])
    with pytest.raises(InputError, match="did you mean 'infiniband_ndr'"):
        ar.Switch(8, bandwidth="50 GB/s", latency="1 us", fabric="infiniband_nd")


def test_a_timer_of_a_plug_in(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def flat(op: CommOp, payload: float, ways: Any) -> float:
        asked.append((op, payload, [way.ranks for way in ways]))
        if payload == 64:
            raise ValueError("no")
        return 5000.0

    monkeypatch.setattr(registry, "load", lambda kind, name: flat)
    assert ar.simulate(design(), traces=spmd(lambda builder, rank: builder.coll("sum", CommOp.ALL_REDUCE, 128))
                       ).makespan_ps == 5_000_000
    assert asked == [(CommOp.ALL_REDUCE, 128, [4, 2])]
    with pytest.raises(PluginError, match="collective timer measured: raised ValueError: no"):
        lower(design(), spmd(lambda builder, rank: builder.coll("sum", CommOp.ALL_REDUCE, 64)))


def test_groups_in_another_order_lie_as_their_members_do() -> None:
    order = np.random.default_rng(0).permutation(8).tolist()
    asked = design(system=ar.System(placement=order))
    made = spmd(lambda builder, rank: builder.coll("sum", CommOp.ALL_REDUCE, 1 << 20))
    assert ar.simulate(asked, traces=made).makespan_ps == ps(CommOp.ALL_REDUCE, 1 << 20, 4, 2)
    uneven = design(system=ar.System(placement=[0, 1, 2, 4, 5]))
    five = spmd(lambda builder, rank: builder.coll("sum", CommOp.ALL_REDUCE, 1 << 20), 5)
    with pytest.raises(UnsupportedError, match="lies unevenly"):
        lower(uneven, five)


def test_what_is_chosen_means_nothing_without_messages() -> None:
    for name, value in (("all_reduce", ["ring"]), ("composition", "themis"), ("chunks", 4)):
        with pytest.raises(InputError, match=f"{name}: has no effect with model measured"):
            ar.Collective(**{"model": "measured", name: value})


def test_the_slowest_dim_between_hosts_counts() -> None:
    ways = (Way(8, 450.0, HOST, "0"), Way(4, 50.0, NICS, "1"), Way(2, 25.0, NICS, "2"))
    time = measured_ns(CommOp.ALL_GATHER, 1 << 30, Layout(8, 8), fabric(HOST), fabric(NICS), nic_link=25.0)
    assert measured(CommOp.ALL_GATHER, 1 << 30, ways) == time


def test_searches_choose_between_simulated_and_measured() -> None:
    base = ar.Design(workload=ar.SingleCollective("all_reduce", "1 GB"), network=network(per_host=8))
    space = ar.Space(base, {"collective.model": ["simulated", "measured"], "workload.payload": ["1 GB", "4 GB"]})
    study = ar.search(space, minimize="makespan", agent="grid", trials=4, seed=0)
    assert study.distinct == 4
    assert study.refused == 0
    assert study.best is not None
    assert study.best.point == (0, 0)       # whole link rate and no protocols: less than measured


def test_a_fabric_without_rows_says_whose_it_takes() -> None:
    assert named([Way(8, 450.0, HOST, "0"), Way(2, 25.0, "infiniband_hdr", "1"), Way(2, 1.0, None, "2")]) == (
        f"{HOST} + infiniband_hdr (rows of infiniband_ndr)")


def test_times_of_many_sizes_are_those_of_runs() -> None:
    """An array of sizes takes what a run of each takes, also of a group in every second host's NPUs."""
    sizes = np.array([1, 4096, 1 << 20], np.int64)
    for op, npus in itertools.product((CommOp.ALL_REDUCE, CommOp.ALL_GATHER), ([0, 1, 2, 3], [0, 4], list(range(8)))):
        found = times_of(design(), op, sizes, np.array(npus, np.int32))
        per_host = min(4, len(npus)) if npus != [0, 4] else 1
        hosts = len(npus) // per_host
        whole = sizes * (len(npus) if op == CommOp.ALL_GATHER else 1)
        assert found.tolist() == [ps(op, size, per_host, hosts) for size in whole.tolist()]
    with pytest.raises(UnsupportedError, match="simulated: messages say"):
        times_of(design(collective=ar.Collective()), CommOp.ALL_REDUCE, sizes, np.arange(8, dtype=np.int32))


@pytest.mark.parametrize("fold", ["auto", "off"])
def test_pools_exchange_tokens_with_their_own_kernels(fold: Any) -> None:
    """Prefill with DeepEP's normal kernels, decode with those of low latency, on groups that lie alike."""
    pools = {"prefill": {"dp": 8, "ep": 8, "exchange": "deepep"},
             "decode": {"dp": 8, "ep": 8, "exchange": "deepep_low_latency"}}
    made = config.decode(ar.Design, {
        "workload": {"source": "disaggregated", "model": {"like": "mixtral-8x7b", "layers": 1}, "batch": 8,
                     "prompt": 64, "generated": 2, **pools},
        "compute": "h200_sxm", "memory": "h200_sxm", "collective": {"model": "measured"}, "fold": fold,
        "network": {"dims": [{"like": "dgx_h200_nvswitch", "npus": 8}, {"like": "infiniband_ndr", "npus": 2}]}})
    found = ar.simulate(made).collectives
    kernels = [how.rpartition(" ")[2] for how in found.how[found.op == CommOp.ALL_TO_ALL]]
    assert kernels == ["deepep"] * 2 + ["deepep_low_latency"] * 4      # one pass of prompts, two of decoding
