"""The version of Astrarium, and the stamp of what it writes as JSON."""

from __future__ import annotations

__all__ = ["stamp", "version"]


def version() -> str:
    """The installed version; `0+unknown` of a checkout on the path."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of("astrarium")
    except PackageNotFoundError:
        return "0+unknown"


def stamp(answer: str) -> dict[str, str]:
    """The first fields of an answer in JSON: its format, such as `run/1`, and the version that made it.

    Args:
        answer: the command, such as `plan` or `trace show`. The number after it grows when a field is renamed or
            removed, or changes its meaning or unit (docs/reference/compatibility.md).
    """
    return {"format": f"{answer}/1", "astrarium": version()}
