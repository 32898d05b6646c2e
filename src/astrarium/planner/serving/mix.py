"""Lengths of the requests of a plan: one pair, or those of a stream that a file describes."""

from __future__ import annotations

import math
import os

import numpy as np
from msgspec import Struct

from astrarium.config import parse_yaml, replace_all
from astrarium.config.files import decode_at
from astrarium.config.yamlfile import read_text
from astrarium.errors import InputError
from astrarium.serving.requests import Arrivals, requests_of
from astrarium.serving.slo import Limit

__all__ = ["Mix", "equal", "load_stream", "mix_of"]

DRAWN, SEEN = 20_000, 200       # requests from which lengths are known; of a steady state, at least
SURE = 3.0      # standard errors of a mean of SEEN requests


class Mix(Struct, frozen=True):
    """Tokens of requests, as far as ceilings take them into account.

    `prompt`: mean that is computed, without a shared prefix; `context`: mean prompt of a token of an answer; `first`:
    the longest prompt whose TTFT has to be within its limit; `output`: mean answer; `long`: one that nine of ten do not
    exceed; `longest`: a whole request. `share` of all tokens of answers that are of requests for which the limit of
    TPOT holds. `slack`: by which share the requests of a short stream may be cheaper. `varies`: whether lengths do."""

    prompt: int
    context: int
    first: int
    output: float
    long: int
    longest: int
    share: float
    slack: float = 0.0
    varies: bool = False

    @property
    def words(self) -> str:
        """`prompts of 4,000, answers of 1,000 tokens`."""
        said = f"prompts of {self.context:,}, answers of {self.output:,.0f} tokens"
        return f"{said} in the mean (up to {self.longest:,} together)" if self.varies else said


def equal(prompt: int, output: int, tpot: Limit) -> Mix:
    """Requests of one length."""
    return Mix(prompt, prompt, prompt, output, output, prompt + output, tpot.share)


def mix_of(arrivals: Arrivals, ttft: Limit, tpot: Limit) -> Mix:
    """The lengths of a stream. Raises InputError for one without a rate, and for conversations."""
    if getattr(arrivals, "rate", None) is None:
        raise InputError("requests.kind", f"{arrivals.tag} has no rate to find", expected="poisson, gamma or sharegpt")
    if getattr(arrivals, "session", None) is not None:
        raise InputError("requests.session", "conversations are not planned", expected="no session, or a serving file")
    drawn = requests_of(replace_all(arrivals, {"count": DRAWN, "rate": 1.0}))
    prefix = getattr(arrivals, "prefix", None)
    prompt, output, cached = drawn.prompt, drawn.output, 0 if prefix is None else prefix.tokens
    more = np.maximum(output - 1, 0)
    keep = ttft.share - SURE * math.sqrt(ttft.share * (1 - ttft.share) / SEEN)
    spread = max(float(each.std() / max(1.0, each.mean())) for each in (prompt, output))
    least = np.sort(more)[:math.floor(tpot.share * len(more))]
    tail = np.quantile(prompt, max(0.0, keep)) if ttft.percent else prompt.mean()
    return Mix(prompt=max(1, math.floor(prompt.mean()) - cached),
               context=math.floor(float((prompt * more).sum()) / max(1, int(more.sum()))),
               first=max(1, math.floor(float(tail)) - cached), output=float(output.mean()),
               long=int(np.quantile(output, 0.9)), longest=int((prompt + output).max()),
               share=float(least.sum()) / max(1, int(more.sum())), slack=SURE * spread / math.sqrt(SEEN), varies=True)


def load_stream(path: str | os.PathLike[str]) -> Arrivals:
    """The `requests` of a serving file, or of a YAML file that holds these alone. Raises InputError."""
    name = os.fspath(path)
    data = parse_yaml(read_text(name), name).data
    plain = data["requests"] if isinstance(data, dict) and "requests" in data else data
    return decode_at(Arrivals, plain, os.path.dirname(name))
