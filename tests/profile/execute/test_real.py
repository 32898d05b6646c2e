"""Recorded operators that run again: what is run, on what memory, in what order; what is refused before."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from astrarium.cli.dispatch import dispatch
from astrarium.errors import InputError
from astrarium.profile.execute.program import program
from astrarium.profile.execute.real.kernels import kernels_of
from astrarium.profile.execute.real.order import waits_of
from astrarium.profile.execute.real.plan import Item
from astrarium.profile.execute.real.rank import Times, new_durations
from astrarium.profile.execute.real.recorded import Ref, recording, refs
from astrarium.profile.execute.real.resolve import Call, Known
from astrarium.profile.execute.real.storages import storages
from astrarium.trace import traces_of_bytes

from .recordings import ADD, MM, Recorded, tensor


def test_a_recorded_tensor_has_its_memory():
    """A transposed matrix inside a larger storage: 2 x 3 of 4 B from element 5 on, rows 1 apart, columns 10 apart."""
    builder = Recorded()
    builder.call(MM, [tensor(1, 2, 3, offset=5), tensor(2, 3, 4)], strides=[[1, 10], [4, 1]])
    found = recording(traces_of_bytes([builder.encode()]).of(0)[0]).operators[0]
    first, second = found.inputs
    assert first == Ref(1, 5, (2, 3), (1, 10), "float", 4, "cpu")
    assert first.extent == (5 + 1 * 1 + 2 * 10 + 1) * 4
    assert (second.strides, second.extent) == ((4, 1), 48)


def test_numbers_that_json_does_not_have():
    builder = Recorded()
    builder.call("aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
                 [tensor(1, 2), tensor(2, 2, kind="bool", width=1), ("-inf", [], "Double")])
    assert recording(traces_of_bytes([builder.encode()]).of(0)[0]).operators[0].inputs[2] == float("-inf")


@pytest.mark.parametrize("values", ["[1, ", "[inf]", "[[1, 2], nan]", "['\\ud800']", "[" * 9999, "7", "[None, 'a\"b']"])
def test_texts_that_are_no_lists_are_no_arguments(values):
    """Whatever a file holds: no argument, or one without a value."""
    builder = Recorded()
    builder.call(MM, [tensor(1, 2, 3), tensor(2, 3, 4)])
    node = builder.nodes[0]
    builder._nodes[0] = replace(node, inputs=replace(node.inputs, values=values))
    found = recording(traces_of_bytes([builder.encode()]).of(0)[0]).operators[0].inputs
    assert not list(refs(found))


def test_storages_live_from_the_call_that_makes_them_to_their_last_use():
    """c = a b; d = c b; then a call gives e at c's address: c's memory is free by then, so 4 matrices at most."""
    builder = Recorded()
    a, b, c, d = (tensor(number, 8, 8) for number in range(1, 5))
    for inputs, output in (((a, b), c), ((c, b), d), ((d, b), c)):
        builder.call(MM, inputs, [output])
    found = recording(traces_of_bytes([builder.encode()]).of(0)[0])
    calls = {node: Call(Known("aten::mm"), each.inputs, ("self", "mat2"), (False, False))
             for node, each in found.operators.items()}
    plan = storages(found, calls, set(calls))
    assert [(each.given, each.bytes) for each in plan.all] == [(True, 256)] * 2 + [(False, 256)] * 3
    assert plan.peak("cpu") == 4 * 256
    assert plan.of[0, 3] != plan.of[2, 3]


def test_indices_stay_below_the_dimension_that_they_index():
    builder = Recorded()
    embedding = ("aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
                 "bool sparse=False) -> Tensor")
    builder.call(embedding, [tensor(1, 100, 16), tensor(2, 5, kind="long int", width=8), -1, False, False])
    found = recording(traces_of_bytes([builder.encode()]).of(0)[0])
    call = Call(Known("aten::embedding"), found.operators[0].inputs,
                ("weight", "indices", "padding_idx", "scale_grad_by_freq", "sparse"), (False,) * 5)
    assert [each.bound for each in storages(found, {0: call}, {0}).all][1] == 100


def test_streams_wait_for_each_other_as_recorded():
    """a on stream 7; b on 9 after it; an all-reduce after b; c on 7 after the all-reduce; d on 7 needs no more."""
    builder = Recorded()
    calls = [builder.call(MM, []) for _ in range(5)]
    a = builder.kernel("a", calls[0])
    b = builder.kernel("b", calls[1], stream=9, after=[a])
    reduced = builder.nccl(calls[2], after=[b])
    c = builder.kernel("c", calls[3], after=[a, reduced])
    builder.kernel("d", calls[4], after=[b, c])
    steps = program(traces_of_bytes([builder.encode()] * 2), 0)
    lanes = [("stream", 7), ("stream", 9), ("wire",), ("stream", 7), ("stream", 7)]
    items = [SimpleNamespace(nodes=[node], lane=lane) for node, lane in zip(range(5, 10), lanes, strict=True)]
    assert waits_of(steps, items) == [(), (0,), (0, 1), (1, 2), ()]


def test_kernels_are_of_the_item_whose_launch_they_follow():
    """Two items, the first of two kernels, and a fill between the items that belongs to none; two runs."""
    events, at, number = [], 0, 0
    for _ in range(2):
        for mark, lengths in ((0, (5, 7)), (None, (9,)), (1, (11,))):
            if mark is not None:
                events.append({"ph": "X", "cat": "user_annotation", "name": f"replay of item {mark}", "ts": at,
                               "dur": 50, "pid": 1, "tid": 1})
            for length in lengths:
                at, number = at + 10, number + 1
                events += [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at, "dur": 2, "pid": 1,
                            "tid": 1, "args": {"correlation": number}},
                           {"ph": "X", "cat": "kernel", "name": "k", "ts": 1000 + at, "dur": length, "pid": 0, "tid": 7,
                            "args": {"correlation": number, "device": 0, "stream": 7}}]
            at += 100
    assert kernels_of(json.dumps({"traceEvents": events}).encode(), "x") == {0: [[5.0, 7.0]] * 2, 1: [[11.0]] * 2}


def test_new_durations_keep_their_sum():
    """Kernels one by one; 30 us of three recorded as 10, 20, 30; what rounding leaves is carried to the next; two
    messages of one kernel."""
    items = [Item(0, nodes, lane=("stream",)) for nodes in ([0, 1], [2, 3, 4], [5], [6], [7], [8])]
    items.append(Item(9, [9, 10], lane=("peer",), more=[None]))
    plan = SimpleNamespace(items=items, durations=[1, 1, 10, 20, 30, 1, 1, 1, 1, 5, 5])
    taken = {0: [[4.0, 6.0], [5.0, 6.0], [9.0, 6.0]], 1: [[30.0]], **{place: [[1.25]] for place in range(2, 6)},
             6: [[8.0]]}
    found, other = new_durations(plan, Times([0.1], taken, "some GPU", gpu=True))
    assert [found[node] for node in range(5)] == [5, 6, 5, 10, 15]
    assert sum(found[node] for node in range(5, 9)) == 5
    assert (found[9], found[10], other) == (8, 8, 1)


# ------------------------------------------------------------ with PyTorch
def plan_for(builder, device="cpu"):
    pytest.importorskip("torch", reason='replaying operators needs PyTorch: pip install "astrarium[torch]"')
    from astrarium.profile.execute.real import plan_of

    return plan_of(traces_of_bytes([builder.encode()]), 0, device)


@pytest.mark.parametrize(("schema", "inputs", "outputs", "said"), [
    ("aten::no_such(Tensor self) -> Tensor", [tensor(1, 2)], [tensor(2, 2)], "not in this PyTorch"),
    ("os::system(str command) -> int", [], [], "not in this PyTorch"),
    ("aten::from_file(str filename, bool? shared=None, int? size=0, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor", [("/tmp/x", [], "String"), True, 8], [], "files"),
    (MM, [tensor(1, 2, 3), tensor(2, 4, 5)], [tensor(3, 2, 5)], "refused by PyTorch"),
    (MM, [tensor(1, 2, 3), tensor(2, 3, 5)], [tensor(3, 2, 6)], "gives [2, 5] in this PyTorch, recorded are [2, 6]"),
    (MM, [tensor(1, 1 << 40, 1 << 40), tensor(2, 1 << 40, 1)], [tensor(3, 1 << 40, 1)], "ends at byte"),
    (MM, [tensor(1, 2, 3), ("<Generator>", [], "Generator")], [], "'mat2': its value is not recorded"),
    ("aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", [([1 << 40], [[]], "GenericList[Int]")], [tensor(1, 1)], "gives [1099511627776]"),
    ("x(", [], [], "not a schema"),
])
def test_what_cannot_run_is_said_before_anything_runs(schema, inputs, outputs, said):
    """By file, node and operator: names that PyTorch does not have, files, arguments and sizes that do not fit."""
    pytest.importorskip("torch", reason='replaying operators needs PyTorch: pip install "astrarium[torch]"')
    from astrarium.profile.execute.real import refuse_faults

    builder = Recorded()
    builder.kernel("k", builder.call(schema, inputs, outputs))
    with pytest.raises(InputError) as error:
        refuse_faults(plan_for(builder))
    assert said in str(error.value)
    assert "(node 0, 1 of them" in str(error.value)


def test_more_memory_than_there_is_is_refused():
    """64 matrices of 32 GiB that are there at once."""
    builder = Recorded()
    for number in range(64):
        builder.call(ADD, [tensor(number + 1, 1 << 33), tensor(number + 1, 1 << 33), 1], [tensor(number + 1, 1 << 33)])
    plan = plan_for(builder)
    from astrarium.profile.execute import joined_group
    from astrarium.profile.execute.real import replay_operators

    with joined_group("gloo", "cpu", 1) as group, pytest.raises(InputError, match=r"take 2\.199 TB at a time"):
        replay_operators(plan, group, repeat=1, skip=False, progress=lambda _: None)


@pytest.mark.parametrize(("words", "said"), [
    (("-o", "{here}/step"), "is one of the files that are read"), (("-o", "{here}/none/step"), "cannot be written"),
    (("--compute", "real", "--import", "../x"), "--import ../x: cannot be imported"),
    (("--compute", "real", "--import", "broken"), "cannot be imported .ZeroDivisionError")])
def test_flags_are_refused_before_anything_runs(tmp_path, monkeypatch, capsys, words, said):
    trace = Recorded()
    trace.call(MM, [tensor(1, 2, 2), tensor(2, 2, 2)], [tensor(3, 2, 2)])
    trace.write(tmp_path / "step.0.et")
    (tmp_path / "broken.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    assert dispatch(["trace", "replay", str(tmp_path / "step"), *(each.format(here=tmp_path) for each in words)]) == 1
    assert re.search(said, capsys.readouterr().err)
