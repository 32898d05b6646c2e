"""`astrarium trace anonymise IN -o OUT`: traces that can be shared."""

from __future__ import annotations

import argparse
import json

from msgspec.structs import asdict

from astrarium.cli.arguments import Parser, json_flag, place
from astrarium.cli.json_output import print_json

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The traces, the budgets."""
    parser.add_argument("input", metavar="IN", help="prefix of the traces (IN.RANK.et), or one file")
    parser.add_argument("-o", "--out", metavar="OUT", required=True, help="writes OUT.RANK.et and OUT.groups.json")
    parser.add_argument("--durations", type=float, default=5.0, metavar="X",
                        help="durations change by at most X %% (5)")
    parser.add_argument("--sizes", type=float, default=0.0, metavar="X",
                        help="bytes and flop change by at most X %% (0)")
    parser.add_argument("--seed", type=int, required=True, help="seed of the noise; keep it secret")
    parser.add_argument("--groups", metavar="FILE", help="groups (default: IN.groups.json if it exists)")
    parser.add_argument("--names", metavar="FILE", help="write the map of old to new names (JSON); keep it private")
    parser.add_argument("--gzip", action="store_true", help="compress the traces")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Anonymise and write."""
    from astrarium.config.whole import write_whole
    from astrarium.trace.anonymise import anonymise
    from astrarium.trace.transform import load_job, write_job

    place("--names", options.names)
    made = anonymise(load_job(options.input, options.groups), durations=options.durations / 100,
                     sizes=options.sizes / 100, seed=options.seed)
    written = write_job(made.job, options.out, compress=options.gzip)
    if options.names is not None:
        with write_whole(options.names) as stream:
            stream.write(json.dumps(dict(made.names), indent=1).encode("utf-8", "surrogateescape"))
    if options.json:
        print_json("trace anonymise", {"prefix": options.out, **asdict(written), "renamed": len(made.names),
                                       "most_duration": made.durations, "most_size": made.sizes})
        return 0
    print(f"{written.ranks:,} traces, {len(made.names):,} names replaced; durations changed by at most "
          f"{made.durations:.2%}, sizes by at most {made.sizes:.2%}: {options.out}.0.et …")
    return 0
