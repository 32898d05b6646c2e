"""`astrarium trace stage ...`: STAGE's main.py with its own flags; the same traces, in a fraction of the time."""

from __future__ import annotations

import argparse
import os

from astrarium.cli.arguments import Parser, json_flag, note, whole
from astrarium.cli.trace_write import how, progress, report

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """STAGE's flags as they are; ours say how to write."""
    from astrarium.workload.stage.names import FLAGS, IGNORED

    for name in FLAGS:
        words = "ignored, as by STAGE" if name in IGNORED else None
        parser.add_argument(f"--{name}", metavar="X", help=words)
    parser.add_argument("--jobs", metavar="N", type=whole, help="ours: threads that write (all cores)")
    parser.add_argument("--link", choices=("hard", "symlink", "copy"),
                        help="ours: how ranks with equal traces share a file (hard)")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Generate and write."""
    from astrarium.trace.export import write_generated
    from astrarium.workload.stage.flags import stage_command
    from astrarium.workload.stage.generate import stage_trace
    from astrarium.workload.stage.names import FLAGS

    given = {name: getattr(options, name) for name in FLAGS}
    command = stage_command({name: text for name, text in given.items() if text is not None})
    if command.ignored:
        note(f"STAGE ignores {', '.join(command.ignored)}; so does this")
    made = stage_trace(command.work)
    os.makedirs(os.path.dirname(command.prefix), exist_ok=True)
    options.out = command.prefix
    report(options, write_generated(made, command.prefix, jobs=options.jobs, link=how(options), groups=command.groups,
                                    progress=progress()))
    return 0
