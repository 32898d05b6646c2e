"""The commands of Chakra's own tools under their names and with their flags; each is a verb of ours underneath."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence

from astrarium.cli.arguments import Parser, rank, whole
from astrarium.errors import AstrariumError, InputError

__all__ = ["COMMANDS", "converter", "generator", "jsonizer", "run_command", "timeline_visualizer", "trace_link",
           "visualizer"]


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
    from astrarium.trace.read import convert_file

    found = convert_file(options.input)
    for line in found.notes:
        print(line, file=sys.stderr)
    _write(options.output, found.data)
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


def _generator(parser: Parser) -> Callable[[argparse.Namespace], None]:
    for flag, default, words in (("num_npus", 64, "ranks"), ("default_runtime", 5, "microseconds of compute nodes"),
                                 ("default_tensor_size", 1024, "bytes of memory nodes"),
                                 ("default_comm_size", 65536, "bytes of communication nodes")):
        parser.add_argument(f"--{flag}", type=whole, default=default, help=f"{words} ({default})")
    return _generate


def _generate(options: argparse.Namespace) -> None:
    from astrarium.trace.samples import sample_traces
    from astrarium.trace.write import write_files

    write_files(sample_traces(options.num_npus, runtime=options.default_runtime,
                              tensor_size=options.default_tensor_size, comm_size=options.default_comm_size))


def _in_out(parser: Parser, output: str) -> None:
    parser.add_argument("--input_filename", required=True, help="the input")
    parser.add_argument("--output_filename", required=True, help=output)


def _jsonizer(parser: Parser) -> Callable[[argparse.Namespace], None]:
    _in_out(parser, "JSON objects, one after the other")
    return _jsonize


def _jsonize(options: argparse.Namespace) -> None:
    from astrarium.config.whole import write_whole
    from astrarium.report.trace.chakra_json import chakra_json
    from astrarium.trace import read_traces
    from astrarium.trace.write import node_messages

    lines = chakra_json(node_messages(read_traces([options.input_filename]).file_bytes(0)))
    with write_whole(options.output_filename) as stream:
        stream.writelines(f"{line}\n".encode("utf-8", "surrogateescape") for line in lines)


def _visualizer(parser: Parser) -> Callable[[argparse.Namespace], None]:
    from astrarium.cli.trace_graph import draw

    _in_out(parser, "X.pdf, X.dot or X.graphml (svg and png too)")
    return lambda options: draw(options.input_filename, options.output_filename, 1000, None)


def _timeline(parser: Parser) -> Callable[[argparse.Namespace], None]:
    _in_out(parser, "JSON for chrome://tracing and ui.perfetto.dev")
    parser.add_argument("--num_npus", type=whole, required=True, help="NPUs")
    parser.add_argument("--npu_frequency", type=whole, required=True, help="MHz")
    parser.add_argument("--log_filename", help="ignored")
    return _draw_timeline


def _draw_timeline(options: argparse.Namespace) -> None:
    from astrarium.config.whole import write_whole
    from astrarium.report.timeline.csv import timeline_events

    lines = _read(options.input_filename).decode("utf-8", "replace").splitlines()
    events = list(timeline_events(lines, options.num_npus, options.npu_frequency, options.input_filename))
    with write_whole(options.output_filename) as stream:
        stream.write(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}).encode())


COMMANDS: Mapping[str, tuple[str, Callable[[Parser], Callable[[argparse.Namespace], None]]]] = {
    "chakra_converter": ("PyTorch or text workloads as Chakra traces.", _converter),
    "chakra_trace_link": ("Join a host and a device trace.", _trace_link),
    "chakra_generator": ("Small traces, one family per kind of node, in this folder.", _generator),
    "chakra_jsonizer": ("A Chakra trace as JSON.", _jsonizer),
    "chakra_visualizer": ("The graph of a Chakra trace as a picture.", _visualizer),
    "chakra_timeline_visualizer": ("A list of issues and callbacks as a timeline.", _timeline),
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
    from astrarium.config.whole import write_whole

    with write_whole(path) as stream:
        stream.write(data)


def converter() -> int:
    """The program chakra_converter."""
    return run_command("chakra_converter")


def trace_link() -> int:
    """The program chakra_trace_link."""
    return run_command("chakra_trace_link")


def generator() -> int:
    """The program chakra_generator."""
    return run_command("chakra_generator")


def jsonizer() -> int:
    """The program chakra_jsonizer."""
    return run_command("chakra_jsonizer")


def visualizer() -> int:
    """The program chakra_visualizer."""
    return run_command("chakra_visualizer")


def timeline_visualizer() -> int:
    """The program chakra_timeline_visualizer."""
    return run_command("chakra_timeline_visualizer")
