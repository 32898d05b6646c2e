"""How agents are called: NAME, or NAME:TEXT where the text is a program or an address."""

from __future__ import annotations

__all__ = ["split_name"]


def split_name(name: str) -> tuple[str, str, str]:
    """NAME:TEXT at its colon; a URL of https is one of the agent `http`."""
    kind, colon, text = name.partition(":")
    return ("http", colon, f"https:{text}") if kind == "https" else (kind, colon, text)
