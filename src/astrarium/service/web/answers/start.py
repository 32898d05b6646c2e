"""The three choices of the first page: models, devices, counts."""

from __future__ import annotations

from typing import Any

from astrarium.catalog import load
from astrarium.service.context import Context
from astrarium.service.web.answers.question import Ask

__all__ = ["start_choices"]


def start_choices(question: Ask, context: Context) -> dict[str, Any]:
    """Names with titles of the catalog."""
    del question, context
    usual = ("llama3-70b", "llama3-8b", "llama3-405b", "deepseek-v3", "mixtral-8x7b", "gpt3-175b")
    models = {name: row["title"] for name, row in load("models").items()}
    first = [name for name in usual if name in models]
    hosts = {str(row["device"]): int(row["npus"]) for row in load("hosts").values()}
    devices = [(name, row["title"], hosts.get(name, 8)) for name, row in load("devices").items()]
    return {"models": [(name, models[name]) for name in [*first, *(each for each in models if each not in first)]],
            "devices": [each for each in devices if each[0] in hosts]}
