"""From arguments to a verb and from whatever happens to an exit code. Only the verb that was named is imported."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from astrarium.cli.arguments import Parser
from astrarium.entry_points import plugged
from astrarium.errors import AstrariumError, nearest
from astrarium.version import version

__all__ = ["CATALOGED", "VERBS", "catalog_flag", "dispatch"]

VERBS = {
    "run": ("run", "Simulate a design file: makespan, exposed communication, memory, critical path."),
    "serve": ("serve", "Serve a stream of requests on a design: TTFT, TPOT, throughput, goodput."),
    "check": ("check", "Find errors in traces and design files before they run."),
    "show": ("show", "Print a trace, a design with its network, or its workload."),
    "trace": ("trace", "Write, link, convert, transform and analyse traces."),
    "convert": ("convert", "Convert ASTRA-sim's inputs to a design file, and traces to JSON lines and back."),
    "plan": ("plan", "Find the fastest layouts for training a model, or the engines that serve it best."),
    "search": ("search", "Search a space for the best designs: agents, objectives, resumable studies."),
    "report": ("report", "Report the results of searches: best designs, importances, convergence; HTML, CSV."),
    "validate": ("validate", "Compare predictions with measured rows: errors per source, device and stack."),
    "calibrate": ("calibrate", "Make a device for designs from your timings of kernels."),
    "web": ("web", "Open the workbench in a browser: plan, turn knobs, search, compare."),
    "explain": ("explain", "Split the difference of two designs' makespans by knob, exactly."),
    "mcp": ("mcp", "Serve the tools of an assistant: plan, run, explain, search (Model Context Protocol)."),
    "list": ("list_", "List the choices: topologies, algorithms, devices, operations, back ends."),
    "astra-sim": ("astra_sim", "Run ASTRA-sim's command line, with its answers."),
    "completion": ("completion", "Print a script that completes this command line in a shell."),
}
"""Verb -> (module in this package, one sentence)."""

CATALOGED = frozenset(VERBS) - {"trace", "convert", "mcp", "astra-sim", "completion"}    # verbs with catalog names

INTERRUPTED, NO_READER, TERMINATED, OUR_BUG = 130, 141, 143, 3


class Verb(Protocol):
    """What the file of a verb offers."""

    def arguments(self, parser: Parser) -> None:
        """Adds the verb's flags."""

    def run(self, options: object) -> int:
        """Does it; returns the exit code."""


def dispatch(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Never raises, except what leaves no choice (SystemExit of a plug-in)."""
    asked: list[int] = []  # signals that asked this run to end
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if argv is None:      # our own process: no threads for linear algebra, which is not used (0.05 s)
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            _own_process(asked)
        code = _guarded(lambda: _written(_run(arguments)), asked)
        return TERMINATED if signal.SIGTERM in asked else code
    except BrokenPipeError:
        _forget_stdout()
        return NO_READER
    except KeyboardInterrupt:
        print("astrarium: interrupted", file=sys.stderr)
        return INTERRUPTED


def _own_process(asked: list[int]) -> None:
    """Streams that the caller closed go nowhere; `kill` ends a run as Ctrl-C does: no half-written file stays."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))     # noqa: SIM115

    def end(number: int, _: object) -> None:
        asked.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(TERMINATED)

    signal.signal(signal.SIGTERM, end)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:     # not where a shell has it ignored
        signal.signal(signal.SIGINT, end)


def _written(code: int) -> int:
    sys.stdout.flush()
    return code


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in VERBS:
        return _top(arguments)
    name, sentence = VERBS[arguments[0]]
    verb = cast(Verb, importlib.import_module(f"astrarium.cli.{name}"))
    parser = Parser(prog=f"astrarium {arguments[0]}", description=sentence)
    verb.arguments(parser)
    if arguments[0] not in CATALOGED:
        return verb.run(parser.parse(arguments[1:]))
    catalog_flag(parser)
    options = parser.parse(arguments[1:])
    from astrarium.catalog import overlay

    with overlay(*options.catalog), plugged(*options.plugin):
        return verb.run(options)


def catalog_flag(parser: Parser) -> None:
    """The flags of every verb that reads names of the catalog and of plug-ins."""
    parser.add_argument("--plugin", metavar="FILE.py", action="append", default=[],
                        help="a file of plug-ins, whose PLUGINS says what it has (docs/guides/plugins.md); it is run")
    parser.add_argument("--catalog", metavar="FILE.toml", action="append", default=[],
                        help="a file of rows to add to the catalog: devices, networks, hosts, models, stacks")


def _top(arguments: list[str]) -> int:
    """`astrarium`, `--help`, `--version`, and verbs that do not exist."""
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {sentence}" for verb, (_, sentence) in VERBS.items())
    parser = Parser(prog="astrarium", usage="astrarium [-h] [--version] VERB ...", raw=True,
                    description="Simulates distributed AI systems: the time, memory and cost of a workload on a "
                                "system.",
                    epilog=f"verbs:\n{verbs}\n\n`astrarium VERB --help` prints more.")
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument("verb", nargs="?", metavar="VERB", help="one of those below")
    verb = next((word for word in arguments if not word.startswith("-")), None)
    if verb is not None and verb not in VERBS:
        guess = nearest(verb, VERBS)
        parser.error(f"unknown verb {verb!r}" + (f"; did you mean {guess}?" if guess else
                                                 f"; expected one of {', '.join(VERBS)}"))
    options = parser.parse(arguments)
    if not options.version:
        parser.error("which verb?" if not options.verb else f"flags come after the verb: astrarium {options.verb} ...")
    print(f"astrarium {version()}")
    return 0


def _guarded(work: Callable[[], int], asked: Sequence[int]) -> int:
    """The exit code of `work`, whatever it raises; what goes wrong after a signal `asked` to end is no bug."""
    try:
        return work()
    except AstrariumError as error:
        if error.exit_code == OUR_BUG:
            return _bug()
        print(f"astrarium: {error}", file=sys.stderr)
        return error.exit_code
    except SystemExit as stop:      # argparse: usage, --help
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 2
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except OSError as error:
        _forget_stdout()
        print(f"astrarium: {error.filename or 'standard output'}: {error.strerror or error}", file=sys.stderr)
        return 1
    except MemoryError:
        print("astrarium: not enough memory for this input", file=sys.stderr)
        return 1
    except Exception:
        if signal.SIGINT in asked:      # what a library made of the interrupt, such as an import that failed
            raise KeyboardInterrupt from None
        return TERMINATED if asked else _bug()


def _bug() -> int:
    import traceback

    traceback.print_exc()
    print("astrarium: this is a bug of ours. Please report it with the lines above and your input.", file=sys.stderr)
    return OUR_BUG


def _forget_stdout() -> None:
    """Discard what Python still holds for stdout, whose reader has left, without a message at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):      # stdout is not a file (a test's buffer): nothing to save
        return
