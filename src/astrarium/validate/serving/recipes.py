"""How a published benchmark launches its engines: rows of the catalog's recipes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from astrarium import catalog

__all__ = ["Recipe", "launched", "recipe_of"]

Recipe = Mapping[str, Any]
NONE: Recipe = MappingProxyType({})


def recipe_of(model: str, stack: str, system: str, precision: str) -> Recipe:
    """The first recipe that matches; empty where none does."""
    for row in catalog.load("recipes").values():
        known = (model in row["model"], row.get("stack", stack) == stack, row.get("precision", precision) == precision,
                 any(system.startswith(each) for each in row.get("system", [system])))
        if all(known):
            found: Recipe = row
            return found
    return NONE


def launched(recipe: Recipe, users: int, lengths: tuple[int, int], dp: int = 1) -> dict[str, Any]:
    """Fields of a deployment that a recipe sets for a number of requests in flight, prompts and answers of at most that
    many tokens, and ranks of attention-DP."""
    found: dict[str, Any] = {}
    if "tokens" in recipe:
        found["tokens"] = 2 * lengths[0] if recipe["tokens"] == "2 prompts" else recipe["tokens"]
    if "batch" in recipe:
        found["batch"] = users if recipe["batch"] == "users" else recipe["batch"]
    if poll := recipe.get("poll"):
        found["poll"] = poll["many"] if users >= poll["from"] else poll["few"]
    wait = recipe.get("wait")
    if dp > 1:
        found["wait_steps"] = recipe.get("dp_wait", 0)
    elif wait and users >= wait["from"] and lengths == (wait["prompt"], wait["output"]):
        found |= {"wait_steps": wait["steps"], "wait_share": wait["share"]}
    return found
