"""`astrarium completion SHELL`: a script that completes verbs, flags, choices and files."""

from __future__ import annotations

import argparse
import importlib

from astrarium.cli.arguments import Parser
from astrarium.errors import InputError, install_line

__all__ = ["arguments", "command_line", "run"]

SHELLS = ("bash", "zsh", "tcsh", "fish")
FILES = ("FILE", "DESIGN", "PATH", "TRACE", "DIR", "FOLDER", "STUDY", "SPACE")      # in a metavar: a path is completed


def arguments(parser: Parser) -> None:
    """The shell."""
    parser.add_argument("shell", choices=SHELLS, help="for bash: astrarium completion bash > "
                        "~/.local/share/bash-completion/completions/astrarium; for zsh: a file _astrarium on fpath; "
                        "for fish: ~/.config/fish/completions/astrarium.fish")


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    try:
        shtab = importlib.import_module("shtab")
    except ImportError as error:
        raise InputError("completion", "shtab is not installed", expected=install_line("completion")) from error
    if options.shell not in shtab.SUPPORTED_SHELLS:
        raise InputError("completion", f"this version of shtab has no {options.shell}",
                         expected=f"shtab 1.13 or later: {install_line('completion')}")
    parser = command_line()
    for action in _actions(parser):
        if action.choices is None and any(word in str(action.metavar or action.dest).upper() for word in FILES):
            action.complete = shtab.FILE      # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell))
    return 0


def command_line() -> Parser:
    """The parser of the whole command line, with every verb and sub-verb filled in."""
    from astrarium.cli.dispatch import CATALOGED, VERBS, catalog_flag

    parser = Parser(prog="astrarium", description="Simulates distributed AI systems.")
    parser.add_argument("--version", action="store_true", help="print the version")
    verbs = parser.add_subparsers(metavar="VERB", parser_class=Parser)
    for verb, (module, sentence) in VERBS.items():
        one = verbs.add_parser(verb, prog=f"astrarium {verb}", description=sentence, help=sentence)
        importlib.import_module(f"astrarium.cli.{module}").arguments(one)
        if verb in CATALOGED:
            catalog_flag(one)
        _filled(one)
    return parser


def _filled(parser: Parser) -> None:
    """Adds the arguments of sub-verbs, which else are added when one is asked for."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                if sub.fill is not None:
                    sub.fill(sub)
                _filled(sub)


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Every argument of a parser and of its verbs."""
    found = list[argparse.Action]()
    for action in parser._actions:
        found.append(action)
        if isinstance(action, argparse._SubParsersAction):
            found += [each for sub in action.choices.values() for each in _actions(sub)]
    return found
