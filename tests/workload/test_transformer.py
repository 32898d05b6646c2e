"""The transformer workload: what is refused and with which advice, files, whole runs from a design."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium import config
from astrarium.config import ConfigError
from astrarium.errors import InputError
from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.divisors import closest_divisors
from astrarium.workload.generate import generate
from astrarium.workload.precision import OPTIMIZERS, Precision, sizes_of
from astrarium.workload.schedule import KIND
from astrarium.workload.training import even_parts, recipe_of

from .checks import bytes_by, check

GPT: Mapping[str, Any] = {"model": "gpt2-small", "global_batch": 32}      # 12 layers, 12 heads, 1,024 tokens


def _gpt(**settings: Any) -> ar.Transformer:
    return ar.Transformer(**{**GPT, **settings})


@pytest.mark.parametrize(("settings", "said", "advice"), [
    ({"tp": 5}, "tp: 5 does not divide 12 heads", "4 or 6"),
    ({"pp": 16, "global_batch": 32}, "pp: 16 stages of 12 layers", "at most 14 stages"),
    ({"pp": 4, "schedule": "interleaved", "virtual_stages": 4, "micro_batch": 1}, "pp: 16 parts (4 stages of 4)",
     "at most 3 stages"),
    ({"dp": 5}, "global_batch: 32 samples are not divided by dp (5)", "30 or 35"),
    ({"dp": 2, "micro_batch": 3}, "micro_batch: 3 does not divide 16 samples of a replica", "2 or 4"),
    ({"dp": 4, "ep": 3}, "ep: 3 does not divide 4 data-parallel ranks", "2 or 4"),
    ({"dp": 4, "ep": 2}, "ep: 2, but the model has no experts", "1"),
    ({"sp": 3}, "seq: 1024 tokens are not divided by sp * cp (3)", "1023 or 1026"),
    ({"tp": 3, "tp_sequence": True}, "seq: 1024 tokens are not divided by sp * cp * tp (3)", "1023 or 1026"),
    ({"sp": 8, "sp_attention": "all_to_all"}, "sp: 8 does not divide 12 heads of a tp rank", "6 or 12"),
    ({"order": "tp-dp-pp"}, "order: 'tp-dp-pp' is not an order of the axes", "megatron, stage, or all of"),
    ({"zero_axes": ["dp"]}, "zero_axes: has no effect under zero: 0", "zero: 1, 2 or 3"),
    ({"zero": 1, "zero_axes": ["dp", "dp"]}, "is not a set of axes", "each once"),
    ({"prefetch": 2}, "prefetch: has an effect only under zero: 3", "zero: 3"),
    ({"dp": 8, "zero": 3, "zero_ranks": 3}, "zero_ranks: 3 is not a multiple of ep (1) that divides dp (8)",
     "one of 1, 2, 4, 8"),
    ({"zero_ranks": 2, "dp": 4}, "zero_ranks: has no effect if dp is not sharded over", "zero: 1, 2 or 3 over dp"),
    ({"schedule": "interleaved"}, "pp: 1 stage has nothing to interleave", "2 or more"),
    ({"pp": 2, "virtual_stages": 2}, "virtual_stages: 2 parts per stage are for schedule: interleaved", "1"),
    ({"pp": 3, "schedule": "dualpipe", "global_batch": 6, "micro_batch": 1}, "pp: 3 is odd", "such as 4"),
    ({"pp": 2, "stage_layers": [12]}, "stage_layers: 1 numbers", "2: pp * virtual_stages"),
    ({"pp": 2, "stage_layers": [5, 5]}, "stage_layers: 10 layers in all", "12, as the model has"),
    ({"pp": 3, "stage_layers": [6, 0, 6]}, "stage_layers: 0 layers in the middle", "the first and the last part"),
    ({"pp": 2, "stage_layers": [5, 7], "stage_balance": "cost"}, "stage_balance: cost cannot be combined with "
                                                                 "stage_layers",
     "one of the two"),
    ({"pp": 2, "schedule": "zero_bubble", "recompute": "full"}, "recompute: full, under schedule: zero_bubble",
     "none or selective"),
    ({"bucket": "1 kB"}, "bucket", "1e+06 or more"),
    ({"dp": 2**20, "global_batch": 2**20, "sp": 32, "seq": 1024}, "is 33554432", "at most 16777216 ranks"),
    ({"global_batch": 2**21, "micro_batch": 1}, "makes 2097152 micro-batches", "at most 1048576"),
    ({"dp": 2**40}, "dp: 1099511627776 is impossible", "1 or more, below 16777216"),
    ({"zero": 4}, "zero: 4 is not known", "one of 0, 1, 2, 3"),
])
def test_refused_with_the_nearest_legal_values(settings: dict[str, Any], said: str, advice: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _gpt(**settings)
    assert said in str(caught.value)
    assert advice in str(caught.value)


def parts(**settings: Any) -> list[int]:
    """Blocks of each part: 12 layers, the embedding, the head."""
    return [len(part) for part in recipe_of(_gpt(**{"micro_batch": 1, **settings})).parts]


def test_more_stages_than_layers() -> None:
    """The embedding and the head, which cost most and least, are parts of the model by themselves."""
    assert parts(pp=14) == [1] * 14
    assert parts(pp=13) == [2, *[1] * 12]
    assert parts(pp=7, schedule="interleaved", virtual_stages=2, global_batch=14) == [1] * 14
    assert parts(pp=4, stage_layers=[0, 6, 6, 0]) == [1, 6, 6, 1]
    assert parts(pp=4) == [4, 3, 3, 4]
    flops = [round(sum(step.flops for piece in (kind.forward, kind.backward) for step in piece.steps))
             for kind in recipe_of(_gpt(pp=4, micro_batch=1)).kinds]
    layer, head = flops[1], flops[2]
    assert 4 * layer < head < 5 * layer      # so the head is a part of its own
    assert parts(pp=4, stage_balance="cost") == [5, 4, 4, 1]


@pytest.mark.parametrize("schedule", KIND.names())
@pytest.mark.parametrize("zero", [0, *(pytest.param(zero, marks=pytest.mark.exam) for zero in (1, 2)), 3])
def test_stages_without_a_layer_run(schedule: str, zero: int) -> None:
    """Folded or not; the gradients of the tied embedding are summed over both ends."""
    batches = 28 if schedule == "dualpipe" else 14      # it works from both ends
    work = _gpt(pp=14, dp=2, global_batch=2 * batches, micro_batch=1, schedule=schedule, zero=zero)
    check(generate(work, None))
    design = ar.Design(workload=work, compute=ar.Roofline(peak="312 TFLOP/s"), memory=ar.Memory(bandwidth="2 TB/s"),
                       network=ar.Network([ar.Switch(work.ranks, bandwidth="50 GB/s", latency="1 us")]))
    folded, whole = (ar.simulate(design, record=False, fold=fold).makespan_ps for fold in ("auto", "off"))
    assert folded == whole


def sent(**settings: Any) -> set[int]:
    """Bytes of the messages between stages."""
    made = generate(_gpt(pp=2, global_batch=2, micro_batch=1, **settings), None)
    return {int(size) for trace in made.classes for size in trace.comm_size[trace.type == NodeKind.COMM_SEND]}


def test_messages_between_stages() -> None:
    """1,024 tokens of 768 bf16 numbers (arXiv 2104.04473, section 4.1: the ranks of tp send a part each)."""
    whole = 1024 * 768 * 2
    assert sent() == sent(tp=4, scatter_gather=False) == {whole}
    assert sent(tp=4) == sent(tp=4, tp_sequence=True) == {whole // 4}


def test_a_divided_message_takes_less_time_on_a_slow_network() -> None:
    """Four links between the stages carry what one would; the parts are gathered on the fast dim."""
    def makespan(scatter: bool) -> int:
        work = _gpt(tp=4, pp=2, global_batch=8, micro_batch=1, scatter_gather=scatter)
        return ar.simulate(ar.Design(
            workload=work, compute=ar.Roofline(peak="312 TFLOP/s"), memory=ar.Memory(bandwidth="2 TB/s"),
            network=ar.Network([ar.Switch(4, bandwidth="300 GB/s", latency="1 us"),
                                ar.Switch(2, bandwidth="1 GB/s", latency="1 us")])), record=False).makespan_ps
    assert makespan(True) < 0.8 * makespan(False)


def test_experts_are_divided() -> None:
    with pytest.raises(ConfigError, match=r"ep: 3 does not divide 8 experts; expected a divisor, such as 2 or 4"):
        ar.Transformer("mixtral-8x7b", global_batch=12, dp=6, ep=3)


@pytest.mark.parametrize(("number", "near", "said"), [(96, 7, "6 or 8"), (12, 16, "12"), (7, 5, "1 or 7"), (1, 4, "1")])
def test_closest_divisors(number: int, near: int, said: str) -> None:
    assert closest_divisors(number, near) == said


def test_the_design_has_as_many_ranks() -> None:
    with pytest.raises(InputError, match=r"workload: is of 4 ranks .*; expected 8: network\.npus"):
        ar.Design(workload=_gpt(dp=4), network=ar.Network([ar.Ring(8, bandwidth="1 GB/s", latency="0 ns")]))


def test_layers_are_spread_evenly() -> None:
    """Left over layers go to the parts without embedding and head first."""
    assert even_parts(96, 4) == [24] * 4
    assert even_parts(10, 4) == [2, 3, 3, 2]
    assert even_parts(11, 4) == [3, 3, 3, 2]
    assert even_parts(3, 2) == [2, 1]
    blocks = [len(part) for part in recipe_of(_gpt(pp=4, stage_layers=[2, 4, 4, 2])).parts]
    assert blocks == [3, 4, 4, 3]


def test_sixteen_bytes_per_parameter() -> None:
    """2 bytes per parameter of weights, 16 in mixed-precision training with Adam: 685 B parameters are 1.37 TB and
    10.96 TB (talk on Architecture 2.0; ZeRO, arXiv 1910.02054, section 3.1)."""
    sizes = sizes_of(Precision(), "adam")
    assert 685e9 * sizes.weights == pytest.approx(1.37e12)
    assert 685e9 * (sizes.weights + sizes.gradients + sizes.states) == pytest.approx(10.96e12)
    megatron = sizes_of(Precision(gradients="fp32"), "adam")
    assert megatron.weights + megatron.gradients + megatron.states == 18
    assert sizes_of(Precision(weights="fp32", gradients="fp32", master=None), "sgd").states == 4
    assert set(OPTIMIZERS) == {"adam", "sgd"}


def _design(work: ar.Transformer, **more: Any) -> ar.Design:
    return ar.Design(workload=work, compute=ar.Roofline(peak="100 TFLOP/s"),
                     memory=ar.Memory(bandwidth="2 TB/s", remote=ar.Remote(kind="per_npu", bandwidth="20 GB/s")),
                     network=ar.Network([ar.Switch(work.ranks, bandwidth="100 GB/s", latency="1 us")]), **more)


@pytest.mark.parametrize("settings", [
    {"dp": 2, "tp": 2, "pp": 2, "micro_batch": 4}, {"sp": 2, "tp": 2, "zero": 3}, {"cp": 4, "dp": 2, "zero": 1},
    {"pp": 4, "schedule": "dualpipe", "micro_batch": 4}, {"pp": 2, "schedule": "zero_bubble", "micro_batch": 8},
    {"dp": 8, "zero": 3, "zero_ranks": 4, "prefetch": 2, "sample": "1 MB", "checkpoint": True},
    {"pp": 2, "schedule": "interleaved", "virtual_stages": 3, "micro_batch": 4, "order": "stage", "dp": 2},
    {"tp": 4, "tp_sequence": True, "recompute": "full", "offload": "optimizer"},
    {"model": "mixtral-8x7b", "seq": 128, "dp": 4, "ep": 2, "zero": 2}])
def test_from_design_to_result(settings: dict[str, Any]) -> None:
    """Runs, folded as unfolded, and a design file gives the same."""
    design = _design(_gpt(**settings))
    check(generate(design.workload))
    result = ar.simulate(design)
    assert result.makespan == ar.simulate(design, fold="off").makespan
    again = config.loads(ar.Design, config.dumps(design))
    assert again == design
    assert ar.simulate(again).makespan == result.makespan


def test_tied_weights_are_held_and_reduced_once() -> None:
    """GPT-2's head is its embedding: one copy on one stage; two, summed up, on two."""
    one, two = recipe_of(_gpt(dp=2)), recipe_of(_gpt(dp=2, pp=2))
    assert sum(w.name == "embedding" for block in one.kinds for w in block.weights) == 1
    assert not one.tied
    assert two.tied == {"embedding"}
    vocab = 50257 * 768 * 2
    found = bytes_by(generate(_gpt(dp=2, pp=2)), 0, "step.gradients.all_reduce")
    assert found[CommOp.ALL_REDUCE, 2] == vocab


