"""`astrarium trace collective ALGORITHM --op OP --npus N -o OUT`: an algorithm as traces, MSCCL or MSCCL++."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from astrarium.cli.arguments import Parser, idle, json_flag, note, place, whole
from astrarium.cli.json_output import print_json
from astrarium.errors import InputError, nearest

if TYPE_CHECKING:
    from astrarium.vocab import CommOp

__all__ = ["arguments", "run"]

KERNEL = "kernel:"


def arguments(parser: Parser) -> None:
    """The algorithm, its size, the form."""
    parser.add_argument("algorithm", metavar="ALGORITHM", help="as `astrarium list algorithm` names them, or "
                        "kernel:NAME, as `astrarium list kernel` does")
    parser.add_argument("--op", required=True, metavar="OP", help="all_reduce, all_gather, ...")
    parser.add_argument("--npus", "--gpus", required=True, type=whole, metavar="N", help="participants")
    parser.add_argument("--size", metavar="SIZE", help="bytes of the collective as in a trace (all_gather: the shard); "
                        "traces need it, MSCCL does not")
    parser.add_argument("--pipeline", type=whole, metavar="B", help="blocks of chains and trees (8)")
    parser.add_argument("-o", "--out", required=True, metavar="OUT", help="NAME.xml: MSCCL; NAME.json: MSCCL++ (of "
                        "kernels); else a prefix: OUT.POSITION.et, as custom collectives are read")
    kernel = parser.add_argument_group("kernels")
    kernel.add_argument("--protocol", metavar="P", help="simple or ll (simple)")
    kernel.add_argument("--direction", metavar="D", help="put or get (put)")
    kernel.add_argument("--workgroups", type=whole, metavar="W", help="workgroups that share every chunk (16)")
    kernel.add_argument("--threads", type=whole, metavar="T", help="threads of a block in an MSCCL++ plan (256)")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Export."""
    from astrarium.vocab import CommOp

    words = [op.name.lower() for op in CommOp]
    if options.op not in words:
        raise InputError("--op", f"{options.op!r}", expected="one of " + ", ".join(words),
                         did_you_mean=nearest(options.op, words))
    op = CommOp[options.op.upper()]
    written, notes = _kernel(op, options) if options.algorithm.startswith(KERNEL) else _schedule(op, options)
    for each in notes:
        note(each)
    if options.json:
        print_json("trace collective", {"files": written, "notes": list(notes)} if notes else {"files": written})
    else:
        print(f"wrote {written[0]}" + (f" to {written[-1]}" if len(written) > 1 else ""))
    return 0


def _schedule(op: CommOp, options: argparse.Namespace) -> tuple[list[str], tuple[str, ...]]:
    """An algorithm of messages: MSCCL or traces; the files, and what they cannot express."""
    from astrarium.collective.algorithms import Options
    from astrarium.collective.export import schedule_of, schedule_traces
    from astrarium.trace.write import write_files
    from astrarium.units import Bytes

    for name in ("protocol", "direction", "workgroups", "threads"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name}", str(getattr(options, name)), expected="a kernel, such as kernel:all_pairs")
    if options.out.endswith(".json"):
        raise InputError("--out", options.out, expected="NAME.xml or a prefix: MSCCL++ plans are kernels, such as "
                         "kernel:all_pairs")
    schedule = schedule_of(options.algorithm, op, options.npus, Options(pipeline=options.pipeline or 8))
    if options.pipeline is not None:
        other = schedule_of(options.algorithm, op, options.npus, Options(pipeline=options.pipeline + 1))
        idle("--pipeline", other.blocks == schedule.blocks, "an algorithm of chains or trees")
    if options.out.endswith(".xml"):
        from astrarium.collective.msccl_write import msccl_xml

        idle("--size", options.size, "a prefix as --out: MSCCL programs are for any payload")
        program, notes = msccl_xml(schedule)
        return _written(options.out, program), notes
    if options.size is None:
        raise InputError("--size", "is missing", expected="bytes such as '1 MB'")
    place("--out", f"{options.out}.0.et")
    files = schedule_traces(schedule, int(Bytes(options.size)))
    written = [f"{options.out}.{rank}.et" for rank in range(options.npus)]
    write_files(zip(written, files, strict=True))
    return written, ()


def _kernel(op: CommOp, options: argparse.Namespace) -> tuple[list[str], tuple[str, ...]]:
    """A kernel: MSCCL or MSCCL++; the files, and what they do not carry."""
    from astrarium.gpu import Kernels, kernel_algo, mscclpp_plan
    from astrarium.gpu.msccl.text import algo_xml

    idle("--pipeline", options.pipeline, "an algorithm of chains or trees")
    if options.size is not None:
        raise InputError("--size", options.size, expected="none: plans and programs of kernels are for any payload")
    given = {name: getattr(options, name) for name in ("protocol", "direction", "workgroups")}
    kernels = Kernels(algorithm=options.algorithm.removeprefix(KERNEL),
                      **{name: value for name, value in given.items() if value is not None})
    if options.out.endswith(".xml"):
        if options.threads is not None:
            raise InputError("--threads", str(options.threads), expected="none: MSCCL has no place for them")
        return _written(options.out, algo_xml(kernel_algo(op, options.npus, kernels, path="kernel"))), ()
    if not options.out.endswith(".json"):
        raise InputError("--out", options.out, expected="NAME.xml (MSCCL) or NAME.json (MSCCL++)")
    plan = mscclpp_plan(op, options.npus, kernels, threads=options.threads, path="kernel")
    return _written(options.out, plan.encode()), plan.notes


def _written(path: str, data: bytes) -> list[str]:
    from astrarium.config.whole import write_whole

    place("--out", path)
    with write_whole(path) as stream:
        stream.write(data)
    return [path]
