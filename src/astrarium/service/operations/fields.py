"""Fields that several requests have, and the words of their command lines."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

__all__ = ["Changes", "DesignFile", "command", "sets"]

DesignFile = Annotated[str | dict[str, Any], Meta(
    description="A design: the name of a file in the folder (such as 'design.yaml'), or its content as an object or "
                "YAML text, which is saved first. Sections: workload, compute, memory, network, collective, system, "
                "cost; `plan` writes whole designs, catalog('field') lists every field. Values have units: '400 GB/s', "
                "'2 us', '80 GiB'.",
    examples=["llama.yaml", {"workload": {"source": "collective", "op": "all_reduce", "payload": "100 MB"},
                             "network": {"dims": [{"shape": "switch", "npus": 8, "bandwidth": "450 GB/s",
                                                   "latency": "500 ns"}]}}])]

Changes = Annotated[dict[str, Any], Meta(
    description="Changes to make first: path of a field -> value. Paths as in the design: 'workload.tp', "
                "'network.dims[1].bandwidth'. A text has its unit.",
    examples=[{"network.dims[1].bandwidth": "100 GB/s", "workload.global_batch": 1024}])]


def sets(changes: Mapping[str, Any], flag: str = "--set") -> list[str]:
    """Changes as words of a command line."""
    words = []
    for path, value in changes.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        words += [flag, f"{path}={text}"]
    return words


def command(verb: str, *words: str | Sequence[str]) -> str:
    """A command line of a shell."""
    flat = [each for word in words for each in ([word] if isinstance(word, str) else word)]
    return shlex.join(["astrarium", *verb.split(), *flat])
