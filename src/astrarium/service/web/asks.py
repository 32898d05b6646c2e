"""What a page may ask for: the fields of a request, their limits, and the command lines that give the same."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from astrarium.errors import InputError
from astrarium.service.folder import Folder

__all__ = ["DROPPED", "Action", "DesignAsked", "JobAsked", "sets_of"]

Action = Literal["pause", "resume", "stop"]
DROPPED = (".yaml", ".yml", ".json", ".sh", ".et", ".study", ".csv", ".log", ".txt", ".gz", ".xml", ".jsonl", ".toml")
LONGEST = 200       # characters of a path, and of a value
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._,/ +-]{0,99}$")]
Limit = Annotated[str, Field(pattern=r"^[a-z0-9_]*=?[0-9.]{1,12} ?(ns|us|ms|s)$")]


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
    """A plan (`model` or `today`, `device`, `gpus`), a search (`design` with `choices`, or `space`), or serving."""

    model_config = ConfigDict(extra="forbid")
    verb: Literal["plan", "search", "serve"]
    model: Word | None = None
    today: Word | None = None
    device: Word | None = None
    gpus: Annotated[int | None, Field(ge=1, le=1 << 20)] = None
    purpose: Literal["training", "serving"] = "training"
    objective: Literal["time", "cost", "energy", "carbon"] = "time"
    seq: Annotated[int | None, Field(ge=1, le=1 << 24)] = None
    global_batch: Annotated[int | None, Field(ge=1, le=1 << 24)] = None
    prompt: Annotated[int | None, Field(ge=1, le=1 << 24)] = None
    output: Annotated[int | None, Field(ge=1, le=1 << 24)] = None
    ttft: Limit | None = None
    tpot: Limit | None = None
    rate: Annotated[float | None, Field(gt=0, le=1e9, allow_inf_nan=False)] = None
    file: Annotated[str | None, Field(max_length=LONGEST)] = None
    space: Annotated[str | None, Field(max_length=LONGEST)] = None
    design: Annotated[str | None, Field(max_length=LONGEST)] = None
    choices: Annotated[dict[str, Annotated[list[str], Field(min_length=1, max_length=64)]], Field(max_length=32)] = {}
    minimize: Annotated[str | None, Field(max_length=LONGEST)] = None
    agent: Annotated[str | None, Field(pattern=r"^[a-z0-9_]{1,40}$")] = None
    trials: Annotated[int | None, Field(ge=1, le=100_000)] = None
    seed: Annotated[int | None, Field(ge=0, le=1 << 31)] = None

    def told(self, folder: Folder) -> tuple[str, str, str, dict[str, Any]]:
        """(verb, title, command line, what the worker is told). Raises InputError for a field that is missing."""
        return {"plan": self._plan, "search": self._search, "serve": self._serve}[self.verb](folder)

    def _plan(self, folder: Folder) -> tuple[str, str, str, dict[str, Any]]:
        device = _need("device", self.device)
        given = {name: getattr(self, name) for name in ("gpus", "seq", "global_batch", "prompt", "output", "ttft",
                                                        "tpot", "rate") if getattr(self, name) is not None}
        told: dict[str, Any] = {"device": device, "purpose": self.purpose, "objective": self.objective, **given}
        words = ["astrarium", "plan"]
        if self.today is not None:
            folder.path(self.today, "today")
            told["today"] = self.today
            words += ["--from", self.today]
        else:
            told["model"] = _need("model", self.model)
            if self.model is not None and self.model.endswith(".json"):
                folder.path(self.model, "model")
            words += [str(self.model)]
            if self.gpus is None and self.rate is None:
                raise InputError("gpus", "is missing", expected="a number of devices")
        words += ["--device", device]
        words += ["--for", "serving"] if self.purpose == "serving" else []
        words += ["--objective", self.objective] if self.objective != "time" else []
        for name, value in given.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        title = f"{self.today or self.model} on {self.gpus or ''} {device}".replace("  ", " ")
        return "plan", title, shlex.join(words), told

    def _search(self, folder: Folder) -> tuple[str, str, str, dict[str, Any]]:
        trials, agent, seed = self.trials or 100, self.agent or "bayesian", self.seed or 0
        space = self.space
        if space is None:
            space = folder.keep(self._space(folder), "space")
        else:
            folder.path(space, "space")
        told = {"space": space, "trials": trials, "agent": agent, "seed": seed, "minimize": self.minimize}
        words = ["astrarium", "search", space, "--agent", agent, "--trials", str(trials), "--seed", str(seed)]
        words += ["--minimize", self.minimize] if self.minimize else []
        words += ["--limit", "60 s", "--study", "JOB/search.study"]
        return "search", f"{os_stem(self.design or space)} {agent}", shlex.join(words), told

    def _space(self, folder: Folder) -> str:
        """The text of a space file of the choices."""
        from astrarium.config.yamlfile import scalar, to_yaml

        design = _need("design", self.design)
        folder.path(design, "design")
        if not self.choices:
            raise InputError("choices", "are missing", expected="knobs, each with values")
        for path, values in self.choices.items():
            if len(path) > LONGEST or any(len(value) > LONGEST for value in values):
                raise InputError(path[:80], "is too long")
        choices = {path: [scalar(value) for value in values] for path, values in self.choices.items()}
        space: dict[str, Any] = {"base": design, "choices": choices}
        axes = [axis for axis in ("tp", "pp", "cp", "sp") if f"workload.{axis}" in choices]
        if axes and "workload.dp" not in choices:
            rest = " * ".join(f"workload.{axis}" for axis in ("tp", "pp", "cp", "sp"))
            space["derived"] = {"workload.dp": f"network.npus // ({rest})"}
            space["constraints"] = [f"{rest} * workload.dp == network.npus"]
        return to_yaml(space)

    def _serve(self, folder: Folder) -> tuple[str, str, str, dict[str, Any]]:
        file = _need("file", self.file)
        folder.path(file, "file")
        words = ["astrarium", "serve", file]
        words += ["--set", f"requests.rate={self.rate:g}"] if self.rate else []
        return "serve", f"{os_stem(file)}", shlex.join(words), {"file": file, "rate": self.rate}


def os_stem(name: str) -> str:
    """`a/b.yaml` as `b`."""
    return name.rpartition("/")[2].partition(".")[0]


def _need(name: str, value: str | None) -> str:
    if not value:
        raise InputError(name, "is missing")
    return value
