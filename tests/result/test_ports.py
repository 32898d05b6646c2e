"""How long ranks need their ports, where collectives have a given time and do not meet in a run."""

from __future__ import annotations

import html
import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.commands import Run

import astrarium as ar
from astrarium import config
from astrarium.bounds.training import least_time
from astrarium.collective.port_time import port_ns
from astrarium.collective.timers import Way
from astrarium.cost import FIGURES, figures
from astrarium.lower.kept import Kept
from astrarium.planner.explore import Trial
from astrarium.planner.layout import Layout
from astrarium.planner.lower_bound import LowerBound
from astrarium.report.notes.ports import port_notes
from astrarium.report.plot.plots.pipeline import pipeline
from astrarium.report.tables.explain import explanation_sentence, explanation_tables
from astrarium.report.tables.several import Run as Shown
from astrarium.report.tables.several import several_sentence
from astrarium.report.tables.summary import network_table, time_table
from astrarium.search.explain import explain
from astrarium.trace import TraceBuilder, Traces, traces_of_bytes
from astrarium.vocab import CommOp

MEASURED = ar.Collective(model="measured")
MB = 1 << 20


def network(hosts: int = 8, per_host: int = 4, nics: str = "50 GB/s") -> ar.Network:
    return ar.Network([ar.Switch(per_host, bandwidth="450 GB/s", latency="500 ns", fabric="dgx_h100_nvswitch"),
                       ar.Switch(hosts, bandwidth=nics, latency="2 us", fabric="infiniband_ndr")])


def of_traces(**sections: Any) -> ar.Design:
    return ar.Design(**{"workload": ar.Trace("in memory"), "network": network(), "collective": MEASURED, **sections})


def two(after: bool) -> Traces:
    builders = [TraceBuilder() for _ in range(32)]
    for builder in builders:
        builder.coll("gather", CommOp.ALL_GATHER, 16 * MB)
        builder.coll("scatter", CommOp.REDUCE_SCATTER, 512 * MB, after=[0] if after else [])
    return traces_of_bytes([builder.encode() for builder in builders])


def sharded(nics: str = "50 GB/s", model: str = "measured", **more: Any) -> ar.Design:
    """ZeRO 3, whose weights and gradients have streams of their own."""
    decoder = ar.Decoder(layers=2, d_model=1024, heads=16, kv_heads=8, ffn=2816, vocab=32_000, seq=2048)
    return ar.Design(
        workload=ar.Transformer(decoder, **{"global_batch": 32, "dp": 32, "micro_batch": 1, "zero": 3, **more}),
        compute=ar.Roofline(peak="989 TFLOP/s"), memory=ar.Memory(bandwidth="3.35 TB/s"), network=network(nics=nics),
        system=ar.System(comm_streams=3), collective=ar.Collective(model=model))


def experts() -> ar.Design:
    """Experts and what is dense reduce and gather at once."""
    return config.replace_all(sharded(), {"workload.model": "mixtral-8x7b", "workload.ep": 2, "workload.seq": 2048})


def test_the_bytes_of_collectives_at_once_pass_a_port_one_after_the_other() -> None:
    needed = 2 * 512 * MB * 7 / 8 / 4 / 50      # 7 / 8 of 512 MB come into each host for both, over four NICs
    at_once = ar.simulate(of_traces(system=ar.System(comm_streams=2)), traces=two(after=False))
    assert at_once.ports.needed.shape == (1, 2)
    assert at_once.ports.needed[0].tolist() == [0, pytest.approx(needed * 1000, abs=2)]
    assert at_once.makespan < needed
    assert at_once.at_least == pytest.approx(needed, abs=0.002)
    assert at_once.summary()["port"] == {"rank": 0, "dim": 1, "needed_ns": float(at_once.at_least)}
    one_by_one = ar.simulate(of_traces(), traces=two(after=True))
    assert one_by_one.ports.most == at_once.ports.most < one_by_one.makespan_ps == one_by_one.at_least_ps
    assert not list(port_notes(of_traces(), one_by_one))
    simulated = of_traces(collective=ar.Collective())
    assert ar.simulate(simulated, traces=two(after=False)).ports.most == 0


