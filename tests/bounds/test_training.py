"""The least time of a training step: below every simulation, close to those whose links or NPUs are always busy."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.draws import draws
from tests.workload.layouts import drawn

import astrarium as ar
from astrarium import config
from astrarium.bounds.training import least_time
from astrarium.errors import AstrariumError, InputError
from astrarium.lower.kept import Kept
from astrarium.workload.buffers import Buffers

CHANGES: dict[str, list[Any]] = {
    "workload.zero": [2, 3], "workload.zero_axes": [["dp"], ["cp"]], "workload.zero_ranks": [2],
    "workload.prefetch": [0, 2], "workload.recompute_every": [2], "workload.weight_gradients": ["fresh", "beside"],
    "workload.buffers.gather": ["copied"], "workload.buffers.reduce": ["group", "buckets", "fixed"],
    "workload.buffers.between": ["whole"], "workload.buffers.ends": ["together"], "workload.clip": [False],
    "workload.offload": ["optimizer", "model"], "workload.software.operators": ["eager"],
    "workload.software.tp_async": [True], "workload.software.host_launch": ["20 us"],
    "workload.order": ["pp-dp-tp-cp-sp-ep"], "workload.uneven": ["pad"], "network.backend": ["contention", "fluid"],
    "compute": [{"model": "measured", "device": "h100_sxm", "clock": "sustained"}],
    "collective.choice": ["none"], "collective.chunks": [2, 3, 16],
    "collective.composition": ["blueconnect", "themis"], "collective.all_reduce": [["ring"], ["tree"]],
    "collective.all_gather": [["ring"]], "collective.reduce_scatter": [["ring"]], "network.dims[0].efficiency": [0.7],
    "network.dims[0].shape": ["ring", "fully_connected", "switch"]}


def _changed(design: ar.Design, rng: random.Random) -> ar.Design:
    """The design with up to four changes, and slow links in half of the cases."""
    slow = [f"network.dims[{place}].bandwidth" for place in range(len(design.network.dims) * rng.randint(0, 1))]
    design = config.replace_all(design, dict.fromkeys(slow, "3 GB/s"))
    for name in rng.sample(list(CHANGES), rng.randint(0, 4)):
        try:
            design = config.replace(design, name, rng.choice(CHANGES[name]))
        except AstrariumError:      # not with the rest of it
            continue
    return design


def test_no_run_takes_less() -> None:
    rng, kept, tight = random.Random(3), Kept(), 0
    for design in itertools.islice(drawn(5, 10**6, 8), draws(60).max_examples):
        changed = _changed(design, rng)
        try:
            makespan = ar.simulate(changed, record=False, kept=kept).makespan_ps / 1000
        except AstrariumError:
            continue
        least = least_time(changed, kept)
        assert least <= makespan, config.to_plain(changed)
        tight += least > 0.8 * makespan
    assert tight > 1


def _sharded(npus: int = 4, ffn: int = 2816, layers: int = 2, **more: Any) -> ar.Design:
    """ZeRO 3 on links that are always busy."""
    model = ar.Decoder(layers=layers, d_model=1024, heads=16, kv_heads=8, ffn=ffn, vocab=32_000, seq=2048)
    return ar.Design(
        workload=ar.Transformer(model, **{"global_batch": 8, "dp": 4, "micro_batch": 1, "zero": 3, **more}),
        compute=ar.Roofline(peak="989 TFLOP/s"), memory=ar.Memory(bandwidth="3.35 TB/s"),
        network=ar.Network([ar.Switch(npus, bandwidth="3 GB/s", latency="500 ns")]))


@pytest.mark.parametrize(("more", "share"), [({}, 0.95), ({"buffers": Buffers(between="whole")}, 0.9),
                                             ({"buffers": Buffers(ends="together")}, 0.6),
                                             ({"pp": 2, "dp": 2, "schedule": "gpipe"}, 0.5)])
def test_what_zero_3_moves_once_counts_once(more: dict[str, Any], share: float) -> None:
    """No embedding for the backward pass; under `ends: together` both ends, under `between: whole` gradients once."""
    design = _sharded(**more)
    makespan = ar.simulate(design, record=False).makespan_ps / 1000
    assert share * makespan < least_time(design, Kept()) <= makespan


@pytest.mark.parametrize("bucket", [None, "1 MB"])
def test_what_the_first_unit_of_a_stage_waits_for_passes_while_those_in_front_run(bucket: str | None) -> None:
    """Two stages of a layer each: they gather their weights at once, and reduce the head with the layer."""
    model = ar.Decoder(layers=2, d_model=512, heads=8, kv_heads=8, ffn=256, vocab=64, seq=128)
    work = ar.Transformer(model, global_batch=4, dp=4, pp=2, micro_batch=1, zero=3, bucket=bucket)
    design = replace(_sharded(8, pp=2), workload=work, collective=ar.Collective(scheduling="fifo"),
                     network=ar.Network([ar.Switch(8, bandwidth="20 GB/s", latency="0 ns")]))
    makespan = ar.simulate(design, record=False).makespan_ps / 1000
    assert 0.6 * makespan < least_time(design, Kept()) <= makespan


@pytest.mark.parametrize("more", [{}, {"prefetch": 2}, {"recompute": "full"}])
def test_a_stage_gathers_its_first_weights_before_its_input_comes(more: dict[str, Any]) -> None:
    """Of eight stages all gather at once: those in front take the time of one gather, not of eight."""
    design = _sharded(16, layers=7, pp=8, dp=2, global_batch=2, seq=256, **more)
    makespan = ar.simulate(design, record=False).makespan_ps / 1000
    assert 0.4 * makespan < least_time(design, Kept()) <= makespan


def test_a_unit_waits_for_the_one_before_where_nothing_overlaps() -> None:
    """The embedding's gradient is all on its rank: what is reduced last does not need it, but the next unit does."""
    network = ar.Network([ar.Switch(8, bandwidth="450 GB/s", latency="500 ns", fabric="dgx_h100_nvswitch")])
    on = _sharded(8, layers=1, tp=8, dp=1, zero=2, tp_sequence=True)
    on = replace(on, network=network, collective=ar.Collective(model="measured"))
    off = config.replace(on, "workload.overlap", False)
    least, most = least_time(off, Kept()), ar.simulate(off, record=False).makespan_ps / 1000
    assert least <= most
    assert ar.simulate(on, record=False).makespan_ps / 1000 <= most


def test_designs_without_a_bound_have_none() -> None:
    known = _sharded()
    assert least_time(known, Kept()) > 0
    for other in (replace(known, compat="astra_sim"), replace(known, system=ar.System(compute_streams=2)),
                  replace(known, system=ar.System(placement=[1, 0, 2, 3])),
                  replace(known, workload=ar.SingleCollective("all_reduce", "1 GB"))):
        assert least_time(other, Kept()) == 0.0


def test_a_wrong_size_is_left_to_the_run() -> None:
    wrong = _sharded(ffn=2817, tp=2, dp=2)
    with pytest.raises(InputError, match="2817"):
        ar.simulate(wrong)
    assert least_time(wrong, Kept()) == 0.0