def test_tensor_parallel_volume_of_a_layer() -> None:
    """Four all_reduces of b s h per layer and micro-batch: two forward, two backward (arXiv 1909.08053, section 3)."""
    generated = generate(_gpt(tp=2, global_batch=4, micro_batch=2))
    found = bytes_by(generated, 0, ".block5.")
    assert found == {(CommOp.ALL_REDUCE, 2): 2 * 4 * (2 * 1024 * 768 * 2)}


def test_the_vocabulary_is_padded_to_divide() -> None:
    plain, padded = recipe_of(_gpt(tp=4)), recipe_of(_gpt(tp=4, vocab_multiple=128))
    rows = [next(w.elements for w in made.kinds[0].weights if w.name == "embedding") / 768 for made in (plain, padded)]
    assert rows == [50260 / 4, 50688 / 4]
    assert recipe_of(_gpt(tp=4, uneven="fractional")).kinds[0].weights[0].elements == pytest.approx(50257 * 768 / 4)


def test_fractional_batches_are_cosmics() -> None:
    """1,024 samples on 2,048 replicas: half a sample each (COSMIC's studies); under pad a whole one."""
    flops = {}
    for uneven in ("fractional", "pad"):
        generated = generate(_gpt(global_batch=4, dp=8, uneven=uneven, clip=False))
        trace = generated.classes[0]
        flops[uneven] = float(np.nansum(trace.num_ops[trace.type == NodeKind.COMP][:-1]))
    assert flops["pad"] == pytest.approx(2 * flops["fractional"], rel=1e-6)