def test_what_a_collective_needs_of_its_outermost_port() -> None:
    host = Way(4, 450.0, "dgx_h100_nvswitch", "network.dims[0]")
    nics = Way(2, 50.0, "infiniband_ndr", "network.dims[1]")
    assert port_ns(MEASURED, CommOp.ALL_REDUCE, 9e6, [host]) == 9e6 / 450        # the switch adds
    assert port_ns(MEASURED, CommOp.ALL_REDUCE, 1e6, [nics]) == 1e6 / 50
    assert port_ns(MEASURED, CommOp.ALL_REDUCE, 1e6, [host, nics]) == 1e6 / 4 / 50
    assert port_ns(MEASURED, CommOp.ALL_GATHER, 1e6, [host, nics]) == 1e6 / 2 / 4 / 50
    assert port_ns(MEASURED, CommOp.ALL_TO_ALL, 1e6, [host, nics]) == 1e6 / 2 / 50
    kernels = ar.Collective(model="measured", exchange="deepep")
    assert port_ns(kernels, CommOp.ALL_TO_ALL, 1e6, [host, nics]) == 0 == port_ns(MEASURED, CommOp.ALL_GATHER, 1e6, [])


@pytest.mark.parametrize("work", [{}, {"dp": 16, "pp": 2, "zero": 0}, {"tp": 4, "dp": 8, "tp_sequence": True},
                                  {"cp": 2, "dp": 16, "cp_attention": "ring"}])
def test_folded_full_and_pure_runs_need_ports_equally(work: dict[str, Any]) -> None:
    """And of messages, what the run says of its ports."""
    found = []
    for fold, pure in itertools.product(("auto", "off"), (False, True)):
        result = ar.simulate(replace(sharded(**work), fold=fold), pure=pure)
        needed = result.ports.needed[result.outcome.row]
        found.append(needed)
        wires, links, comm = np.zeros_like(needed), np.zeros_like(needed), result.comm
        if fold == "off":
            for rank, number in zip(comm.rank[comm.kind == 1].tolist(), comm.a[comm.kind == 1].tolist()):
                for dim, ps in result.plan.collectives[number].wires:
                    wires[rank, dim] += ps
            out = result.links.target < 0
            np.add.at(links, (result.links.source[out], result.links.dim[out]), result.links.busy[out])
            assert np.abs(needed - wires - links).max() <= len(comm.rank)     # each is rounded
        assert ar.simulate(replace(sharded(**work), fold=fold), record=False).ports.most == needed.max()
    assert all((each == found[0]).all() for each in found)
    assert found[0].max() > 0


def test_drawn_layouts_need_ports_no_longer_than_simulated_messages_take() -> None:
    """Messages share ports, so the simulated step is the rival of the bound."""
    rng, beyond = random.Random(4), 0
    for _ in range(12):
        hosts, per_host = rng.choice([2, 4, 8]), rng.choice([2, 4])
        tp, zero = rng.choice([1, 1, per_host]), rng.choice([1, 3, 3, 3])
        dp = hosts * per_host // tp
        nics, more = rng.choice(["1 GB/s", "5 GB/s", "25 GB/s"]), dict[str, Any]()
        if rng.random() < 0.5:
            moe = ar.Experts(experts=8, top_k=2, expert_ffn=1024)
            more = {"ep": rng.choice([each for each in (1, 2, 4, 8) if dp % each == 0]), "moe": moe}
        decoder = ar.Decoder(layers=4, d_model=1024, heads=16, kv_heads=8, ffn=2816, vocab=32_000, seq=2048,
                             moe=more.pop("moe", None))
        work = ar.Transformer(decoder, global_batch=dp * rng.choice([2, 4]), dp=dp, tp=tp, micro_batch=1, zero=zero,
                              **more)
        measured, simulated = (ar.simulate(replace(
            sharded(), workload=work, network=network(hosts, per_host, nics), collective=ar.Collective(model=model)))
            for model in ("measured", "simulated"))
        assert 0 < measured.ports.most <= simulated.makespan_ps, work
        beyond += measured.ports.most > measured.makespan_ps
    assert beyond       # some runs end before their port could carry all


def test_figures_count_with_what_ports_need_and_a_run_says_so(tmp_path: Path, run: Run) -> None:
    design = experts()
    result = ar.simulate(design)
    assert result.makespan_ps < result.at_least_ps == result.ports.most
    shown = figures(design, result)
    assert shown["tokens_per_second"] == pytest.approx(32 * 2048 / (float(result.at_least) * 1e-9))
    assert FIGURES["makespan"].measure(design, result) == float(result.at_least)
    simulated = ar.simulate(config.replace(design, "collective.model", "simulated"))
    assert result.at_least_ps < simulated.makespan_ps       # which has latencies, too
    path = tmp_path / "sharded.yaml"
    path.write_text(config.dumps(design), "utf-8")
    said = run("run", str(path))
    assert "needs its port of network.dims[1] for" in said.err
    assert "collective.model: simulated shares ports" in said.err


