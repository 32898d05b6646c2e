"""ASTRA-sim's own flags, for the verbs that read its inputs."""

from __future__ import annotations

import argparse
import reprlib
from typing import TYPE_CHECKING

from astrarium.cli.arguments import Parser, truth, whole

if TYPE_CHECKING:
    from astrarium.astra_sim.files import AstraInputs

__all__ = ["astra_defaults", "astra_flags", "astra_inputs", "astra_notes"]

FILES = (
    ("workload", "PREFIX", True, "the traces: PREFIX.<rank>.et"),
    ("system", "FILE", True, "system JSON"),
    ("network", "FILE", True, "network YAML"),
    ("remote-memory", "FILE", False, "remote memory JSON"),
    ("comm-group", "FILE", False, "communicator groups JSON"),
    ("logging", "FILE", False, "accepted; no log files are written"),
)


NETWORK_KEYS = ("topology", "npus_count", "bandwidth", "latency")


def astra_flags(parser: Parser, *, required: bool = True) -> None:
    """Adds ASTRA-sim's flags, with its defaults, and `--backend`, which picks one of its two analytical programs."""
    for name, metavar, needed, text in FILES:
        parser.add_argument(f"--{name}-configuration", metavar=metavar, required=required and needed, help=text)
    parser.add_argument("--logging-folder", metavar="DIR", help="accepted; no log files are written")
    parser.add_argument("--num-queues-per-dim", metavar="N", type=whole, default=1, help="queues per dim (1)")
    for name in ("compute", "comm"):
        parser.add_argument(f"--{name}-scale", metavar="X", type=_scale, default=1.0,
                            help="accepted without effect, as in ASTRA-sim")
    parser.add_argument("--injection-scale", metavar="X", type=_scale, default=1.0, help="times endpoint-delay (1)")
    parser.add_argument("--rendezvous-protocol", metavar="true|false", type=truth, nargs="?", const=True,
                        default=False, help="a request from the receiver precedes every message (false)")
    parser.add_argument("--backend", choices=("congestion_unaware", "congestion_aware"), default="congestion_unaware",
                        help="which of ASTRA-sim's analytical networks (congestion_unaware)")


def astra_defaults() -> dict[str, object]:
    """The flags of `astra_flags` and their defaults."""
    parser = Parser(prog="", description="")
    astra_flags(parser, required=False)
    return {action.option_strings[-1]: action.default for action in parser._actions if action.dest != "help"}


def _scale(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if 0 <= value < 2**31:
        return value
    raise argparse.ArgumentTypeError(f"{text[:40]!r}; expected a number of at least 0")


def astra_inputs(options: argparse.Namespace) -> AstraInputs:
    """The inputs that the flags name, parsed. InputError names file and key."""
    from astrarium.astra_sim.files import read_inputs

    return read_inputs(options.workload_configuration, options.system_configuration, options.network_configuration,
                       options.remote_memory_configuration, options.comm_group_configuration, backend=options.backend,
                       queues_per_dim=options.num_queues_per_dim, injection_scale=options.injection_scale,
                       rendezvous=options.rendezvous_protocol)


def _network_notes(path: str) -> list[str]:
    """The network file's keys that ASTRA-sim does not read."""
    from astrarium.astra_sim.keys import load_yaml
    from astrarium.errors import nearest

    said = []
    for key in load_yaml(path):
        if key not in NETWORK_KEYS:
            close = nearest(key, NETWORK_KEYS) if isinstance(key, str) else None
            hint = f"; did you mean {close!r}?" if close else ""
            said.append(f"{path}: key {reprlib.repr(key)} is not read by ASTRA-sim{hint}")
    return said


def astra_notes(options: argparse.Namespace, inputs: AstraInputs) -> list[str]:
    """What of files and flags has no effect."""
    said = [*inputs.notes, *_network_notes(options.network_configuration)]
    said += [f"--{name}-scale changes nothing (nor does it in ASTRA-sim)" for name in ("compute", "comm")
             if getattr(options, f"{name}_scale") != 1]
    if options.logging_configuration not in (None, "empty") or options.logging_folder is not None:
        said.append("no log files are written; --logging-configuration and --logging-folder are ignored")
    return said
