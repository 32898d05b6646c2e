"""Flags of `astrarium plan` that say which layouts or engines are looked at, and repeated ones as values."""

from __future__ import annotations

from typing import Any

from astrarium.cli.arguments import Parser
from astrarium.errors import InputError

__all__ = ["cost_from", "fixed_of", "names_of", "space_flags"]


def space_flags(parser: Parser) -> None:
    """Which layouts are looked at."""
    parser.add_argument("--fix", metavar="PART=V[,V...]", action="append", default=[],
                        help="allow only these values of a part of the layout: tp, cp, pp, dp, ep, zero, "
                             "micro_batch, recompute, virtual_stages, tp_sequence, schedule (default: 1f1b and "
                             "interleaved); with --for serving of an engine: tp, dp, pp, ep, weights, cache, "
                             "max_tokens; lifts a rule that forbids one of them; may be repeated")
    parser.add_argument("--lift", metavar="RULE[,RULE...]", action="append", default=[],
                        help="rules to lift, which leave out layouts: host, cp, micro_batch, zero, stages, "
                             "with --for serving host, stages, experts, tokens, apart (the answer explains them)")
    parser.add_argument("--reserve", metavar="SHARE|BYTES",
                        help="memory that stays free on every NPU: '5 %%' of what a layout needs, '2 GB', or 0; "
                             "default: what allocators took, by the stack")


def names_of(texts: list[str]) -> list[str]:
    """`a,b` and `c` as names."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def fixed_of(texts: list[str]) -> dict[str, list[Any]]:
    """`tp=4,8` as {"tp": [4, 8]}."""
    from astrarium.config import assignment

    found: dict[str, list[Any]] = {}
    for text in texts:
        if "=" not in text:
            raise InputError(f"--fix {text}", "has no values", expected="PART=V[,V...], such as tp=4,8")
        name, value = assignment(text)
        every = [assignment(f"{name}={each.strip()}")[1] for each in value.split(",")] if isinstance(value, str) else \
            value if isinstance(value, list) else [value]
        if name in found:
            raise InputError(f"--fix {name}", "is there twice", expected="one list of values")
        found[name] = every
    return found


def cost_from(texts: list[str]) -> dict[str, Any]:
    """`us_h100_2024` and `pue=1.1` as {"like": "us_h100_2024", "pue": 1.1}."""
    from astrarium.config import assignment

    found: dict[str, Any] = {}
    for text in texts:
        name, value = assignment(text) if "=" in text else ("like", text.strip())
        if name in found:
            raise InputError(f"--cost {text}", "is there twice", expected="one value")
        found[name] = value
    return found
