"""Who waits for whom, on small hand-made events: streams, host calls, threads, queues, clocks."""

from __future__ import annotations

from pathlib import Path

from astrarium.profile.link.emit import GAP_NAME
from astrarium.trace import Node

from .machine import Json
from .paired import event, kernel, nodes_of, of_events, replayed_us


def launch(at: float, correlation: int, tid: int = 1, name: str = "cudaLaunchKernel", dur: float = 5) -> Json:
    return event("cuda_runtime", name, at, dur, tid, correlation=correlation)


def named(folder: Path) -> dict[str, Node]:
    """Nodes by name, without those that only go on."""
    return {each.name: each for each in nodes_of(folder) if each.attr("rest_of") is None}


def test_a_stream_runs_in_order_and_a_kernel_waits_for_its_launch(tmp_path: Path) -> None:
    of_events(tmp_path, [launch(0, 1), launch(10, 2), kernel("a", 8, 20, 1), kernel("b", 30, 5, 2)])
    found = nodes_of(tmp_path)
    by_name = {each.name: each for each in found if each.attr("stream")}
    calls = [each for each in found if each.name == "cudaLaunchKernel"]
    gaps = {each.id for each in found if each.name == GAP_NAME}
    assert set(by_name["b"].data_deps) - gaps == {by_name["a"].id, calls[1].id}
    assert set(by_name["a"].data_deps) - gaps == {calls[0].id}


def test_branches_of_a_graph_run_at_once_and_join(tmp_path: Path) -> None:
    """b and c of one stream overlap wholly: both follow a, and d follows both."""
    of_events(tmp_path, [launch(0, 1, name="cudaGraphLaunch"), kernel("a", 10, 10, 1), kernel("b", 20, 30, 1),
                         kernel("c", 21, 25, 1), kernel("d", 60, 5, 1)])
    found = named(tmp_path)
    for branch in "bc":
        assert found["a"].id in found[branch].data_deps
    assert found["b"].id not in found["c"].data_deps
    assert {found["b"].id, found["c"].id} <= set(found["d"].data_deps)


def test_a_small_overlap_is_cut(tmp_path: Path) -> None:
    """Programmatic dependent launch begins a kernel before the one before it ends: the stream stays a chain."""
    report = of_events(tmp_path, [launch(0, 1), launch(5, 2), kernel("a", 10, 20, 1), kernel("b", 28, 20, 2)]).report
    found = named(tmp_path)
    assert (found["a"].duration, found["b"].duration) == (18, 20)
    assert found["a"].id in found["b"].data_deps
    assert any("1 GPU operations cut" in what for what in report.missing)


def test_a_recorded_wait_is_taken_as_it_is(tmp_path: Path) -> None:
    """Stream 9 waits for `a` only, although `b` had ended too when `c` began."""
    calls = [launch(0, 1), event("cuda_runtime", "cudaEventRecord", 6, 1, correlation=2), launch(8, 3),
             event("cuda_runtime", "cudaStreamWaitEvent", 50, 1, correlation=4), launch(52, 5)]
    kernels = [kernel("a", 10, 5, 1), kernel("b", 20, 5, 3), kernel("c", 60, 5, 5, stream=9)]
    of_events(tmp_path, calls + kernels)
    assert named(tmp_path)["b"].id in named(tmp_path)["c"].data_deps
    told = event("cuda_sync", "Stream Wait Event", 50, 1, stream=9, correlation=4, device=0, wait_on_stream=7,
                 wait_on_cuda_event_record_corr_id=2)
    report = of_events(tmp_path, [*calls, *kernels, told]).report
    found = named(tmp_path)
    assert found["a"].id in found["c"].data_deps
    assert found["b"].id not in found["c"].data_deps
    assert (report.stream_waits, report.stream_waits_inferred) == (1, 0)


def test_a_synchronised_host_waits_for_the_kernel_and_not_for_the_clock(tmp_path: Path) -> None:
    synchronised = launch(6, 2, name="cudaDeviceSynchronize", dur=110)
    report = of_events(tmp_path, [launch(0, 1), kernel("a", 10, 100, 1), synchronised,
                                  event("cpu_op", "aten::add", 120, 10)]).report
    found = named(tmp_path)
    assert found["a"].id in found["cudaDeviceSynchronize"].data_deps
    assert found["cudaDeviceSynchronize"].duration == 6     # after the kernel
    assert found[GAP_NAME].duration == 5                    # the kernel's latency
    assert (report.unexplained_us, report.gaps_us) == (0, 5)
    assert replayed_us(tmp_path) == 130


