"""What a run may take: memory is weighed before, an interrupt ends it soon, and exhaustion is an error like others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from msgspec.structs import replace
from tests.plans.hand import delay, plan_of, recv, send

import astrarium as ar
from astrarium import engine
from astrarium.engine import _native
from astrarium.engine.plan import Backend, Dim, NetworkPlan, Order, Plan, Policy, Shape
from astrarium.errors import StallError, StoppedError, TraceError, UnsupportedError
from astrarium.lower import lower

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")


def direct(npus: int, chunks: int, backend: str = "closed_form") -> Plan:
    """An all_reduce in which every NPU sends to all others at once, all chunks under way."""
    network = ar.Network([ar.Switch(npus, bandwidth="100 GB/s", latency="1 us")], backend=backend)
    collective = ar.Collective(all_reduce=["direct"], chunks=chunks, active_chunks=0)
    return lower(ar.Design(workload=ar.SingleCollective("all_reduce", "1 GB"), network=network, collective=collective))


def test_messages_that_cannot_fit_are_refused_before_the_run() -> None:
    began = time.process_time()
    words = r"1,024 ranks.*takes about \d+ GiB .*67,043,328 messages.*at most 8 GiB.*active_chunks"
    with pytest.raises(UnsupportedError, match=words):
        engine.execute(direct(1024, 64), fold=False)
    assert time.process_time() - began < 2
    assert engine.execute(direct(1024, 64), fold=True).folded


def test_what_is_noted_of_each_message_is_weighed() -> None:
    """A ring of n has 2 (n - 1) messages for each NPU, and two bits for each: n * n / 2 bytes are 10 GiB."""
    network = ar.Network([ar.Ring(150_000, bandwidth="100 GB/s", latency="1 us")], backend="contention")
    plan = lower(ar.Design(workload=ar.SingleCollective("all_reduce", "1 GB"), network=network,
                           collective=ar.Collective(all_reduce=["ring"], choice="none")))
    with pytest.raises(UnsupportedError, match=r"150,000 ranks.*takes about 11 GiB .*150,000 messages"):
        engine.execute(plan, fold=False)


def test_a_million_npus_that_do_not_fold_are_refused() -> None:
    network = ar.Network([ar.Switch(1024, bandwidth="100 GB/s", latency="1 us")] * 2, backend="contention")
    with pytest.raises(UnsupportedError, match=r"1,048,576 ranks.*GiB.*closed_form"):
        ar.simulate(ar.Design(workload=ar.SingleCollective("barrier", "0 B"), network=network))


def test_one_root_of_many_ranks_weighs_what_it_sends() -> None:
    """65,535 messages in all: 255 of 10 us from the root, one after the other, then 255 along each line."""
    network = ar.Network([ar.Switch(256, bandwidth="100 GB/s", latency="1 us")] * 2, backend="contention")
    began = time.process_time()
    result = ar.simulate(ar.Design(workload=ar.SingleCollective("broadcast", "1 MB"), network=network), record=False)
    assert result.makespan_ps == 2 * (255 * 10 + 2) * 1_000_000
    assert time.process_time() - began < 4


@pytest.mark.parametrize("order", [Order.CANONICAL, Order.ASTRA_SIM])
def test_more_nodes_than_can_be_numbered_are_refused(order: Order) -> None:
    astra = order == Order.ASTRA_SIM
    network = NetworkPlan(Backend.UNSHARED if astra else Backend.PORTS, (Dim(Shape.SWITCH, 2**20, 1.0, 1.0),), astra)
    one = plan_of([[delay(1)] * 5000], network, policy=Policy(order=order))
    ranks = np.arange(2**20, dtype=np.int32)
    many = Plan(npus=2**20, programs=one.programs, program_of=np.zeros_like(ranks), npu_of=ranks,
                slot_ptr=np.zeros(2**20 + 1, np.int64), slot_a=one.slot_a, slot_b=one.slot_b, slot_c=one.slot_c,
                groups=(), collectives=(), network=network, policy=one.policy)
    with pytest.raises(UnsupportedError, match=r"nodes.*fold"):
        engine.execute(many, fold=False)
    assert engine.execute(many, fold=True).makespan == 5000


class StopError(Exception):
    """What the alarm raises."""


def test_an_interrupt_ends_a_run_within_one_huge_instant() -> None:
    """512 x 511 x 64 messages leave at once. All times are CPU seconds."""
    def stop(number: int, frame: object) -> None:
        raise StopError

    plan, before = direct(512, 64), signal.signal(signal.SIGPROF, stop)
    try:
        for after in (0.2, 0.8):
            signal.setitimer(signal.ITIMER_PROF, after)
            began = time.process_time()
            with pytest.raises(StopError):
                engine.execute(plan, fold=False)
            assert time.process_time() - began - after < 3      # 0.6 when quiet, 2.3 beside others
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def long_run(case: str) -> Plan:
    """A run of at least half a CPU second."""
    if case in ("closed_form", "contention"):
        return direct(512, 8, case)
    hop = {"bandwidth": "50 GB/s", "latency": "50 ms" if case == "packets, one window" else "1 us"}
    fabric = ar.blueprint("clos", hosts=512 if case == "fluid" else 32, ports=32, links={"access": hop, "spine": hop})
    packets = {"packets, threads": {"threads": 2}, "packets, roce": {"transport": "roce", "roce": {"buffer": "1 GB"}}}
    network = ar.Network(fabric=fabric, backend=case.partition(",")[0], packets=packets.get(case, {}), ecmp=1)
    collective = ar.Collective(all_to_all=["direct"], choice="none", active_chunks=0)
    return lower(ar.Design(workload=ar.SingleCollective("all_to_all", "2 GB"), network=network, collective=collective))


LONG = ("closed_form", "contention", "fluid", "packets", "packets, threads", "packets, roce", "packets, one window")


@pytest.mark.parametrize(("case", "number"), [
    *[(case, signal.SIGINT) for case in LONG], ("fluid", signal.SIGTERM),
    *[pytest.param(case, signal.SIGTERM, marks=pytest.mark.exam) for case in LONG if case != "fluid"]])
def test_a_signal_ends_a_long_run_of_every_back_end(case: str, number: signal.Signals) -> None:
    """Users' report, issue 35 line 13: `fluid` ignored both for 50 s. All times are CPU seconds."""
    plan, sent = long_run(case), []

    def stop(number: int, frame: object) -> None:
        raise StopError

    def send_soon() -> None:
        while time.process_time() - began < 0.15:
            time.sleep(0.01)
        sent.append(time.process_time())
        os.kill(os.getpid(), number)

    before = signal.signal(number, stop)
    sender = threading.Thread(target=send_soon)
    try:
        began = time.process_time()
        sender.start()
        with pytest.raises(StopError):
            engine.execute(plan, fold=False, record=False)
        assert time.process_time() - sent[0] < 0.5
    finally:
        sender.join()
        signal.signal(number, before)


