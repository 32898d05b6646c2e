"""What the words of a page mean: on the heads of columns, and in a folded list at its end."""

from __future__ import annotations

import html
import re

from astrarium.vocab import TERMS

__all__ = ["abbreviated", "breakable", "words_section"]

SPELT = {"micro-batch": ("mb", "micro_batch"), "exposed communication": ("exposed comm", "exposed_comm")}
"""Term -> how tables write it, beside the term itself."""
ALWAYS = ("npu",)       # of every page
SHORT = frozenset(("algbw", "bubble", "busbw", "cp", "dp", "ep", "extrapolated", "itl", "makespan", "mfu", "pp",
                   "rank", "sp", "tp", "tpot", "ttft", "unvalidated", "zero", *SPELT))
"""Terms that a page explains, if it has them."""
MEANS = {spelt: TERMS[term] for term in SHORT for spelt in (term, *SPELT.get(term, ()))}
_WORDS = re.compile(r"(?<![\w.-])(?:" + "|".join(sorted(map(re.escape, MEANS), key=len, reverse=True)) + r")(?![\w-])",
                    re.IGNORECASE)
_LONG, _JOINT = re.compile(r"\S{16,}"), re.compile(r"([._])(?=\w)")
_MARKUP = re.compile(r"<script.*?</script>|<style.*?</style>|<[^>]*>", re.DOTALL)


def breakable(text: str) -> str:
    """Text as HTML in which a long word, such as a path, may be broken after a dot or an underscore."""
    return _LONG.sub(lambda word: _JOINT.sub(r"\1<wbr>", word[0]), html.escape(text))


def abbreviated(head: str) -> str:
    """The head of a column as HTML: a word of which it begins or consists shows its meaning when it is pointed at."""
    found = _WORDS.search(head)
    if found is None:
        return breakable(head)
    meaning = html.escape(MEANS[found[0].lower()])
    return (f'{breakable(head[:found.start()])}<abbr title="{meaning}">{html.escape(found[0])}</abbr>'
            f"{breakable(head[found.end():])}")


def words_section(text: str) -> str:
    """A folded list of the words that the HTML `text` has."""
    of = {spelt: term for term in SHORT for spelt in (term, *SPELT.get(term, ()))}
    found: dict[str, dict[str, None]] = {term: {term: None} for term in ALWAYS}
    for word in dict.fromkeys(_WORDS.findall(_MARKUP.sub(" ", text))):
        term = of[word.lower()]
        found.setdefault(term, {})[word] = None
    rows = "".join(f"<div><dt>{html.escape(_spelt(term, said))}</dt><dd>{html.escape(TERMS[term])}</dd></div>"
                   for term, said in sorted(found.items()))
    return f'<details class="words"><summary>Words on this page</summary><dl>{rows}</dl></details>'


def _spelt(term: str, said: dict[str, None]) -> str:
    """The term as the page writes it, then the term itself if that is another word."""
    return ", ".join(said if any(word.lower() == term for word in said) else [*said, term])
