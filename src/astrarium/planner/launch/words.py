"""Arguments in a shell script or a text file, without a shell: words, plain variables, nothing that runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from astrarium.errors import InputError

__all__ = ["arguments_of", "printed_arguments"]

MOST_WORDS = 20_000
LONGEST = 4096
FEWEST_PRINTED = 4
_NAME = re.compile(r"([A-Za-z_]\w{0,63})\+?=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w{0,63})(?::?-([^{}$]*))?\}|([A-Za-z_]\w{0,63}))")
_UNSET = re.compile(r"\$(?:\{(\w+)(?:\[[@*]\])?\}|(\w+)|[@*])")     # the whole of a word
_ARRAY = re.compile(r"^[A-Za-z_]\w{0,63}\+?=\((?!.*\s)")
ENDS = ("", "(", ")", "\\")      # of the values of an argument
NEGATIVE = re.compile(r"-[0-9.]")
LINE = "\x1f"     # in place of the end of a line
NESTED = "\x1e"   # before the words of a command in quotes
_BARE = re.compile(r"-?[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*")
_LAUNCHER = re.compile(r"(?:\S*/)?(?:python[0-9.]*|torchrun|vllm|sglang|vllm-openai(?:[:@]\S+)?)")
WRAPPERS = ("srun", "sbatch", "uv", "uvx", "poetry", "pdm", "pixi", "conda", "mpirun", "mpiexec", "docker", "podman",
            "apptainer", "singularity", "enroot", "numactl", "nsys", "ncu", "nohup", "env", "time", "timeout", "sudo",
            "ray")
"""Programs that start another one; their own options are before its name."""
_PROGRAM = re.compile(r"(?:^|[/_])(?:pre)?train\w*\.py$")
_SHELL = re.compile(r"(?:\S*/)?(?:ba|z|da|k)?sh")
_COMMAND = re.compile(r"-[a-z]*c")      # `bash -c`, `bash -lc`
MOST_NESTED = 3
_OPERATOR = re.compile(r"[|&;]+|(?:[0-9]?|&)(?:>.*|<+)")
_PRINTED = re.compile(r"^(?:.*?[\]:0-9][ \t]+|\[[^\]]*\]:)?[ \t]*([A-Za-z_]\w{0,80}) \.{2,200} ?(.*)$", re.MULTILINE)


def arguments_of(text: str, where: str, depth: int = 3, stray: list[tuple[str, bool]] | None = None,
                 skipped: list[str] | None = None) -> dict[str, object]:
    """Argument (without dashes, - as _) -> its value, True where it has none, a list where it has several.

    A program's name (`pretrain_gpt.py`) is not the value of a flag. Variables count as their last plain assignment
    above (`TP=8`, `${TP:-8}`); what a shell would have to compute stays unchanged, and is an error if somebody
    needs it. Options of a program that starts another one (`srun --nodes 4 torchrun`) are left out. `stray` gets the
    words that may be arguments without their dashes, each with whether it can be nothing else: it follows a training
    program without being the value of a flag. `skipped` gets the words behind a program that a shell would replace by
    arguments. Raises InputError.
    """
    stray = [] if stray is None else stray
    first, launched, program = "", False, False      # of a command
    known: dict[str, str] = {}
    found: dict[str, object] = {}
    above: dict[str, object] | None = None         # arguments above the command, if a wrapper begins it
    name = ""
    for said in _words(text, where):
        if said == NESTED and above is not None:        # options of srun, docker, ... are not the program's
            found.clear()
            found.update(above)
        if said in (LINE, NESTED) or _OPERATOR.fullmatch(said):
            first, launched, program, name = "", False, False, name if said == LINE else ""
            above = None
            continue
        assigned = _NAME.fullmatch(said)
        if assigned and not said.startswith("-") and (not name or found[name] is not True):
            value = _filled(assigned[2], known)
            known[assigned[1]] = value
            if depth and len(value) < LONGEST and "--" in value:
                found.update(arguments_of(value.lstrip("("), where, depth - 1, stray))
            name = ""
            continue
        word = _filled(said, known)
        if skipped is not None and program and (not name or found[name] is not True) and _is_unset(word, text):
            skipped.append(word)
            continue
        if not first and word in WRAPPERS:
            above = dict(found)
        first = first or word
        if _BARE.fullmatch(word) and (program or ("-" in word and first not in ("echo", "printf"))):
            stray.append((word, program and (not name or word[0] == "-")))
        launched = launched or any(map(_LAUNCHER.fullmatch, word.split()))
        if launched and above is not None:
            found.clear()
            found.update(above)
            above, name = None, ""
        program = program or (launched and bool(_PROGRAM.search(word)))
        if word != said and len(word.split()) > 1:      # a variable of several words, which were read where it was set
            name = ""
        elif word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            name = name.replace("-", "_")
            found[name] = value if equals else True
        elif word in ENDS or word.endswith(".py") or (word.startswith("-") and not NEGATIVE.match(word)):
            name = ""
        elif name:
            before = found[name]
            found[name] = word if before is True else [*before, word] if isinstance(before, list) else [before, word]
    return found


def _is_unset(word: str, text: str) -> bool:
    """Whether a word is a variable that a script does not assign."""
    match = _UNSET.fullmatch(word)
    name = match and (match[1] or match[2])
    return match is not None and (name is None or re.search(rf"(?:^|[\s;]){name}\+?=", text) is None)


def printed_arguments(text: str) -> dict[str, object] | None:
    """Arguments as Megatron-LM prints them at its start, `name .......... value` a line; None for any other text."""
    found = [(name, value.strip()) for name, value in _PRINTED.findall(text)]
    if len(found) < FEWEST_PRINTED:
        return None
    return {name: True if value == "True" else False if value == "False" else None if value == "None" else value
            for name, value in found}


def _words(text: str, where: str, depth: int = MOST_NESTED) -> Iterator[str]:
    """The words of a script, as a shell quotes them; brackets of arrays by themselves; the command of `bash -c "..."`
    and of sbatch's `--wrap "..."` word by word."""
    lines = text.replace("\\\r\n", " ").replace("\\\n", " ").replace("\n", f"\n{LINE} ")
    try:
        words = shlex.split(lines, comments=True, posix=True)
    except ValueError as error:
        raise InputError(where, f"is no list of arguments ({str(error).lower()})",
                         expected="a shell script, or arguments as one types them") from None
    count = len(words) - words.count(LINE)
    if count > MOST_WORDS:
        raise InputError(where, f"has {count:,} words", expected=f"at most {MOST_WORDS:,}")
    shell, before = False, ""
    for each in (word if word == LINE else word.replace(LINE, "") for word in words):
        nested = before == "--wrap" or (shell and _COMMAND.fullmatch(before))
        shell, before = bool(_SHELL.fullmatch(each)) or (shell and each[:1] == "-"), each
        if nested and depth:
            yield from (NESTED, *_words(each, where, depth - 1), LINE)
            continue
        for part in each.split() if each.startswith("--") else (each,):       # "--fp8-format hybrid" in quotes
            word = _ARRAY.sub("", part).rstrip(";") or part
            closed = word.endswith(")") and "(" not in word and len(word) > 1
            yield from (word[:-1], ")") if closed else (word,)
            if part[-1:] == ";" != part:
                yield ";"


def _filled(word: str, known: dict[str, str]) -> str:
    """The word with plain variables in their places."""
    def value(match: re.Match[str]) -> str:
        default: str | None = match[2]
        found = known.get(match[1] or match[3], default)
        return match[0] if found is None or len(found) > LONGEST else found
    return _VARIABLE.sub(value, word) if len(word) <= LONGEST else word
