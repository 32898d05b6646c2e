"""Commands of Chakra's own tools under their names and with their flags; each is a verb of ours underneath."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence

from astrarium.cli.arguments import Parser, note, rank, whole
from astrarium.errors import AstrariumError, InputError

__all__ = ["COMMANDS", "converter", "run_command", "trace_link", "visualizer"]


def _converter(parser: Parser) -> Callable[[argparse.Namespace], None]:
    parser.add_argument("--log-filename", help="ignored: messages go to stderr")
    kinds = parser.add_subparsers(dest="kind", metavar="PyTorch|Text", required=True, parser_class=Parser)
    torch = kinds.add_parser("PyTorch", prog="chakra_converter PyTorch", description="A linked trace to Chakra.")
    torch.add_argument("--input", required=True, help="a host trace, a trace of Chakra's feeder (JSON), or what a "
                       "chakra_trace_link wrote (ours, Chakra's own)")
    torch.add_argument("--output", required=True, help="the trace to write, such as w.0.et")
    torch.add_argument("--simulate", action="store_true", help="print the replayed time")
    text = kinds.add_parser("Text", prog="chakra_converter Text", description="A text workload as Chakra traces.")
    text.add_argument("--input", required=True, help="the text workload")
    text.add_argument("--output", required=True, help="writes OUTPUT.RANK.et")
    text.add_argument("--num-npus", required=True, type=whole, help="ranks")
    text.add_argument("--num-passes", required=True, type=whole, help="iterations")
    return lambda options: _convert_text(options) if options.kind == "Text" else _convert_pytorch(options)


def _convert_text(options: argparse.Namespace) -> None:
    from astrarium.profile.text_generate import generate_text
    from astrarium.profile.text_workload import read_text
    from astrarium.trace.export import write_generated

    made = generate_text(read_text(options.input), options.num_npus, passes=options.num_passes)
    write_generated(made, options.output)


def _convert_pytorch(options: argparse.Namespace) -> None:
    data = _read(options.input)
    from astrarium.profile.feeder_json import feeder_trace, is_feeder_json

    if is_feeder_json(data):
        data = feeder_trace(data, options.input)
    elif data.lstrip()[:1] == b"{" or data[:2] == b"\x1f\x8b":
        from astrarium.profile.link import link

        linked = link(options.input, None)
        for line in linked.report.lines():
            print(line, file=sys.stderr)
        if not linked.report.gpu_operations:
            note("a host trace alone: no kernels")
        data = linked.data
    else:
        from astrarium.trace import traces_of_bytes

        traces_of_bytes([data])     # refuses what is no trace
    _write(options.output, data)
    if options.simulate:
        from astrarium.cli.dispatch import dispatch

        dispatch(["run", "--trace", options.output])


def _trace_link(parser: Parser) -> Callable[[argparse.Namespace], None]:
    parser.add_argument("--rank", type=rank, required=True, help="the rank of both traces")
    parser.add_argument("--chakra-host-trace", required=True, metavar="FILE", help="ExecutionTraceObserver's file")
    parser.add_argument("--chakra-device-trace", required=True, metavar="FILE", help="Kineto's file")
    parser.add_argument("--output-file", required=True, metavar="FILE", help="a Chakra trace, whatever its name: "
                        "chakra_converter takes it as it is")
    parser.add_argument("--log-level", help="ignored")
    return _link


def _link(options: argparse.Namespace) -> None:
    from astrarium.profile.link import link

    linked = link(options.chakra_host_trace, options.chakra_device_trace, rank=options.rank)
    for line in linked.report.lines():
        print(line, file=sys.stderr)
    _write(options.output_file, linked.data)


def _visualizer(parser: Parser) -> Callable[[argparse.Namespace], None]:
    from astrarium.cli.trace_graph import draw

    parser.add_argument("--input_filename", required=True, help="the input")
    parser.add_argument("--output_filename", required=True, help="X.pdf, X.dot or X.graphml (svg and png too)")
    return lambda options: draw(options.input_filename, options.output_filename, 1000, None)


COMMANDS: Mapping[str, tuple[str, Callable[[Parser], Callable[[argparse.Namespace], None]]]] = {
    "chakra_converter": ("PyTorch or text workloads as Chakra traces.", _converter),
    "chakra_trace_link": ("Join a host and a device trace.", _trace_link),
    "chakra_visualizer": ("The graph of a Chakra trace as a picture.", _visualizer),
}
"""Command -> (one sentence, what takes its flags and gives what it does)."""


def run_command(name: str, argv: Sequence[str] | None = None) -> int:
    """One command; the exit code: 0 done, 1 the input, 2 usage."""
    sentence, make = COMMANDS[name]
    parser = Parser(prog=name, description=sentence)
    try:
        action = make(parser)
        action(parser.parse(list(sys.argv[1:] if argv is None else argv)))
    except AstrariumError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 2
    except KeyboardInterrupt:
        return 130
    return 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror or error})") from None


def _write(path: str, data: bytes) -> None:
    from astrarium.report.files import write_whole

    with write_whole(path) as stream:
        stream.write(data)


def converter() -> int:
    """The program chakra_converter."""
    return run_command("chakra_converter")


def trace_link() -> int:
    """The program chakra_trace_link."""
    return run_command("chakra_trace_link")


def visualizer() -> int:
    """The program chakra_visualizer."""
    return run_command("chakra_visualizer")
