"""Vega's scripts, as vl-convert bundles them: seconds of work, so the user's cache folder keeps what a version made."""

from __future__ import annotations

import hashlib
import os
from importlib import import_module

from astrarium.config.whole import write_whole
from astrarium.errors import InputError

__all__ = ["vega_bundle"]


def vega_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script. ImportError without vl-convert.

    It is kept as `astrarium/vega-VERSION.js` in $XDG_CACHE_HOME (~/.cache), after a line with its SHA-256; where that
    file cannot be read, or is not what was written, it is made again.
    """
    converter = import_module("vl_convert")
    folder = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "astrarium")
    path = os.path.join(folder, f"vega-{converter.__version__}.js")
    try:
        with open(path, "rb") as stream:
            digest, _, kept = stream.read().partition(b"\n")
        if digest == _digest(kept):
            return kept.decode()
    except (OSError, InputError):       # InputError: a worker of the service, which reads its folder alone
        pass
    made: str = converter.javascript_bundle()
    try:
        os.makedirs(folder, exist_ok=True)
        with write_whole(path) as stream:
            stream.write(_digest(made.encode()) + b"\n" + made.encode())
    except (OSError, InputError):      # a home that is read-only: the next page takes the time again
        pass
    return made


def _digest(text: bytes) -> bytes:
    return b"// " + hashlib.sha256(text).hexdigest().encode()
