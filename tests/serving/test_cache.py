"""The cache of a server: against one that knows every block, and what requests get of prefixes, tiers and swaps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.serving.test_loop import MS, assert_empty, fixed, one_of, server

from astrarium.serving import Policy, Tier
from astrarium.serving.cache import Blocks, Held, Store
from astrarium.serving.fleet import Fleet
from astrarium.serving.loop import run as answer
from astrarium.serving.requests import Prefixes, Requests, Turns
from astrarium.serving.requests.stream import OPEN
from astrarium.workload.inference.footprint import CacheBlocks

BLOCK, TOTAL = 4, 12
LENGTHS = {"a": 9, "b": 21, "ax": 25, "ay": 17, "bx": 37}      # tokens up to the end of each segment


class EveryBlock:
    """Blocks by segment and number: how many use each, and when it was left; the one left first is evicted first."""

    def __init__(self) -> None:
        self.users, self.left = dict[tuple[object, int], int](), dict[tuple[object, int], int]()
        self.clock = itertools.count()

    def names(self, path: list[str], number: int, tokens: int) -> list[tuple[object, int]]:
        """Blocks of a request's first tokens."""
        ends = [*((key, LENGTHS[key]) for key in path), (number, OPEN)]
        return [(next(key for key, end in ends if (block + 1) * BLOCK <= end), block)
                for block in range(tokens // BLOCK)]

    def hits(self, names: list[tuple[object, int]]) -> int:
        return sum(1 for _ in itertools.takewhile(self.users.__contains__, names))

    def take(self, names: list[tuple[object, int]], more: int) -> bool:
        """Use cached blocks, and as many others as the rest needs."""
        idle = [name for name in self.left if name not in names]
        held = sum(1 for name in self.users if name not in self.left or name in names)
        if held + more > TOTAL:
            return False
        for name in names:
            self.users[name] += 1
            self.left.pop(name, None)
        for name in sorted(idle, key=self.left.__getitem__)[:max(0, len(self.users) + more - TOTAL)]:
            del self.users[name], self.left[name]
        return True

    def leave(self, names: list[tuple[object, int]]) -> None:
        for name in reversed(names):
            self.users[name] -= 1
            if not self.users[name]:
                self.left[name] = next(self.clock)


@given(st.lists(st.tuples(st.sampled_from([[], ["a"], ["b"], ["a", "ax"], ["a", "ay"], ["b", "bx"]]),
                          st.integers(1, 44)), min_size=1, max_size=30))
def test_hits_and_evictions_are_those_of_single_blocks(rows: list[tuple[list[str], int]]) -> None:
    """One request at a time: the same hits, and at the end the same blocks in the cache."""
    cache, oracle = Blocks(TOTAL, BLOCK), EveryBlock()
    for number, (wished, tokens) in enumerate(rows):
        path = [key for key in wished if LENGTHS[key] <= tokens]
        segments = [*((key, LENGTHS[key]) for key in path), (number, OPEN)]
        names, held = oracle.names(path, number, tokens), Held()
        nodes, hit, _ = cache.match(segments, tokens)
        seen = names[:oracle.hits(names[:(tokens - 1) // BLOCK])]
        assert hit == len(seen)
        need = cache.of(tokens) - hit
        if not oracle.take(seen, need):
            continue
        cache.hold(held, nodes, hit, need)
        for done in range(hit * BLOCK, tokens + 1, 5):
            cache.tell(held, segments, done)
        cache.release(held, segments, tokens)
        for name in names[hit:]:
            oracle.users[name] = 1 + oracle.users.get(name, 0)
        oracle.leave(names)
        assert cache.free == TOTAL
        blocks = {key: node.length for key, node in cache.nodes.items()}
        keys = [key for key, _ in oracle.users]
        assert blocks == {key: keys.count(key) for key in set(keys)}


def stream(prompts: list[int], outputs: list[int], gap: int, prefixes: list[list[tuple[int, int]]] | None = None,
           turns: Turns | None = None) -> Requests:
    count = len(prompts)
    start = np.cumsum([0, *(len(each) for each in prefixes or [])])
    pairs = np.array([pair for each in prefixes or [] for pair in each], np.int64).reshape(-1, 2)
    return Requests(np.arange(count) * gap, np.array(prompts), np.array(outputs), turns=turns,
                    prefixes=None if prefixes is None else Prefixes(start, pairs[:, 0], pairs[:, 1]))


def test_a_shared_prefix_is_computed_once() -> None:
    """1,000 tokens of which 800 are shared: the second request computes 200; the same step counts too (vLLM)."""
    tokens: list[int] = []

    def timed(step: object) -> int:
        tokens.extend(part[0] for part in step.prompts)     # type: ignore[attr-defined]
        return MS

    for gap in (5 * MS, 0):
        tokens.clear()
        one = server(Policy(max_tokens=4000), 1000, timed)
        served = answer(stream([1000, 1000], [3, 3], gap, [[(7, 800)]] * 2), one_of(one))
        assert tokens == [1000, 200]
        assert served.cached is not None
        assert served.cached.tolist() == [0, 800]
        assert_empty(one, 1000)
    served = answer(stream([1000, 1000], [3, 3], 0, [[(7, 800)]] * 2),
                    one_of(server(Policy(max_tokens=4000, prefix_cache=False), 1000, timed)))
    assert tokens[2:] == [1000, 1000]


def test_the_last_token_is_always_computed() -> None:
    one = server(Policy(max_tokens=4000), 1000, fixed(MS))
    served = answer(stream([800, 800, 807], [1, 1, 1], 5 * MS, [[(7, 800)]] * 3), one_of(one))
    assert served.cached is not None
    assert served.cached.tolist() == [0, 784, 800]


def test_a_conversation_finds_its_past() -> None:
    """The second turn: prompt and answer of the first are in the cache but for the last token, in whole blocks."""
    turns = Turns(np.array([1, -1]), np.array([3 * MS, 0]), np.array([0, 0]))
    requests = stream([100, 250], [60, 5], 0, turns=turns)
    served = answer(requests, one_of(server(Policy(), 1000, fixed(MS))))
    assert served.arrival.tolist() == [0, served.finish[0] + 3 * MS]
    assert served.cached is not None
    assert served.cached.tolist() == [0, (100 + 60 - 1) // 16 * 16]


def test_others_evict_what_was_used_longest_ago() -> None:
    """60 blocks: two prefixes of 25 blocks fit; a third one evicts the first from its end, up to 9 blocks."""
    prefixes = [[(1, 400)], [(2, 400)], [(3, 400)], [(2, 400)], [(1, 400)]]
    served = answer(stream([401] * 5, [1] * 5, 5 * MS, prefixes), one_of(server(Policy(), 60, fixed(MS))))
    assert served.cached is not None
    assert served.cached.tolist() == [0, 0, 0, 400, 9 * 16]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 30), st.integers(1, 200), st.integers(1, 90)), min_size=1,
                max_size=12), st.integers(24, 40), st.sampled_from(["chunked", "prefill_first"]))
def test_sequences_with_windows_share_the_blocks_of_layers_that_see_all(
        rows: list[tuple[int, int, int, int]], blocks: int, schedule: str) -> None:
    """Half of a block's bytes are of layers with a window of three blocks. Nobody holds anything in the end."""
    held = CacheBlocks(blocks, 16, windows=((4, 0.5),))
    one = server(Policy(schedule=schedule, max_tokens=400), blocks, fixed(MS))
    one.scheduler.cache.held = one.scheduler.batch.held = held
    cut = [[(group, 16 * (prompt // 20))] for group, _, prompt, _ in rows]
    served = answer(stream([row[2] for row in rows], [row[3] for row in rows], rows[0][1] * MS // 4, cut), one_of(one))
    cache = one.scheduler.cache
    assert (served.finish >= served.first).all()
    assert cache.free == cache.total
    assert cache.idle == sum((node.start + node.length) // 2 - node.start // 2 for node in cache.left.values())
    assert not one.scheduler.batch.needs[one.scheduler.batch.clock - one.scheduler.batch.base:].any()


def test_a_shared_prefix_of_a_model_with_windows_is_computed_once() -> None:
    """Of 50 blocks of a prefix 25 are shared; either request has its own window of 4 blocks' halves beside."""
    one = server(Policy(max_tokens=4000), 100, fixed(MS))
    one.scheduler.cache.held = one.scheduler.batch.held = CacheBlocks(100, 16, windows=((4, 0.5),))
    served = answer(stream([801, 801], [1, 1], 5 * MS, [[(7, 800)]] * 2), one_of(one))
    assert served.cached is not None
    assert served.cached.tolist() == [0, 800]
    assert one.scheduler.cache.idle == 25


def tiered(capacity: int, blocks: int = 60) -> Fleet:
    one = server(Policy(max_tokens=4000), blocks, lambda step: MS * (1 + sum(part[0] for part in step.prompts)))
    one.scheduler.cache.stores = (Store(capacity, per_block=MS // 10, latency=MS // 2),)
    return one_of(one)


def test_a_tier_gives_back_what_was_evicted() -> None:
    """16 of 25 blocks at 0.1 ms and 0.5 ms, and a step of one token, in place of one of 401 - 9 * 16."""
    requests = stream([401] * 4, [1] * 4, 2000 * MS, [[(key, 400)] for key in (1, 2, 3, 1)])
    served = answer(requests, tiered(1000))
    assert served.cached is not None
    assert served.cached.tolist() == [0, 0, 0, 400]
    assert int(served.ttft[3]) == MS // 2 + 16 * MS // 10 + 2 * MS
    assert answer(requests, tiered(30)).ttft.tolist()[3] == (402 - 9 * 16) * MS


def test_swapped_sequences_go_on_where_they_were() -> None:
    """As recomputation (4 blocks of 4 tokens, two requests of 4 + 9), but the cache of 8 tokens moves out and back."""
    host = Tier(capacity="1 GB", bandwidth="1 GB/s")
    one = server(Policy(block=4, max_tokens=100, preemption="swap", tiers=[host]), 4, fixed(MS))
    one.scheduler.swap = MS
    served = answer(stream([4, 4], [9, 9], 0), one_of(one))
    assert served.preemptions == 1
    assert served.finish.tolist() == [9 * MS + 2 * MS, 11 * MS + 3 * MS + 4 * MS]
    assert_empty(one, 4)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 60), st.integers(1, 30), st.integers(0, 3)), min_size=1,
                max_size=12), st.integers(8, 20), st.booleans(), st.sampled_from(["chunked", "prefill_first"]))
def test_jumps_and_single_steps_agree_with_prefixes_and_tiers(rows: list[tuple[int, int, int, int]], blocks: int,
                                                              tier: bool, schedule: str) -> None:
    rows = sorted(rows)
    requests = Requests(np.array([row[0] * MS for row in rows]), np.array([40 + row[1] for row in rows]),
                        np.array([row[2] for row in rows]),
                        prefixes=Prefixes(np.arange(len(rows) + 1), np.array([row[3] for row in rows]),
                                          np.full(len(rows), 40)))
    found = []
    for single in (False, True):
        one = server(Policy(max_batch=4, max_tokens=200, schedule=schedule), blocks, fixed(MS))
        if tier:
            one.scheduler.cache.stores = (Store(9, per_block=MS / 3, latency=MS // 2),)
        found.append(answer(requests, one_of(one), single=single))
        assert_empty(one, blocks)
    assert found[0].finish.tolist() == found[1].finish.tolist()
    assert found[0].cached.tolist() == found[1].cached.tolist()      # type: ignore[union-attr]


def test_priorities_come_first_and_give_way_last() -> None:
    requests = Requests(np.array([0, 1, 2]) * MS, np.full(3, 4), np.array([9, 9, 9]), priority=np.array([1, 2, 0]))
    policy = Policy(block=4, max_batch=1, max_tokens=100, priorities=True)
    served = answer(requests, one_of(server(policy, 100, fixed(MS))))
    assert served.finish.tolist() == [9 * MS, 27 * MS, 18 * MS]
    both = Requests(np.zeros(2, np.int64), np.full(2, 4), np.full(2, 9), priority=np.array([1, 0]))
    tight = answer(both, one_of(server(Policy(block=4, max_tokens=100, priorities=True), 4, fixed(MS))))
    assert tight.preempted.tolist() == [1, 0]


@pytest.mark.parametrize(("routing", "cached"), [("round_robin", [0, 0, 0, 0]), ("fewest", [0, 400, 0, 400]),
                                                ("prefix", [0, 400, 0, 400]), ("cache_aware", [0, 400, 0, 400])])
def test_requests_go_where_their_prefix_is(routing: str, cached: list[int]) -> None:
    """Two servers and two prefixes, each asked for twice."""
    servers = [server(Policy(routing=routing), 60, fixed(MS)) for _ in range(2)]
    served = answer(stream([401] * 4, [1] * 4, 5 * MS, [[(key, 400)] for key in (1, 1, 2, 2)]), one_of(*servers))
    assert served.cached is not None
    assert served.cached.tolist() == cached


def test_a_prompt_that_is_computed_counts_besides_its_blocks() -> None:
    """Server 0 decodes 600 tokens (38 blocks in use), server 1 computes a prompt of 500 (32 in use, 32 to compute): the
    last request goes to the first of them and gets its token in the next step."""
    servers = [server(Policy(routing="prefix", max_tokens=100), 200, fixed(MS)) for _ in range(2)]
    three = Requests(np.array([0, 5, 7]) * MS, np.array([600, 500, 16]), np.array([99, 9, 1]))
    served = answer(three, one_of(*servers))
    assert (served.finish - served.arrival).tolist()[2] == MS


@pytest.mark.parametrize(("reserve", "preemptions"), [(0.0, 1), (1.0, 0)])
def test_what_is_reserved_for_answers_is_never_missing(reserve: float, preemptions: int) -> None:
    """TensorRT-LLM's GUARANTEED_NO_EVICT and MAX_UTILIZATION."""
    served = answer(stream([4, 4], [9, 9], 0), one_of(server(Policy(block=4, max_tokens=100, reserve=reserve), 4,
                                                            fixed(MS))))
    assert served.preemptions == preemptions
