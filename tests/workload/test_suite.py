"""The benchmark suite: every benchmark generates, is what its card says, and keeps its content within a version."""

from __future__ import annotations

import pytest

from astrarium.errors import InputError
from astrarium.workload.suite import card_of, suite_entry, suite_names


def test_kinds_and_sizes_are_covered() -> None:
    cards = [card_of(suite_entry(name)) for name in suite_names()]
    ranks = {card.ranks for card in cards}
    assert (min(ranks), max(ranks)) == (8, 32768)
    for word in ("dense-train", "dense-infer", "moe-train", "moe-infer", "dlrm-train", "vit-train"):
        assert any(card.name.startswith(word) for card in cards)
    assert all(card.source and card.flops > 0 and card.collective_bytes > 0 for card in cards)


@pytest.mark.parametrize("name", suite_names())
def test_a_benchmark_keeps_its_content(name: str) -> None:
    """Where this fails after a change of a generator that is meant: new checksums, and a higher `version`."""
    entry = suite_entry(name)
    card = card_of(entry)
    assert card.checksum == entry.checksum
    assert card.name.rsplit("-", 1)[1] == str(card.ranks)


def test_work_is_what_the_model_needs() -> None:
    """6 flop per parameter and token (Kaplan et al., arXiv 2001.08361), and attention on top."""
    card = card_of(suite_entry("dense-train-8"))
    assert card.flops == pytest.approx(6 * 8.03e9 * 8 * 8192, rel=0.35)
    assert card.flops > 6 * 7.5e9 * 8 * 8192


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'vit-train-8'"):
        suite_entry("vit-train-9")
