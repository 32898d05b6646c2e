"""`astrarium trace collective ALGORITHM --op OP --npus N --size S -o OUT`: an algorithm as traces or as MSCCL."""

from __future__ import annotations

import argparse
import json

from astrarium.cli.arguments import Parser, json_flag, place, whole
from astrarium.errors import InputError, nearest

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The algorithm, its size, the form."""
    parser.add_argument("algorithm", metavar="ALGORITHM", help="as `astrarium list algorithm` names them")
    parser.add_argument("--op", required=True, metavar="OP", help="all_reduce, all_gather, ...")
    parser.add_argument("--npus", required=True, type=whole, metavar="N", help="participants")
    parser.add_argument("--size", metavar="SIZE", help="bytes as a trace counts them (all_gather: the shard); traces "
                        "need it, MSCCL does not")
    parser.add_argument("--pipeline", type=whole, default=8, metavar="B", help="blocks of chains and trees (8)")
    parser.add_argument("-o", "--out", required=True, metavar="OUT",
                        help="NAME.xml: MSCCL; else a prefix: OUT.POSITION.et, as custom collectives are read")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Export."""
    from astrarium.collective.algorithms import Options
    from astrarium.collective.export import schedule_of, schedule_traces
    from astrarium.trace.write import write_files
    from astrarium.units import Bytes
    from astrarium.vocab import CommOp

    words = [op.name.lower() for op in CommOp]
    if options.op not in words:
        raise InputError("--op", f"{options.op!r}", expected="one of " + ", ".join(words),
                         did_you_mean=nearest(options.op, words))
    op = CommOp[options.op.upper()]
    schedule = schedule_of(options.algorithm, op, options.npus, Options(pipeline=options.pipeline))
    if options.out.endswith(".xml"):
        from astrarium.collective.msccl_write import msccl_xml
        from astrarium.report.files import write_whole

        place("--out", options.out)
        data = msccl_xml(schedule)
        with write_whole(options.out) as stream:
            stream.write(data)
        written = [options.out]
    else:
        if options.size is None:
            raise InputError("--size", "is missing", expected="bytes such as '1 MB'")
        place("--out", f"{options.out}.0.et")
        files = schedule_traces(schedule, int(Bytes(options.size)))
        written = [f"{options.out}.{rank}.et" for rank in range(options.npus)]
        write_files(zip(written, files, strict=True))
    print(json.dumps({"files": written}, indent=1) if options.json else f"wrote {written[0]}" + (
        f" to {written[-1]}" if len(written) > 1 else ""))
    return 0