def test_offload_moves_what_it_says() -> None:
    for offload, times in (("optimizer", 1), ("activations", 4)):
        trace = generate(_gpt(offload=offload, micro_batch=8)).classes[0]
        loads, stores = (trace.tensor_size[trace.type == kind] for kind in (NodeKind.MEM_LOAD, NodeKind.MEM_STORE))
        assert sorted(loads.tolist()) == sorted(stores.tolist())
        assert len(loads) % times == 0
        assert len(loads) > 0
    weights = sum(w.elements * recipe_of(_gpt()).parts[0].count(number)
                  for number, block in enumerate(recipe_of(_gpt()).kinds) for w in block.weights)
    held = generate(_gpt(offload="optimizer")).classes[0]
    assert held.tensor_size[held.type == NodeKind.MEM_LOAD].tolist() == [round(12 * weights)]


def test_hybrid_sharding() -> None:
    """8 replicas, shards over 4 neighbours: gradients scattered over 4 and summed over 2, weights gathered from 4."""
    generated = generate(_gpt(dp=8, zero=3, zero_ranks=4, clip=False))
    own = sum(weight.elements for part in recipe_of(_gpt()).parts for block in part
              for weight in recipe_of(_gpt()).kinds[block].weights)
    gradients = bytes_by(generated, 5, ".gradients.")
    assert gradients == {(CommOp.REDUCE_SCATTER, 4): pytest.approx(2 * own, rel=1e-6),
                         (CommOp.ALL_REDUCE, 2): pytest.approx(2 * own / 4, rel=1e-6)}
    assert set(bytes_by(generated, 5, "weights.")) == {(CommOp.ALL_GATHER, 4)}
    members = {tuple(group.tolist()) for group in generated.groups}
    assert {(0, 1, 2, 3), (4, 5, 6, 7), (0, 4), (3, 7)} <= members


