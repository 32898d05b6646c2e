"""What all views share: the page around them, tables, the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from urllib.parse import quote, urlencode

__all__ = ["command_line", "link", "problem", "rows", "shell", "static"]

NAV = (("/", "Start"), ("/files", "Files"), ("/jobs", "Jobs"), ("/compare", "Compare"))


def static(name: str) -> bytes:
    """A file of `static/`."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(here, "static", name), "rb") as stream:
        return stream.read()


def link(view: str, name: str, sets: Mapping[str, str] | None = None) -> str:
    """The address of a view of a file or job."""
    query = urlencode([("set", f"{path}={value}") for path, value in (sets or {}).items()])
    return f"/{view}/{quote(name)}" + (f"?{query}" if query else "")


def shell(title: str, main: str, token: str, read_only: bool, at: str) -> str:
    """The whole page around a view; `at`: the link of the navigation that it belongs to."""
    links = "".join(f'<a href="{path}"{" aria-current=page" if path == at else ""}>{name}</a>' for path, name in NAV)
    only = '<span class="badge">read-only</span>' if read_only else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} · Astrarium</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/workbench.css"><script src="/static/workbench.js" defer></script></head>
<body data-token="{escape(token)}"{" data-read-only" if read_only else ""}>
<a class="skip" href="#main">Skip to the content</a>
<header><strong>Astrarium</strong><nav aria-label="Views">{links}</nav>{only}
<button type="button" id="theme" aria-label="Light or dark" title="Light or dark">◐</button></header>
<main id="main"><h1>{escape(title)}</h1>{main}</main></body></html>
"""


def problem(name: str, text: str) -> str:
    """A refusal in place of a view."""
    return (f'<p class="problem" role="alert">{escape(text)}</p>'
            + (f'<p><a href="/raw/{quote(name)}">Download {escape(name)}</a></p>' if name else "")
            + '<p><a href="/">Back to the start</a></p>')


def command_line(text: str, hidden: bool = False) -> str:
    """The command that gives the same, with a button that copies it."""
    return (f'<div class="command"{" hidden" if hidden else ""}>'
            f'<span class="label">The same on the command line, in the folder</span>'
            f'<code id="command">{escape(text)}</code><button type="button" data-copy="command">Copy</button></div>')


def rows(head: Sequence[str], cells: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table of cells of HTML; `right`: columns of numbers."""
    def line(values: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag}{" class=r" if place in right else ""}>{value}</{tag[:2]}>'
                                for place, value in enumerate(values)) + "</tr>"

    body = "".join(line(each, "td") for each in cells)
    return f'<div class="wide"><table><thead>{line(head, "th scope=col")}</thead><tbody>{body}</tbody></table></div>'
