"""The command line as a whole: exit codes, help, hostile arguments, pipes and interrupts."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.commands import Run
from tests.draws import draws

from astrarium.cli import dispatch as dispatching
from astrarium.cli import main
from astrarium.cli.completion import command_line
from astrarium.cli.dispatch import VERBS, dispatch
from astrarium.errors import InternalError
from astrarium.trace.samples import sample_traces

COMMAND = [sys.executable, "-m", "astrarium"]


def start(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process of its own."""
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False, **more)  # type: ignore[call-overload,no-any-return]


def test_help_names_every_verb(run: Run) -> None:
    said = run("--help")
    assert said.code == 0
    assert said.err == ""
    for verb, (_, sentence) in VERBS.items():
        assert f"{verb} " in said.out
        assert sentence in said.out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, run: Run) -> None:
    said = run(verb, "--help")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"usage: astrarium {verb} ")


@pytest.mark.parametrize(("arguments", "words"), [
    ([], "which verb?"),
    (["lst"], "unknown verb 'lst'; did you mean list?"),
    (["quite-something-else"], "expected one of run, "),
    (["--json"], "unknown argument --json"),
    (["list", "--jsn"], "unknown argument --jsn; did you mean --json?"),
    (["trace", "transform", "--stp", "a", "-o", "b"], "astrarium trace transform: error: "),
    (["trace", "transform", "a", "--stp", "b", "-o", "c"], "unknown argument --stp; did you mean --step?"),
    (["trace", "synthesise", "learn", "--jsn", "-o", "m"], "learn: error: unknown argument --jsn; did"),
    (["run"], "DESIGN.yaml"),
    (["serve", "a.yaml", "b.yaml"], "unknown argument b.yaml"),
    (["run", "x.yaml", "--fold", "maybe"], "invalid choice: 'maybe'"),
    (["run", "x.yaml", "--timeline-ranks", "3-1"], "expected at most 2^20 ranks"),
    (["run", "x.yaml", "--timeline-ranks", "all"], "expected ranks such as 0-7,12"),
    (["astra-sim", "--system-configuration=x"], "--workload-configuration"),
    (["convert", "--to", "nothing"], "invalid choice"),
    (["check"], "PATH"),
])
def test_usage_errors_exit_with_2(arguments: list[str], words: str, run: Run) -> None:
    said = run(*arguments)
    assert said.code == 2
    assert words in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


def test_our_bug_exits_with_3_and_asks_for_a_report(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise InternalError("two and two made five")

    monkeypatch.setattr(importlib.import_module("astrarium.cli.list_"), "run", broken)
    said = run("list")
    assert said.code == 3
    assert "two and two made five" in said.err
    assert "Please report it" in said.err


@pytest.mark.parametrize(("raised", "code", "words"), [
    (ZeroDivisionError("oh"), 3, "Please report it"),
    (MemoryError(), 1, "not enough memory"),
    (KeyboardInterrupt(), 130, "interrupted"),
    (BrokenPipeError(), 141, ""),
])
def test_whatever_is_raised_becomes_an_exit_code(raised: BaseException, code: int, words: str, run: Run,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise raised

    monkeypatch.setattr(importlib.import_module("astrarium.cli.list_"), "run", broken)
    said = run("list")
    assert said.code == code
    assert words in said.err


@given(st.lists(st.one_of(st.sampled_from([*VERBS, "--json", "--help", "--set", "-o", "--to", "x", "/", "--fold=off"]),
                          st.text(max_size=8).filter(lambda text: "\0" not in text)), max_size=4))
@draws(25)
def test_no_arguments_make_it_raise(arguments: list[str]) -> None:
    """Whatever is typed is answered by an exit code other than 3. `show /` and the like are input errors."""
    assert dispatch(arguments) in (0, 1, 2)


def test_version_as_a_process_is_quick_and_light() -> None:
    code = ("import sys, astrarium.cli; code = astrarium.cli.main(['--version']); "
            "print([m for m in ('numpy', 'yaml', 'msgspec') if m in sys.modules], file=sys.stderr); "
            "sys.exit(code)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("astrarium ")
    assert done.stderr.strip() == "[]"


def test_python_minus_m() -> None:
    done = start("list", "shape")
    assert done.returncode == 0
    assert "ring" in done.stdout
    assert start("list", "shpe").returncode == 1


def test_a_reader_that_leaves_is_no_error() -> None:
    with subprocess.Popen([*COMMAND, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 141


def test_an_interrupt_is_clean(tmp_path: Path) -> None:
    """Ctrl-C while a verb runs: exit code 130, one line, no traceback."""
    script = ("import signal, sys, time, importlib; from astrarium.cli import main\n"
              "signal.signal(signal.SIGINT, signal.default_int_handler)      # may be inherited as ignored\n"
              "verb = importlib.import_module('astrarium.cli.list_')\n"
              "verb.run = lambda options: print('ready', flush=True) or time.sleep(60)\n"
              "sys.exit(main(['list']))\n")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == "astrarium: interrupted\n"


@pytest.mark.parametrize("where", ["astrarium.cli.dispatch._run", "astrarium.cli.dispatch.dispatch"])
def test_an_interrupted_import_is_no_bug(where: str) -> None:
    """Ctrl-C while modules load: whatever the import makes of it, one line and 130."""
    module, _, name = where.rpartition(".")
    script = ("import os, signal, sys, importlib; from astrarium.cli import main\n"
              "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
              "def broken(*_):\n"
              "    try: os.kill(os.getpid(), signal.SIGINT)\n"
              f"    except KeyboardInterrupt as e: raise {'ImportError' if name == '_run' else 'e'}\n"
              f"setattr(importlib.import_module({module!r}), {name!r}, broken)\n"
              "sys.exit(main())\n")
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (found.returncode, found.stderr) == (130, "astrarium: interrupted\n")


def test_main_is_the_dispatcher() -> None:
    assert main(["--version"]) == 0
    assert set(dispatching.__all__) == {"CATALOGED", "VERBS", "catalog_flag", "dispatch"}


def test_an_old_flag_works_and_a_note_names_the_present_one(run: Run, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("old.svg", "new.svg")]
    (tmp_path / "w.0.et").write_bytes(next(sample_traces(1))[1])
    for path, flag in zip(files, ("--limit=5", "--most=5")):
        said = run("trace", "graph", tmp_path / "w.0.et", "-o", path, flag)
        assert (said.code, "note: --limit is now --most" in said.err) == (0, flag.startswith("--limit")), said.err
    assert files[0].read_bytes() == files[1].read_bytes()


def test_one_flag_has_one_meaning() -> None:
    """What follows a flag has one word over all verbs, or it is known why not."""
    kept = {"--backend": "PyTorch's word, and ASTRA-sim's", "--compute": "how a replay computes, and the model of it",
            "--limit": "of a search also bytes", "--minimize": "of a plan one of four objectives",
            "--objective": "as --minimize",
            "--out": "a file, a folder or a prefix", "--parquet": "a file or a folder", "--seed": "a number",
            "--set": "of a plan fields of the workload"}
    meant: dict[str, set[str]] = {}
    for parser in every_parser(command_line()):
        for action in parser._actions:
            for flag in action.option_strings:
                if flag.startswith("--") and action.nargs != 0:
                    meant.setdefault(flag, set()).add(str(action.metavar or action.choices or action.dest))
    assert {flag for flag, words in meant.items() if len(words) > 1} == set(kept)


def every_parser(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its verbs."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from every_parser(sub)
