"""A design with its knobs, and two designs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from astrarium.service.web.views.shell import command_line

__all__ = ["compare", "design"]

WAITS = ('<p class="said" id="said" role="status"></p>'
         '<button type="button" id="stop" hidden>Stop this answer</button>')
AGENTS = ("bayesian", "genetic", "tpe", "annealing", "random", "grid")


def design(name: str, found: Mapping[str, Any]) -> str:
    """Knobs beside the answer, which the script asks for."""
    beside = f"/compare?a={quote(name)}&amp;b={quote(name)}"
    return f"""<p class="what">{escape(str(found["what"]))} · {escape(name)} ·
<a href="/raw/{quote(name)}">download</a></p>
<div class="bench" id="bench" data-design="{escape(name)}">
<form class="panel knob-panel" id="knobs" aria-label="Knobs">
<div class="find"><label for="find">Find one of {found["count"]} knobs</label>
<input id="find" type="search" autocomplete="off" placeholder="bandwidth, overlap, zero ..."></div>
{found["html"]}
<p><button type="button" id="reset" hidden>As it was</button></p></form>
<div class="answer-panel"><p class="problem" id="refused" role="alert"></p>
<section id="answer" aria-label="Answer" aria-live="polite"><p class="said">computes ...</p></section>
{WAITS}{command_line("", hidden=True)}
<p class="buttons"><a class="button" id="compare" href="{beside}">Compare with
the design as it is</a> <button type="button" class="changes" id="save">Save as a design</button>
<button type="button" class="changes" id="search"{" hidden" if found["serving"] else ""}>Search around
it</button></p>
{_saving(name)}{_searching(name, found["capacity"])}
<details id="all"><summary>All tables and pictures of this run</summary><div id="details"></div></details>
</div></div>"""


def _saving(name: str) -> str:
    stem = name.rpartition("/")[2].rpartition(".")[0]
    return f"""<form class="panel changes" id="saving" hidden><label>Name of the new file
<input name="name" value="{escape(stem)}-changed.yaml" required maxlength="120"></label>
<button class="first">Save</button> <span class="said" role="status"></span></form>"""


def _searching(name: str, capacity: bool) -> str:
    """The form of a search; designs must fit if the design has a memory capacity, unless one asks otherwise."""
    fits = "peak_memory <= memory.capacity" if capacity else ""
    agents = "".join(f"<option>{each}</option>" for each in AGENTS)
    return f"""<form class="panel changes" id="searching" data-design="{escape(name)}" hidden>
<h2>Search around this design</h2>
<p>Knobs with the values to try, separated by commas; the data-parallel axis follows the others.</p>
<div id="choices"></div>
<p><button type="button" id="add-choice">Add a knob</button></p><div class="fields">
<label>Minimize<input name="minimize[]" value="makespan"></label>
<label>Require<input name="require" value="{fits}" placeholder="such as makespan <= 20 s" autocomplete="off"
spellcheck="false"></label>
<label>Trials<input name="trials" type="number" min="1" max="100000" value="50"></label>
<label>Agent<select name="agent">{agents}</select></label></div>
<button class="first">Search</button> <span class="said" role="status"></span></form>"""


def compare(a: str, b: str, sets: Mapping[str, str], others: Mapping[str, str], names: Sequence[str]) -> str:
    """A choice of two designs, and the answer, which the script asks for."""
    files = "".join(f'<option value="{escape(each)}">' for each in names if each.endswith((".yaml", ".yml")))
    fields = "".join(f'<label>Change of {side}<input name="{name}" value="{escape(f"{path}={value}")}"></label>'
                     for side, name, changes in (("A", "set", sets), ("B", "with", others))
                     for path, value in changes.items())
    return f"""<form class="panel" method="get" action="/compare" id="comparing"{" data-ready" if a and b else ""}>
<div class="fields"><label>A<input name="a" list="designs" value="{escape(a)}" required></label>
<label>B<input name="b" list="designs" value="{escape(b)}" required></label>{fields}
<datalist id="designs">{files}</datalist></div><button class="first">Compare</button></form>
{WAITS}{command_line("", hidden=True)}<div id="compared"></div>"""