@pytest.mark.parametrize("case", LONG)
def test_a_limit_ends_a_long_run_of_every_back_end(case: str) -> None:
    """What `astrarium search --limit` sets."""
    plan, limit = long_run(case), engine.Limit()
    began = time.process_time()
    limit.begin(0.15)
    try:
        with pytest.raises(StoppedError):
            engine.execute(plan, fold=False, record=False)
    finally:
        limit.end()
    assert time.process_time() - began < 0.65


def test_memory_that_runs_out_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        @staticmethod
        def execute(*arguments: object) -> object:
            raise MemoryError

    plan = direct(2, 1)
    monkeypatch.setattr(_native, "_core", Full)
    with pytest.raises(UnsupportedError, match="does not fit into this machine's memory; expected fold auto"):
        engine.execute(plan)


@pytest.mark.parametrize(("order", "pure"), [(Order.CANONICAL, False), (Order.CANONICAL, True),
                                             (Order.ASTRA_SIM, False)])
def test_peers_that_do_not_exist_are_refused(order: Order, pure: bool) -> None:
    astra = order == Order.ASTRA_SIM
    network = NetworkPlan(Backend.UNSHARED if astra else Backend.PORTS, (Dim(Shape.RING, 4, 1.0, 1.0),), astra)
    for node in (send(9, 8), recv(9, 8), send(2**31 - 1, 8), recv(2**31 - 1, 8)):
        plan = plan_of([[node], [], [], []], network, policy=Policy(order=order))
        with pytest.raises(TraceError, match=r"rank 0.*(peer|does not exist)"):
            engine.execute(plan, fold=False, pure=pure)


