"""The workbench's HTML. Text is escaped; styles and the script are files of `static/`."""

from __future__ import annotations

from astrarium.service.web.views.bench import compare, design
from astrarium.service.web.views.files import file, file_list
from astrarium.service.web.views.jobs import job, job_list
from astrarium.service.web.views.shell import link, problem, shell, static
from astrarium.service.web.views.start import start

__all__ = ["compare", "design", "file", "file_list", "job", "job_list", "link", "problem", "shell", "start", "static"]
