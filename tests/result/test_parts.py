"""Unions of intervals, and the pairing of messages, against the obvious way."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from astrarium.engine.plan import Kind
from astrarium.result.intervals import Intervals
from astrarium.result.messages import Comm, messages_of

SPANS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 9), st.booleans()), max_size=12)


@given(SPANS, st.sampled_from([1, 2**57]))
def test_unions(spans: list[tuple[int, int, int, bool]], scale: int) -> None:
    # 2**57: times so long that rows cannot be told apart by adding a row's offset
    rows, starts, lengths, chosen = (np.array([span[i] for span in spans], np.int64) for i in range(4))
    found = Intervals(rows, starts * scale, (starts + lengths) * scale, 3).union(chosen == 1)
    for row in range(3):
        covered = {t for r, s, n, keep in spans if keep and r == row for t in range(s, s + n)}
        assert found[row] == len(covered) * scale


ENTRIES = st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 1), st.integers(0, 5), st.integers(7, 8))


@given(st.lists(ENTRIES, max_size=14), st.booleans())
def test_messages_meet_in_order(entries: list[tuple[bool, int, int, int, int]], ascending: bool) -> None:
    recv, own, tag, time, size = (np.array([e[i] for e in entries], np.int64) for i in range(5))
    if ascending:       # as programs are: times go with numbers, and a tag has one size
        time, size = np.sort(time), tag + 7
    count = len(entries)
    comm = Comm(rank=own, node=np.arange(count), kind=np.where(recv, Kind.RECV, Kind.SEND).astype(np.uint8),
                size=size, a=(1 - own).astype(np.int32), b=tag.astype(np.int32), start=time, end=time,
                place=np.arange(count))
    waiting = defaultdict(lambda: ([], []))
    for number in np.lexsort((np.arange(count), time)).tolist():
        side = bool(recv[number])
        source = 1 - int(own[number]) if side else int(own[number])
        waiting[source, int(tag[number]), int(size[number])][side].append(number)
    expected = sorted(pair for sends, recvs in waiting.values() for pair in zip(sends, recvs))
    found = messages_of(comm)
    assert sorted(zip(found.send.tolist(), found.recv.tolist())) == expected
