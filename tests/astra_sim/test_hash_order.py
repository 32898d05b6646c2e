"""The order of a hash set, in Python and in the core's header, against libstdc++'s own std::unordered_set."""

from __future__ import annotations

import random
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from astrarium.astra_sim.hash_order import BUCKETS, hash_order, ids_in_order

PROGRAM = """
#include <iostream>
#include <unordered_set>
#include "hash_order.hpp"

int main() {
#ifndef __GLIBCXX__
    return 7;
#else
    std::size_t rounds = 0;
    std::cin >> rounds;
    std::unordered_set<std::uint64_t> set;
    std::uint32_t grown = 0;
    for (std::size_t count = 0; rounds > 0 && std::cin >> count; --rounds) {
        std::vector<std::uint64_t> ids(count);
        std::vector<std::uint32_t> inserted(count);
        for (std::size_t i = 0; i < count; ++i) {
            std::cin >> ids[i];
            inserted[i] = static_cast<std::uint32_t>(i);
            set.insert(ids[i]);
        }
        for (const std::uint64_t id : std::unordered_set<std::uint64_t>(set)) std::cout << id << ' ';
        std::cout << '\\n';
        for (const std::uint32_t i : astrarium::hash_order(inserted, ids.data(), grown)) std::cout << ids[i] << ' ';
        std::cout << '\\n';
        for (const std::uint64_t id : std::unordered_set<std::uint64_t>(set)) set.erase(id);
    }
    return 0;
#endif
}
"""


def _rounds() -> list[list[int]]:
    """Distinct ids per round, of all sizes around the bucket counts, dense, sparse and up to 64 bits."""
    drawn = random.Random(5)
    sizes = [0, 1, 2, 12, 13, 14, 5, 28, 29, 30, 13, 58, 59, 60, 200, 3, 600, 1500, 40]
    found = []
    for size in sizes * 2:
        most = drawn.choice([max(size, 1), 4 * size + 10, 10**6, 2**64])
        found.append(drawn.sample(range(most), size) if most < 2**63 else [drawn.getrandbits(64) for _ in range(size)])
    return found


def test_the_order_is_that_of_libstdcxx(root: Path, tmp_path: Path) -> None:
    """A set that is filled and emptied again and again: its buckets stay as many as they have become."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    (tmp_path / "order.cpp").write_text(PROGRAM)
    header = root / "native" / "engine" / "astra"
    subprocess.run([compiler, "-std=c++20", f"-I{header}", "order.cpp", "-o", "order"], cwd=tmp_path, check=True,
                   capture_output=True)
    rounds = _rounds()
    text = f"{len(rounds)}\n" + "\n".join(f"{len(ids)} {' '.join(map(str, ids))}" for ids in rounds)
    done = subprocess.run([str(tmp_path / "order")], input=text, capture_output=True, text=True,
                          check=False)
    if done.returncode == 7:
        pytest.skip("the C++ compiler's library is not libstdc++")
    answers = [[int(word) for word in line.split()] for line in done.stdout.split("\n")[:-1]]
    assert len(answers) == 2 * len(rounds)
    grown = 0
    for ids, of_set, of_core in zip(rounds, answers[::2], answers[1::2], strict=True):
        order, grown = hash_order(range(len(ids)), ids, grown)
        assert of_core == of_set
        assert [ids[i] for i in order] == of_set


def test_small_sets_by_hand() -> None:
    """13 buckets: a new bucket comes first, a new id is the first of its bucket."""
    assert ids_in_order([0, 1, 2]) == [2, 1, 0]
    assert ids_in_order([0, 1, 13]) == [1, 13, 0]
    assert ids_in_order([]) == []
    assert hash_order(range(14), list(range(14)))[1] == 1


def test_bucket_counts_are_primes_that_double() -> None:
    """Each at least twice the one before and prime."""
    assert all(after >= 2 * before for before, after in pairwise(BUCKETS))
    assert all(count % factor for count in BUCKETS[:15] for factor in range(2, int(count**0.5) + 1))


def test_both_tables_are_one(root: Path) -> None:
    """The header's bucket counts are those of the Python engine."""
    text = (root / "native" / "engine" / "astra" / "hash_order.hpp").read_text(encoding="utf-8")
    inside = text[text.index("hash_buckets[] = {") + len("hash_buckets[] = {"):]
    assert tuple(int(word) for word in inside[:inside.index("}")].split(",")) == BUCKETS