def test_samples_and_checkpoint_pass_remote_memory() -> None:
    """Every rank of the first stage loads its part of each sample; a checkpoint holds every weight and state once."""
    work = _gpt(dp=2, pp=2, sp=2, micro_batch=4, sample="1 MB", checkpoint=True)
    first, last = generate(work).classes
    assert first.tensor_size[first.type == NodeKind.MEM_LOAD].tolist() == [4 * 500_000] * 4
    assert not (last.type == NodeKind.MEM_LOAD).any()
    stored = sum(int(trace.tensor_size[trace.type == NodeKind.MEM_STORE].sum()) * len(trace.ranks)
                 for trace in (first, last))
    parameters = sum(weight.elements for part in recipe_of(work).parts for block in part
                     for weight in recipe_of(work).kinds[block].weights)
    assert stored == pytest.approx(14 * parameters, rel=1e-6)


@pytest.mark.parametrize("model", ["cosmic-gpt3-175b", "cosmic-gpt3-13b", "cosmic-vit-base", "cosmic-vit-large"])
@pytest.mark.parametrize(("dp", "sp", "pp", "tp"), [(8, 8, 4, 4), (1, 1, 1, 1024), (512, 1, 2, 1), (1, 512, 2, 1),
                                                    (4, 4, 1, 64), (2, 1, 4, 128)])
def test_cosmics_designs_generate(model: str, dp: int, sp: int, pp: int, tp: int) -> None:
    """Points of COSMIC's spaces: 5140 / 40 heads, tp of 64 to 1,024 on 96 heads, half tokens; all with and without
    sharded weights. The largest product is divided by tp (where tp leaves it the largest operator)."""
    for zero in (0, 3):
        work = ar.Transformer(model, global_batch=2048, dp=dp, sp=sp, pp=pp, tp=tp, zero=zero, uneven="fractional")
        whole, parts = (generate(each) for each in (ar.replace(work, "tp", 1), work))
        assert len(parts.classes) == pp
        for one, divided in zip(whole.classes, parts.classes, strict=True):
            assert (divided.comm_size >= 0).all()
            largest = float(np.nanmax(one.num_ops)), float(np.nanmax(divided.num_ops))
            assert largest[0] / tp == pytest.approx(largest[1], rel=1e-3) or tp > 128


def test_a_source_of_older_files_names_what_replaces_it() -> None:
    with pytest.raises(ConfigError, match=r"workload.source: 'stage' is not known.*did you mean 'transformer'"):
        config.loads(ar.Design, "workload: {source: stage}\nnetwork: h100_dgx\n")