def test_a_cycle_stalls_under_astra_sim_s_rules_too() -> None:
    network = NetworkPlan(Backend.UNSHARED, (Dim(Shape.RING, 4, 1.0, 1.0),), True)
    plan = plan_of([[delay(5), delay(5, 0), delay(3)], [], [], []], network, policy=Policy(order=Order.ASTRA_SIM))
    cycle = replace(plan.programs[0], parents=np.array([1, 1, 0], np.int32), child=np.array([1, 0], np.int32),
                    child_ptr=np.array([0, 1, 2, 2], np.int32))
    with pytest.raises(StallError, match=r"rank 0: .*never start"):
        engine.execute(replace(plan, programs=(cycle, *plan.programs[1:])), fold=False)


def test_a_run_of_every_rank_says_before_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups whose members a dim's border divides have no equal members: folding gives up."""
    monkeypatch.setattr(_native, "WORTH_A_WORD", 0)
    design = ar.Design(
        workload=ar.Transformer(ar.Decoder(layers=8, d_model=512, heads=16, kv_heads=16, ffn=1024, vocab=1024, seq=256),
                                dp=24, pp=8, zero=3, global_batch=24 * 8, micro_batch=1),
        compute=ar.Roofline(peak="100 TFLOP/s"), memory=ar.Memory(bandwidth="1 TB/s"),
        network=ar.Network([ar.Switch(16, bandwidth="50 GB/s", latency="1 us"),
                            ar.Switch(12, bandwidth="50 GB/s", latency="1 us")]))
    said: list[str] = []
    outcome = ar.simulate(design, note=said.append).outcome
    assert outcome.unfolded_because == "too few equal ranks"
    assert said[0].startswith("every rank will be simulated, because of too few equal ranks: about ")
    assert float(said[0].split("about ")[1].split()[0]) == pytest.approx(outcome.events, rel=0.25)
    ar.simulate(design, fold="off", note=said.append)
    assert len(said) == 1


SENT_TO_ALL = """
import sys
import astrarium as ar
network = ar.Network([ar.Switch(int(sys.argv[1]), bandwidth="50 GB/s", latency="2 us")], backend="contention")
design = ar.Design(workload=ar.SingleCollective("all_to_all", "64 MiB"), network=network,
                   collective=ar.Collective(all_to_all=["direct"], choice="none"))
result = ar.simulate(design, fold="off", record=False)
most = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))     # kB; of this program alone
print(result.makespan_ps, most.split()[1])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")
@pytest.mark.parametrize(("npus", "megabytes"), [(1024, 150), pytest.param(8192, 2000, marks=pytest.mark.exam)])
def test_sends_that_wait_for_their_turn_take_no_memory(npus: int, megabytes: int) -> None:
    """Each NPU sends 1/n of 64 MiB to all others, one after the other over one link: 67 million messages of 8,192."""
    done = subprocess.run([sys.executable, "-c", SENT_TO_ALL, str(npus)], capture_output=True, text=True, check=True)
    makespan, kib = map(int, done.stdout.split())
    serial = round((64 << 20) // npus / 50 * 1000)
    assert makespan == (npus - 1) * serial + 4_000_000     # all leave in a row
    assert kib < megabytes * 1024
