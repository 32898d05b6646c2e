"""The scripts of pages: their own, and Vega with the specifications of the plots, packed."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re

from astrarium.report.pages.bundle import vega_bundle
from astrarium.report.plot.vega import vega_config

__all__ = ["script_json", "shell", "with_vega"]

_SPEC = re.compile(r'<script type="application/json">(.*?)</script>')


def shell(name: str) -> str:
    """The text of `shell.css`, `shell.js` or `interactive.js`."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as stream:
        return stream.read()


def with_vega(text: str) -> tuple[str, str]:
    """The text of a page without the specifications of its plots, and a script that has these and Vega, packed; none
    without the extra `pages`, which holds Vega."""
    specs = _SPEC.findall(text)
    text = _SPEC.sub("", text)
    try:
        bundle = vega_bundle()
    except ImportError:
        return text, ""
    plain = (f'{{"vega":{script_json(bundle)},"light":{script_json(vega_config())},'
             f'"dark":{script_json(vega_config(dark=True))},"plots":[{",".join(specs)}]}}')
    packed = base64.b64encode(gzip.compress(plain.encode(), mtime=0)).decode()
    return text, f'<script type="text/plain" id="plots">{packed}</script><script>{shell("interactive.js")}</script>'


def script_json(plain: object) -> str:
    """JSON in which no text looks like a tag."""
    return json.dumps(plain, separators=(",", ":")).replace("<", "\\u003c")
