"""The first page: three choices, or a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from astrarium.service.folder import Held
from astrarium.service.web.jobs import Job
from astrarium.service.web.views.files import files_table
from astrarium.service.web.views.jobs import jobs_table
from astrarium.vocab import MOST_PLANNED

__all__ = ["start"]

USUAL = "h100_sxm"


def start(choices: Mapping[str, Any], files: Sequence[Held], jobs: Sequence[Job]) -> str:
    """The choices; then jobs and files that are there."""
    recent = f"<h2>Recent jobs</h2>{jobs_table(jobs)}" if jobs else ""
    listed = f'<h2>Files</h2>{files_table(files)}<p><a href="/files">All files</a></p>' if files else ""
    return _plan(choices) + DROP + recent + listed


def _plan(choices: Mapping[str, Any]) -> str:
    models = "".join(f'<option value="{escape(name)}">{escape(title)}</option>'
                     for name, title in choices.get("models", ()))
    devices = "".join(f'<option value="{escape(name)}"{" selected" if name == USUAL else ""}>{escape(title)}</option>'
                      for name, title, _ in choices.get("devices", ()))
    return f"""<form class="panel start changes" id="plan" data-job="plan">
<h2>Plan a model on devices</h2>
<div class="fields">
<label>Model<input name="model" list="models" value="llama3-70b" required autocomplete="off" spellcheck="false">
<small>a name, or a config.json of the folder</small></label>
<datalist id="models">{models}</datalist>
<label>Device<select name="device">{devices}</select></label>
<label>How many<input name="gpus" type="number" min="1" max="{MOST_PLANNED}" value="64" required></label>
</div>
{FOR}
<button class="first">Plan</button> <span class="said" role="status"></span>
</form>"""


FOR = """<fieldset><legend>For</legend>
<label class="in"><input type="radio" name="purpose" value="training" checked> training: the fastest layouts</label>
<label class="in"><input type="radio" name="purpose" value="serving"> serving: the most requests</label></fieldset>
<div class="fields" data-when="serving" hidden>
<label>Prompt, tokens<input name="prompt" type="number" min="1" value="1000"></label>
<label>Answer, tokens<input name="output" type="number" min="1" value="200"></label>
<label>TTFT at most (p99)<input name="ttft" value="2s"></label>
<label>TPOT at most (p99)<input name="tpot" value="50ms"></label></div>
<details data-when="training"><summary>More choices</summary><div class="fields">
<label>Tokens of a sample<input name="seq" type="number" min="1" placeholder="the model's"></label>
<label>Samples of a step<input name="global_batch" type="number" min="1" placeholder="4 Mi tokens"></label>
<label>Best by<select name="objective"><option value="time">time of a step</option><option value="cost">money</option>
<option value="energy">energy</option><option value="carbon">CO2</option></select></label></div></details>"""

DROP = """<div class="panel drop changes" id="drop">
<label for="dropped"><strong>Or drop a file here</strong>: a design or serving file (.yaml), a Hugging Face config.json,
a launch script (.sh), a trace, a study, measured rows (.csv), a log. It is stored in the folder.</label>
<input type="file" id="dropped"><span class="said" role="status"></span></div>"""