def test_a_gap_between_kernels_is_a_node_that_both_surround(tmp_path: Path) -> None:
    """Nobody knows why b begins 7 us after a: the stream is idle for that long, whatever a's duration."""
    report = of_events(tmp_path, [launch(0, 1), launch(5, 2), kernel("a", 10, 100, 1), kernel("b", 117, 20, 2)]).report
    gap = next(each for each in nodes_of(tmp_path) if each.name == GAP_NAME and each.start == 110)
    found = named(tmp_path)
    assert (gap.duration, gap.data_deps) == (7, (found["a"].id,))
    assert (gap.attr("is_cpu_op").value, gap.attr("idle_stream").value, gap.attr("stream")) == (True, 7, None)
    assert {found["a"].id, gap.id} <= set(found["b"].data_deps)
    assert (report.gaps_us, replayed_us(tmp_path)) == (12, 137)


def test_what_the_gpu_did_before_the_trace_delays_its_first_operation(tmp_path: Path) -> None:
    of_events(tmp_path, [launch(0, 1), kernel("a", 5000, 100, 1), launch(10, 2), kernel("b", 5100, 50, 2)])
    assert named(tmp_path)[GAP_NAME].duration == 4995
    assert replayed_us(tmp_path) == 5150


def test_a_late_operation_waits_for_what_ended_on_another_stream(tmp_path: Path) -> None:
    """b could have begun at 25, and begins 2 us after the end of a: an event of which the trace has no record."""
    report = of_events(tmp_path, [launch(0, 1), launch(20, 2), kernel("a", 10, 300, 1),
                                  kernel("b", 312, 20, 2, stream=9)]).report
    found = named(tmp_path)
    assert found["a"].id in found["b"].data_deps
    assert (report.stream_waits, report.stream_waits_inferred) == (1, 1)


def test_an_event_is_waited_for_where_something_ended_meanwhile(tmp_path: Path) -> None:
    of_events(tmp_path, [launch(0, 1), kernel("a", 10, 5, 1), launch(20, 2, name="cudaEventSynchronize", dur=3)])
    assert named(tmp_path)["a"].id not in named(tmp_path)["cudaEventSynchronize"].data_deps
    of_events(tmp_path, [launch(0, 1), kernel("a", 10, 11, 1), launch(20, 2, name="cudaEventSynchronize", dur=3)])
    assert named(tmp_path)["a"].id in named(tmp_path)["cudaEventSynchronize"].data_deps


def test_a_launch_into_a_full_queue_waits_for_the_gpu(tmp_path: Path) -> None:
    """300 kernels of 100 us in flight; the 301st launch returns when the 40th ends."""
    made: list[Json] = []
    for number in range(300):
        made += [launch(number * 6, number + 1), kernel(f"k{number}", 10 + 100 * number, 100, number + 1)]
    made += [launch(1800, 999, dur=2212), kernel("late", 10 + 100 * 300, 100, 999)]
    of_events(tmp_path, made)
    found = nodes_of(tmp_path)
    ids = {each.name: each.id for each in found}
    rest = [each for each in found if each.attr("rest_of") and each.start >= 4000]
    assert [each.duration for each in rest] == [2]      # us after the kernel
    assert ids["k39"] in rest[0].data_deps


def test_two_clocks_that_differ(tmp_path: Path) -> None:
    """A kernel cannot begin before its launch: the GPU's times are moved."""
    report = of_events(tmp_path, [launch(100, 1), launch(110, 2), kernel("a", 70, 5, 1), kernel("b", 95, 5, 2)]).report
    assert any("moved by 30.000 us" in what for what in report.missing)
    assert [each.start for each in nodes_of(tmp_path) if each.attr("stream")] == [30, 55]
    assert (report.measured_us, replayed_us(tmp_path)) == (30, 30)


def test_two_clocks_that_differ_the_other_way(tmp_path: Path) -> None:
    """The device was waited for until 200, so what was launched before cannot end at 250."""
    report = of_events(tmp_path, [launch(0, 1), kernel("a", 80, 170, 1),
                                  launch(10, 2, name="hipDeviceSynchronize", dur=190)]).report
    assert any("moved by -50.000 us" in what for what in report.missing)
    assert (report.measured_us, replayed_us(tmp_path)) == (200, 200)


def test_a_trace_that_begins_with_gpu_work(tmp_path: Path) -> None:
    """The main thread's first operator comes 500 us after a kernel of before: that is host time, not nothing."""
    report = of_events(tmp_path, [kernel("a", 0, 100, 9), event("cpu_op", "aten::mm", 500, 20)]).report
    assert (report.measured_us, replayed_us(tmp_path)) == (520, 520)


