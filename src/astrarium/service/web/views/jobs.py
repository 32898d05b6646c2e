"""Jobs: a list, and one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from astrarium.service.web.jobs import Job
from astrarium.service.web.views.shell import command_line, rows

__all__ = ["job", "job_list", "jobs_table"]

BUTTONS = (("pause", "running", "Pause"), ("resume", "paused", "Go on"), ("resume", "stopped failed", "Start again"),
           ("stop", "running paused", "Stop"))
"""(action, states in which it is offered, words)."""


def jobs_table(jobs: Sequence[Job]) -> str:
    """Jobs with their state."""
    return rows(("job", "state", "how far"), (
        (f'<a href="/job/{each.id}">{escape(f"{each.verb} {each.title}")}</a>', _state(each.state),
         escape(str(each.progress.get("text", "")))) for each in jobs))


def job_list(jobs: Sequence[Job]) -> str:
    """All jobs."""
    return jobs_table(jobs) if jobs else "<p>No job yet: plan or search something.</p>"


def job(job: Job, result: Mapping[str, Any], page: bool) -> str:
    """A job: its state with buttons, and what it found; `page`: whether there is one as `--html` writes it."""
    live = job.state in ("running", "paused")
    share = job.progress.get("share")
    now = str(job.progress.get("text", "")) if live or job.state == "stopped" else \
        f'took {result["seconds"]:,.1f} s' if "seconds" in result else ""
    whole = f'<p><a href="/page/{job.id}">The whole page</a>, as <code>--html</code> writes it</p>' if page else ""
    found = f'<p class="problem" role="alert">{escape(result["error"])}</p>' if "error" in result else \
        str(result.get("html", ""))
    begun = job.progress.get("begun") if live else None
    since = "" if begun is None else f' data-seconds="{max(0.0, time.time() - float(begun)):.1f}"'
    value = "" if share is None else f" value={float(share):.4f}"
    return f"""<div class="panel" id="job" data-job-id="{job.id}" data-state="{job.state}">
<p>{_state(job.state, "state")} <span id="text" role="status">{escape(now)}</span>
<span id="elapsed"{since}></span></p>
<div id="bar"{"" if live else " hidden"}><progress max="1"{value} aria-label="progress"></progress></div>
<div class="changes buttons">{_buttons(job)}</div>
<div id="picture">{job.progress.get("html", "") if live or job.state == "stopped" else ""}</div></div>
{command_line(job.command)}{whole}<div id="found">{found}</div>"""


def _state(state: str, name: str = "") -> str:
    return f'<span class="state {state}"{f" id={name}" if name else ""}>{state}</span>'


def _buttons(job: Job) -> str:
    again = "Go on from the stored trials" if job.verb == "search" else "Start again"
    return "".join(f'<button type="button" data-action="{action}" data-of="{states}"'
                   f'{"" if job.state in states.split() else " hidden"}>'
                   f'{again if words == "Start again" else words}</button>' for action, states, words in BUTTONS)
