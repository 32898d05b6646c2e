"""What a page may send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from astrarium.errors import InputError

__all__ = ["DROPPED", "Action", "DesignAsked", "JobAsked", "sets_of"]

Action = Literal["pause", "resume", "stop"]
DROPPED = (".yaml", ".yml", ".json", ".sh", ".et", ".study", ".csv", ".log", ".txt", ".gz", ".xml", ".jsonl", ".toml")
LONGEST = 200       # characters of a path, and of a value


def sets_of(texts: Sequence[str]) -> dict[str, str]:
    """`path=value` texts as a mapping. Raises InputError."""
    found: dict[str, str] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals or not path or len(path) > LONGEST or len(value) > LONGEST or path in found:
            raise InputError("set", f"{text[:80]!r} is no change", expected="path=value, every path once")
        found[path] = value
    return found


class DesignAsked(BaseModel):
    """Save `design` with `sets` under `name`."""

    model_config = ConfigDict(extra="forbid")
    design: Annotated[str, Field(max_length=LONGEST)]
    name: Annotated[str, Field(max_length=LONGEST)]
    sets: Annotated[list[str], Field(max_length=64)] = []


class JobAsked(BaseModel):
    """Work that takes long: `request` is that of the operation."""

    model_config = ConfigDict(extra="forbid")
    verb: Literal["plan", "search", "serve", "validate", "calibrate"]
    request: dict[str, Any]

    @property
    def title(self) -> str:
        """What it is called."""
        told = self.request
        if self.verb == "plan":
            return " ".join(str(each)[:80] for each in (told.get("today") or told.get("model", ""), "on",
                                                        told.get("gpus"), told.get("device", "")) if each is not None)
        files = told.get("files") or [""]
        subject = files[0] if isinstance(files, list) and self.verb in ("validate", "calibrate") else \
            told.get("space" if self.verb == "search" else "serving", "")
        name = str(subject)[:LONGEST].rpartition("/")[2].partition(".")[0]
        return f"{name} {told.get('agent', '')}"[:80].strip()
