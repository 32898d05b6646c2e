"""Views of files: the list of the folder, and a file that is not a design (trace, study, log, launch script)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from astrarium.service.folder import Held
from astrarium.service.web.views.shell import command_line, rows
from astrarium.units import format_bytes

__all__ = ["file", "file_list", "files_table"]

KINDS: Mapping[str, str] = MappingProxyType({
    "model": "The config.json of a model.", "launch": "The launch arguments of a job that runs today.",
    "engine": "The launch of an engine that serves today.",
    "space": "A space of designs.", "serving": "A serving file.", "study": "A study: the trials of a search.",
    "trace": "A trace.", "log": "A log of measured collectives (nccl-tests).",
    "rows": "Measured rows: steps, collectives, kernels.", "requests": "A log of an engine's requests.",
    "fabric": "A fabric."})

SAID = ' <span class="said" role="status"></span></form>'
FILES = '<input type="hidden" name="files[]" value="NAME">'
ENGINE = '<label>Its serving file<input name="serving" placeholder="chat.yaml" required></label>'
DEVICE = '<label>Device<input name="device" value="h100_sxm" required></label>'
FORMS: Mapping[str, str] = MappingProxyType({
    "model": '<form class="panel changes" data-job="plan"><input type="hidden" name="model" value="NAME">'
             f'<div class="fields">{DEVICE}<label>How many<input name="gpus" type="number" min="1" value="64"></label>'
             f'</div><button class="first">Plan its training</button>{SAID}',
    "launch": '<form class="panel changes" data-job="plan"><input type="hidden" name="today" value="NAME">'
              f'<div class="fields">{DEVICE}<label>How many<input name="gpus" type="number" min="1" '
              'placeholder="as the file says"></label></div>'
              f'<button class="first">Plan: what would be faster?</button>{SAID}',
    "engine": '<form class="panel changes" data-job="plan"><input type="hidden" name="today" value="NAME">'
              f'<input type="hidden" name="purpose" value="serving"><div class="fields">{DEVICE}'
              '<label>Tokens of a prompt<input name="prompt" type="number" min="1" value="2000"></label>'
              '<label>Tokens of an answer<input name="output" type="number" min="1" value="500"></label>'
              '<label>TTFT at most (p99)<input name="ttft" value="2 s"></label>'
              '<label>TPOT at most (p99)<input name="tpot" value="50 ms"></label>'
              '<label>Requests per second<input name="rate" inputmode="decimal" placeholder="most on its GPUs"></label>'
              f'</div><button class="first">Plan: which engine serves better?</button>{SAID}',
    "space": '<form class="panel changes" data-job="search"><input type="hidden" name="space" value="NAME">'
             '<div class="fields"><label>Trials<input name="trials" type="number" min="1" value="100"></label></div>'
             f'<button class="first">Search</button>{SAID}',
    "serving": '<p><a class="button" href="/design/NAME">Turn its knobs</a></p>'
               '<form class="panel changes" data-job="serve"><input type="hidden" name="serving" value="NAME">'
               '<div class="fields"><label>Requests per second<input name="changes:requests.rate" inputmode="decimal" '
               f'placeholder="the file\'s"></label></div><button class="first">Serve</button>{SAID}',
    "rows": f'<form class="panel changes" data-job="validate">{FILES}'
            '<p>Predict what was measured: errors by source, and a plot of predicted against measured values.</p>'
            '<div class="fields"><label>Software<input name="stack" placeholder="the rows\' own"></label></div>'
            f'<button class="first">Compare with predictions</button>{SAID}'
            f'<form class="panel changes" data-job="calibrate">{FILES}<p>If the rows are timings of kernels, they can '
            'correct the model of a device.</p><div class="fields"><label>Device<input name="base" value="h100_sxm" '
            f'required></label></div><button class="first">Calibrate the device</button>{SAID}',
    "requests": f'<form class="panel changes" data-job="validate">{FILES}<div class="fields">{ENGINE}</div>'
                f'<button class="first">Compare with predictions</button>{SAID}'
                f'<form class="panel changes" data-job="calibrate">{FILES}<div class="fields">{ENGINE}</div>'
                f'<button class="first">Calibrate the engine</button>{SAID}',
    "log": f'<form class="panel changes" data-job="calibrate">{FILES}<div class="fields">'
           '<label>Name of the fabric<input name="fabric" value="mine" required></label>'
           '<label>Link bandwidth of an NPU<input name="link_bandwidth" value="450 GB/s" required></label>'
           '<label>Fabric inside hosts<input name="inside" placeholder="of logs of several hosts"></label></div>'
           f'<button class="first">Calibrate a fabric</button>{SAID}'})
"""Kind of a file -> the form that starts a job with it."""


def files_table(files: Sequence[Held]) -> str:
    """Files with their sizes."""
    return rows(("file", "size"), ((f'<a href="/file/{quote(each.name)}">{escape(each.name)}</a>',
                                    escape(format_bytes(float(each.bytes)))) for each in files), right=(1,))


def file_list(files: Sequence[Held], folder: str) -> str:
    """All files."""
    return f"<p>In {escape(folder)}</p>" + (files_table(files) if files else "<p>No file yet.</p>")


def file(name: str, found: Mapping[str, Any]) -> str:
    """What the file is, what can be done with it, and what is in it."""
    kind = str(found["kind"])
    wrong = f'<p class="problem">{escape(str(found["problem"]))}</p>' if "problem" in found else ""
    said = command_line(str(found["command"])) if found.get("command") else ""
    said_kind = KINDS.get(kind, "" if wrong else "A file of no known kind.")
    return (f'<p>{escape(said_kind)} <a href="/raw/{quote(name)}">Download it</a></p>'
            f'{FORMS.get(kind, "").replace("NAME", escape(name))}{wrong}{said}{found.get("html", "")}')
