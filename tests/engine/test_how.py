"""`Outcome.how`: the attempts of a run in words, the one that gave the answer last."""

from __future__ import annotations

import re

import pytest

import astrarium as ar
from astrarium import engine
from astrarium.engine.outcome import EVERY_MESSAGE

needs_core = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")
GIVEN_UP = "one rank per class of equal ranks: given up because of "


def design(backend: str, host: ar.Dim, tp: int = 4, streams: int = 1) -> ar.Design:
    dims = [host, ar.Ring(4, bandwidth="50 GB/s", latency="1 us")]
    work = ar.Transformer("gpt2-small", tp=tp, dp=16 // tp, global_batch=32 // tp, micro_batch=1, seq=512)
    return ar.Design(workload=work,
                     compute=ar.Roofline(peak="989 TFLOP/s"), memory=ar.Memory(bandwidth="3.35 TB/s"),
                     network=ar.Network(dims, backend), system=ar.System(comm_streams=streams))


SWITCH = ar.Switch(4, bandwidth="450 GB/s", latency="500 ns")


def test_every_message() -> None:
    """In both engines."""
    small = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"), network=ar.Network([SWITCH]))
    for pure in (True, False):
        assert ar.simulate(small, fold="off", pure=pure).outcome.how == (EVERY_MESSAGE,)


@needs_core
def test_equal_ranks_once() -> None:
    assert ar.simulate(design("closed_form", SWITCH)).outcome.how == (
        "one rank of each of 1 classes of equal ranks was simulated",)


@needs_core
def test_collectives_timed_alone() -> None:
    given_up, answer = ar.simulate(design("contention", SWITCH)).outcome.how
    assert given_up == GIVEN_UP + "collectives of groups over shared links"
    assert answer.startswith(
        "every rank was simulated; collectives that share no link with other traffic were timed alone")


@needs_core
def test_attempts_that_ended() -> None:
    """Groups of two on a ring of four share its links: a run finds which collectives meet others."""
    made = design("contention", ar.Ring(4, bandwidth="5 GB/s", latency="500 ns"), tp=2, streams=3)
    how = ar.simulate(made).outcome.how
    assert how[0].startswith(GIVEN_UP)
    assert re.match(r"collectives timed alone, run 1: [1-9]\d* of \d+ met other traffic", how[1])
    assert ar.simulate(made, record=False).outcome.how[:-1] == how[:-1]
