"""Files that people give to the wrong verb or key: what they are, and what takes them."""

from __future__ import annotations

import re

from astrarium.errors import short_name

__all__ = ["MATRIX", "other_file"]

_BEGIN = r"\A\ufeff?(?:\s*#[^\n]*\n|\s)*"
MATRIX = "a connection matrix of htsim (messages)"
HTSIM = ("a topology of htsim", "`network: {{fabric: {{file: {0}}}}}` in a design, or `astrarium show {0}`")
KINDS = (
    (_BEGIN + r"nodes\s+\d+\s+connections\s+\d+", MATRIX,
     "a workload of the same messages: `workload: {{source: micro, pattern: all_to_all, payload: 2 MB, npus: N}}`, "
     "whose patterns are all_to_all, incast, outcast, ring and pairs"),
    (_BEGIN + r"(?:nodes|tiers|podsize)\s+\d+\s+(?:nodes|tiers|podsize)\s+\d+", *HTSIM),
    (_BEGIN + r"<algo\b", "an algorithm of MSCCL", "`collective: {{custom: {{OPERATION: {0}}}}}` in a design"),
    (_BEGIN + r"<(?:system|topology)\b", "a host's topology of NCCL or lstopo",
     "`network: {{fabric: {{file: {0}}}}}` in a design, or `astrarium show {0}`"),
    (r'\A\s*\{[\s\S]*"architectures"\s*:', "a model's config.json of Hugging Face", "`astrarium plan {0} --gpus N`"),
    (r"\A#!.*\bsh\b|^\s*(?:srun\b.*\s)?(?:torchrun|python3?) .*\.py\b|Running with (?:configs|args): \{",
     "a launch script or log", "`astrarium plan --from {0}`"),
    (_BEGIN + r"(?:[\w-]+:.*\n(?:[ \t#-].*\n|\n)*)*?(?:workload|network)\s*:", "a design", "`astrarium run {0}`"))
"""(pattern of its beginning, what it is, what takes it)"""


def other_file(head: str, path: str) -> tuple[str, str] | None:
    """(what a file is, what to write instead) from its beginning; None for a file that is none of them."""
    for mark, what, instead in KINDS:
        if re.search(mark, head[:1 << 14], re.IGNORECASE | re.MULTILINE):
            return what, instead.format(short_name(path))
    return None