def test_all_that_is_shown_of_a_run_counts_with_what_ports_need(tmp_path: Path, run: Run) -> None:
    """A newcomer saw 55 s in the table, 68 s on stderr and in a search."""
    design, wide = experts(), replace(experts(), network=network(nics="500 GB/s"))
    result = ar.simulate(design)
    bound = f">= {result.at_least}"
    assert sum(result.spent.values()) == result.at_least_ps
    times = time_table(result, "").rows
    assert times[0][1] == bound
    assert any(row[0] == "  collectives that share ports" and "port of dim 1" in row[3] for row in times)
    assert ("busiest port", "", "100.0 %", f"needed: dim 1, of rank {result.first_rank}") in times
    assert [row[-1] for row in network_table(result).rows][1] == "100.0 %"
    for name, each in ("a.yaml", design), ("b.yaml", wide):
        (tmp_path / name).write_text(config.dumps(each), "utf-8")
    for words in (["a.yaml"], ["a.yaml", "b.yaml"]):
        said = run("run", *(str(tmp_path / name) for name in words), "--html", str(tmp_path / "page.html"))
        assert bound in said.out
        assert html.escape(bound) in (tmp_path / "page.html").read_text()
    assert f"One stage of a run of {result.makespan};" in pipeline(result, design).sentence
    slow, fast = (Shown(name, each, ar.simulate(each)) for name, each in (("a", design), ("b", wide)))
    assert several_sentence([slow, fast]).endswith("; the slowest, a, takes at least 2.21 times as long.")
    found = explain(design, wide)
    assert found.before == result.at_least_ps
    assert f"({bound})" in explanation_sentence(found)
    assert next(explanation_tables(found, "a", "b")).rows[0][1] == f"{bound} to {ar.simulate(wide).at_least}"


def test_a_port_of_a_job_is_named_with_its_job() -> None:
    """As the rank that finishes last is."""
    jobs = ar.Jobs([ar.Job(replace(experts().workload, dp=16), npus=16, name=name) for name in ("one", "two")])
    result = ar.simulate(replace(experts(), workload=jobs))
    said = {row[0]: row[3] for row in time_table(result, "").rows}
    assert said["busiest port"].startswith("needed: dim ")
    assert result.job_ranks is not None
    assert said["busiest port"].endswith(f"of {result.job_ranks.label(int(result.first_ranks[result.ports.where[0]]))}")


def test_the_lower_bound_of_a_step_knows_all_that_its_ports_need() -> None:
    rng, kept, close = random.Random(5), Kept(), 0
    for _ in range(12):
        tp, pp = rng.choice([1, 2, 4]), rng.choice([1, 1, 2])
        zero = rng.randint(0, 3) if pp == 1 else rng.randint(0, 1)
        design = sharded(rng.choice(["1 GB/s", "50 GB/s"]), tp=tp, pp=pp, dp=32 // tp // pp, global_batch=64,
                         zero=zero)
        at_least = float(ar.simulate(design, record=False, kept=kept).at_least)
        least = least_time(design, kept)
        assert least <= at_least, config.to_plain(design)
        close += least > 0.95 * at_least
    assert close > 2
    least = least_time(experts(), kept)
    assert 0.999 < least / float(ar.simulate(experts(), record=False).at_least) <= 1


def test_a_plan_ranks_by_what_ports_need_and_marks_it() -> None:
    fixed = {"tp": [1], "cp": [1], "pp": [1], "micro_batch": [1], "recompute": ["none"], "zero": [1, 3], "ep": [2, 8]}
    found = ar.plan("mixtral-8x7b", "h100_sxm", 32, seq=2048, global_batch=32, fixed=fixed, compute="analytic",
                    collectives="measured", stack="none", network=network(), exact=True)
    marked = [line for line in found.lines if line.limited]
    assert marked
    assert [line.time for line in found.lines] == sorted(line.time for line in found.lines)
    for line in found.lines:
        assert sum(line.breakdown.mean.values()) == pytest.approx(line.time)
        assert line.plain["makespan_ns"] == line.makespan
        assert line.time == float(ar.simulate(line.design).at_least)
    assert ">= " in str(found)
    assert "--collectives simulated shares ports" in str(found)


def test_layouts_that_move_the_same_bytes_are_in_the_order_of_their_runs() -> None:
    bound = LowerBound(1e9, 0.0)
    same = 1.2248014285e9
    slow, fast = (Trial(Layout(dp=8, ep=ep), bound, 0.0, value, value=value, makespan=makespan)
                  for ep, value, makespan in ((2, same, 1.1e9), (4, same + 0.0004, 1.0e9)))
    larger = Trial(Layout(dp=8), bound, 0.0, same + 100, value=same + 100, makespan=0.9e9)
    assert sorted([larger, slow, fast], key=lambda each: each.order) == [fast, slow, larger]