def test_an_operator_inside_a_waiting_call_ends_the_wait(tmp_path: Path) -> None:
    """What a thread does while a call of it seems to wait says that the call did not wait for the kernel."""
    report = of_events(tmp_path, [launch(0, 1), launch(10, 2, name="cudaDeviceSynchronize", dur=300),
                                  kernel("a", 20, 250, 1), event("cpu_op", "aten::mm", 50, 20)]).report
    found = named(tmp_path)
    assert found["a"].id not in found["cudaDeviceSynchronize"].data_deps
    assert found["aten::mm"].start == 50
    assert replayed_us(tmp_path) == report.measured_us


def test_a_correlation_id_that_wrapped_joins_nothing(tmp_path: Path) -> None:
    report = of_events(tmp_path, [launch(5_000_000, 1), kernel("a", 10, 5, 1)]).report
    assert (report.launched, report.missing[-1].split()[0]) == (0, "1")


def test_a_thread_wakes_another_and_waits_for_it(tmp_path: Path) -> None:
    """Host time is what passed on each thread: 10 + 30 before, 100 on the other, 20 after."""
    report = of_events(tmp_path, [
        event("cpu_op", "forward", 0, 10), event("user_annotation", "backward", 10, 150),
        event("cpu_op", "MulBackward", 40, 100, tid=2)]).report
    found = nodes_of(tmp_path)
    by_name = {each.name: each for each in found if not each.attr("rest_of")}
    rest = next(each for each in found if each.attr("rest_of"))
    assert by_name["MulBackward"].data_deps == (by_name["backward"].id,)
    assert set(rest.data_deps) == {by_name["backward"].id, by_name["MulBackward"].id}
    assert (by_name["backward"].duration, rest.duration) == (30, 20)
    assert (report.thread_waits, replayed_us(tmp_path)) == (1, 160)


def test_a_thread_that_waits_in_an_annotation_may_wake_before_the_other_rests(tmp_path: Path) -> None:
    """backward returns at 600, after MulBackward; the other thread goes on with something else until 900."""
    report = of_events(tmp_path, [
        event("user_annotation", "backward", 0, 600), event("cpu_op", "MulBackward", 40, 500, tid=2),
        event("cpu_op", "prefetch", 550, 350, tid=2), event("cpu_op", "step", 600, 400)]).report
    found = named(tmp_path)
    rest = next(each for each in nodes_of(tmp_path) if each.attr("rest_of"))
    assert found["prefetch"].id not in rest.data_deps
    assert rest.duration == 60
    assert rest.id in found["step"].data_deps
    assert (report.thread_waits, replayed_us(tmp_path)) == (1, 1000)


def test_a_thread_that_goes_on_beside_is_woken_and_not_awaited(tmp_path: Path) -> None:
    report = of_events(tmp_path, [
        event("cpu_op", "a", 0, 50), event("cpu_op", "b", 50, 100), event("cpu_op", "aside", 40, 60, tid=2)]).report
    found = named(tmp_path)
    assert found["aside"].data_deps == (found["a"].id,) or len(found["aside"].data_deps) == 1
    assert found["aside"].id not in found["b"].data_deps
    assert (report.thread_waits, replayed_us(tmp_path)) == (0, 150)


def test_calls_of_another_thread_id_are_adopted(tmp_path: Path) -> None:
    """Kineto once gave runtime calls a thread id of their own; the external id says where they belong."""
    call = launch(5, 1, tid=-77)
    call["args"]["External id"] = 12
    of_events(tmp_path, [event("cpu_op", "aten::mm", 0, 20, External_id=12), call, kernel("a", 30, 5, 1)])
    found = named(tmp_path)
    assert found["cudaLaunchKernel"].ctrl_deps == (found["aten::mm"].id,)
    assert found["a"].ctrl_deps == (found["aten::mm"].id,)


def test_an_operation_without_a_launch_hangs_on_its_operator(tmp_path: Path) -> None:
    orphan = kernel("a", 30, 5, -1)
    orphan["args"]["External id"] = 12
    report = of_events(tmp_path, [event("cpu_op", "aten::mm", 0, 20, External_id=12), orphan]).report
    found = named(tmp_path)
    assert found["a"].data_deps == (found["aten::mm"].id, found[GAP_NAME].id)
    assert any("1 GPU operations whose launching call" in what for what in report.missing)
