"""Everything Astrarium raises on purpose.

    AstrariumError                 base; `exit_code` is what the command line returns
    ├── InputError                 your input: file or path, value, what was expected, nearest match   (exit 1)
    │   ├── TraceError             the same, with rank, node id and node name
    │   └── UnsupportedError       a combination that no model here covers; never approximated
    ├── PluginError                a plug-in raised, or broke its contract: which one, and how         (exit 1)
    ├── StallError                 a simulation that cannot go on: who waits for what, on which rank   (exit 1)
    ├── StoppedError               a run that took more time or memory than it may                     (exit 1)
    ├── BeyondError                a run whose makespan is beyond the time that it may simulate         (exit 1)
    └── InternalError              our bug: please report it                                           (exit 3)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

__all__ = ["EXPLAINED", "AstrariumError", "BeyondError", "InputError", "InternalError", "PluginError", "StallError",
           "StoppedError", "TraceError", "UnsupportedError", "Wait", "asked", "install_line", "nearest", "short_name"]

LONGEST_NAME = 64
T = TypeVar("T")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to `word`, or None when nothing is close: before all others one that begins with it, then
    the longest one with which it begins (as a word: b200 of b200_sxm). Upper and lower case are equal where nothing is
    close otherwise."""
    words = list(known)
    found = _nearest(word, words)
    if found is None and word.lower() != word:
        lower = {each.lower(): each for each in words}
        close = _nearest(word.lower(), lower)
        found = None if close is None else lower[close]
    return found


def _nearest(word: str, words: Iterable[str]) -> str | None:
    import difflib  # 1 ms, at the start of every command

    longer = [each for each in words if len(word) >= 3 and each.startswith(word)]
    shorter = [each for each in words
               if len(each) >= 3 and word.startswith(each) and not word[len(each):len(each) + 1].isalnum()]
    if shorter and not longer:
        return max(shorter, key=len)
    close = difflib.get_close_matches(word, longer or words, n=1, cutoff=0.0 if longer else 0.6)
    return close[0] if close else None


def install_line(extra: str) -> str:
    """The command that installs an extra, from where this Astrarium came: an index, a source tree, a file or a URL."""
    import shlex  # rarely needed, as all below
    import sys

    words = _wanted(f"[{extra}]")
    return f"{shlex.quote(sys.executable or 'python')} -m pip install {shlex.join(words)}" if words else \
        f"pip install 'astrarium[{extra}]'"


def _wanted(extra: str) -> list[str]:
    """What pip is asked for; nothing for an index, which a folder or a file that is gone counts as. Where a source tree
    runs, it is the tree, whatever else is installed."""
    import json
    import os
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        said = json.loads(distribution("astrarium").read_text("direct_url.json") or "{}")      # PEP 610
    except PackageNotFoundError:
        said = {}
    url = said.get("url", "")
    path = unquote(urlsplit(url).path) if url.startswith("file://") else ""
    tree = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if os.path.isfile(os.path.join(tree, "pyproject.toml")):
        editable = said.get("dir_info", {}).get("editable") and os.path.realpath(path) == os.path.realpath(tree)
        return ["-e"] * bool(editable) + [tree + extra]
    if path or not url:
        return [path + extra] if path and os.path.exists(path) else []
    vcs = said.get("vcs_info")
    return [f"astrarium{extra} @ " + (f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url)]


def short_name(name: str) -> str:
    """A node's name for a line of text: cut (kernels are named by whole C++ types), control characters escaped."""
    text = name[:LONGEST_NAME + 1]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME - 1] + "…"


class AstrariumError(Exception):
    """Base of every error that Astrarium raises on purpose."""

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors of worker processes arrive as they were raised."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[AstrariumError], args: tuple[Any, ...], about: dict[str, Any]) -> AstrariumError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(about)
    return error


class InputError(AstrariumError):
    """An error in the input. One line: `path: value; expected …; did you mean …?` A fault of a run or a trace has
    the rank, the node's id and its name."""

    def __init__(self, path: str, message: str, *, rank: int | None = None, node: int | None = None,
                 name: str | None = None, expected: str | None = None, did_you_mean: str | None = None):
        self.rank, self.node, self.name = rank, node, name
        where = [f"rank {rank}"] if rank is not None else []
        if node is not None:
            where.append(f"node {node}" + (f" ({short_name(name)})" if name else ""))
        message = f"{', '.join(where)}: {message}" if where else message
        self.path, self.message, self.expected, self.did_you_mean = path, message, expected, did_you_mean
        text = f"{path}: {message}" if path else message
        if expected:
            text += f"; expected {expected}"
        if did_you_mean:
            text += f"; did you mean {did_you_mean!r}?"
        super().__init__(text)


class TraceError(InputError):
    """An error in an execution trace, with the file or trace, the rank and the node."""


class UnsupportedError(InputError):
    """A legal combination without a model."""


class PluginError(AstrariumError):
    """A plug-in raised an exception (the cause) or broke its contract; `plugin` names it, such as `network Toy`."""

    def __init__(self, plugin: str, message: str):
        self.plugin, self.message = plugin, message
        super().__init__(f"{plugin}: {message}")


class Wait(NamedTuple):
    """Who waits for what, in one sentence: of which rank, and the id of the node that it names first."""

    text: str
    rank: int | None = None
    node: int | None = None


class StallError(AstrariumError):
    """The simulation cannot go on. `waits` lists who waits for what (the first ones are in the message)."""

    def __init__(self, waits: Sequence[Wait | str], shown: int = 8):
        self.waits = tuple(wait if isinstance(wait, Wait) else Wait(wait) for wait in waits)
        more = f"\n  … and {len(waits) - shown} more" if len(waits) > shown else ""
        super().__init__("the simulation cannot go on (deadlock):\n  "
                         + "\n  ".join(wait.text for wait in self.waits[:shown]) + more)


class StoppedError(AstrariumError):
    """A run that took more time or memory than it may."""


class BeyondError(AstrariumError):
    """A run whose makespan is beyond the time that it may simulate: more than `most` ps."""

    def __init__(self, most: int):
        self.most = most
        super().__init__(f"the makespan is beyond {most} ps")


class InternalError(AstrariumError):
    """A broken invariant inside Astrarium: a bug."""

    exit_code = 3


EXPLAINED = (StallError, TraceError, UnsupportedError)
"""What the engine raises about a workload: it knows ranks and node numbers only, and `lower.explain` says the rest."""


def asked(who: str, function: Callable[..., T], *arguments: object) -> T:
    """What a plug-in's function gives. Raises PluginError with the name `who` where it raises what is no error of
    ours."""
    try:
        return function(*arguments)
    except AstrariumError:
        raise
    except Exception as error:
        raise PluginError(who, f"raised {type(error).__name__}: {error}") from error
