"""Devices and networks with published figures. Every row names its source; unpublished figures are left out.

    device = catalog.device("h100_sxm")
    ar.Roofline(**device.compute), ar.Memory(**device.memory)

In a design the names replace sections: `compute: h100_sxm` (its best compute model), `network: dgx_h100_nvswitch`
(`Config.shorthand`).
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from astrarium.catalog.columns import COLUMNS, PRECISIONS
from astrarium.catalog.files import VARIABLE, parse, rows_of
from astrarium.errors import InputError, nearest
from astrarium.units import FlopRate

__all__ = ["KINDS", "PRECISIONS", "Device", "Host", "Link", "device", "host", "load", "name_of", "network", "overlay",
           "row_of", "rows_in"]

ASSUMED_INSIDE, ASSUMED_BETWEEN = "1 us", "3 us"
"""Latency of a hop inside a host and between hosts where a row of networks has none: no source, an assumption. Measured
collectives have their own latencies; these are for messages and simulated collectives."""
BASED_ON = "based_on"
FEW = 12                # rows of a kind that an error lists
SHORT = 3               # letters of an alias that say too little to be the beginning of what is meant
ALIKE = 4               # rows of the same letters that it lists
TUNED = re.compile(r"(instruct|thinking|base|chat|hf|it)(\d{4})?$|instruct(?=v\d+$)")
"""Parts of folded names of checkpoints that have the shape of their base: -Instruct, -Instruct-2507, -Instruct-v0.1."""
MAKERS = re.compile(r"^(nvidia|tesla|amd|instinct|google|aws|intel)+")      # as drivers print devices
KINDS = ("devices", "networks", "hosts", "links", "memories", "models", "collectives", "gpus", "stacks", "parts",
         "facilities", "tariffs", "regions", "costs")
RECORDS = ("fitted", "intervals", "left_out", "extrapolation", "recipes", "engine_collectives",
           "serving_intervals")
"""What validation left: rows that were fitted, intervals of step times, errors of sources that no fit had, how far
intervals have to go for regimes that no row has. And what tables of measurements left: collectives of engines.
serving_intervals: of TPOT of serving stacks."""


class Device(Struct, frozen=True):
    """`compute` and `memory` are keyword arguments of Roofline and Memory; `row`: all columns, as text with units
    (`clock`, `l2`, `power`, `scale_up`, ...; unpublished columns are missing)."""

    name: str
    title: str
    compute: Mapping[str, Any]
    memory: Mapping[str, Any]
    source: str
    row: Mapping[str, Any]

    @property
    def precisions(self) -> tuple[str, ...]:
        """Number formats that have their own peak rate."""
        return tuple(self.row.get("peaks", ()))

    def peak(self, precision: str) -> FlopRate:
        """Dense peak rate of matrix products in a number format. Raises InputError for one without a published rate."""
        rates = {"bf16": self.row["peak"], "fp16": self.row["peak"], **self.row.get("peaks", {})}
        if precision not in rates:
            known = precision in PRECISIONS
            raise InputError(f"catalog.devices.{self.name}.peaks",
                             f"has no rate of {precision}" if known else f"{precision[:60]!r} is no number format",
                             expected="one of " + ", ".join(rates), did_you_mean=nearest(precision, rates))
        return FlopRate(rates[precision])


class Host(Struct, frozen=True):
    """`npus` of a `device`, joined by the dims `inner`; `outer`, where there is one, joins hosts (rows of networks)."""

    name: str
    title: str
    device: str
    npus: int
    inner: tuple[str, ...]
    outer: str | None
    source: str


class Link(Struct, frozen=True):
    """`dim` holds keyword arguments of the dim class named by `shape` (its `fabric`: the row of the same name in
    collectives.toml, where collectives were measured on it); npus and latency, where None, are yours. `switch_ports`:
    of the switches that it is built from, None if unknown."""

    name: str
    title: str
    shape: str
    npus: int | None
    latency: str | None
    dim: Mapping[str, Any]
    source: str
    switch_ports: int | None = None

    def hop(self, inside: bool) -> tuple[str, str]:
        """(latency of a hop, what is assumed where the row says none): `inside` a host, or between hosts."""
        if self.latency is not None:
            return self.latency, ""
        latency = ASSUMED_INSIDE if inside else ASSUMED_BETWEEN
        return latency, f"{latency} latency of a hop of {self.name} (assumed: not published)"

    @property
    def plain(self) -> dict[str, Any]:
        """The dim as plain data: what the row says of shape, npus, bandwidth, latency and fabric. A row without a
        latency has that of the messages of its measured collectives."""
        fabric = load("collectives").get(self.dim.get("fabric", ""), {})
        known = {"shape": self.shape, "npus": self.npus, **self.dim, "latency": self.latency or fabric.get("latency")}
        return {key: value for key, value in known.items() if value is not None}


def load(kind: str) -> Mapping[str, Mapping[str, Any]]:
    """The rows of a kind, name -> columns, in the order of the file. Raises InputError for an unknown kind.

    Rows of files in `overlay` follow the catalog's. A file is read once per process; what comes back cannot be
    changed.
    """
    return _rows(kind, os.environ.get(VARIABLE, ""))


@functools.cache
def _rows(kind: str, files: str) -> Mapping[str, Mapping[str, Any]]:
    if kind not in KINDS + RECORDS:
        raise InputError("catalog", f"{kind[:60]!r} is not known", expected="one of " + ", ".join(KINDS),
                         did_you_mean=nearest(kind, KINDS))
    with open(os.path.join(os.path.dirname(__file__), f"{kind}.toml"), encoding="utf-8") as stream:
        ours = parse(stream.read())     # importlib.resources costs 10 ms at the start of a command
    rows = {**ours, **(rows_of(kind, files, ours) if kind in COLUMNS else {})}
    found: Mapping[str, Mapping[str, Any]] = _frozen({name: _whole(f"catalog.{kind}.{name}", row, rows)
                                                      for name, row in rows.items()})
    return found


def _whole(path: str, row: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """A row with what it leaves out, table by table, from the row that it is `based_on`."""
    base = row.get(BASED_ON)
    if base is None:
        return row
    if base not in rows or BASED_ON in rows[base]:
        whole = [name for name, each in rows.items() if BASED_ON not in each]
        raise InputError(f"{path}.{BASED_ON}", f"{str(base)[:60]!r} is not the name of a row",
                         expected="one of " + ", ".join(whole), did_you_mean=nearest(str(base), whole))
    return {**rows[base], **{key: {**rows[base].get(key, {}), **value} if isinstance(value, Mapping) else value
                             for key, value in row.items()}}


def _frozen(value: Any) -> Any:
    """Tables and lists that cannot be changed, all the way down."""
    if isinstance(value, dict):
        return MappingProxyType({key: _frozen(entry) for key, entry in value.items()})
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@contextmanager
def overlay(*files: str | os.PathLike[str]) -> Iterator[None]:
    """Add the rows of these files to the catalog for the length of the block, in worker processes too. Raises
    InputError for a file that cannot be read, a kind, column or value that the catalog does not have, and a name that
    is taken."""
    before = os.environ.get(VARIABLE)
    paths = [os.path.abspath(os.fspath(file)) for file in files]
    if bad := next((path for path in paths if os.pathsep in path), None):
        raise InputError(bad, f"has a {os.pathsep!r} in its name", expected="a path without it")
    if paths:
        os.environ[VARIABLE] = os.pathsep.join(filter(None, (before, *paths)))
    try:
        if paths:
            for kind in COLUMNS:
                load(kind)
        yield
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before


def rows_in(kind: str, file: str) -> tuple[str, ...]:
    """Names of the rows of a kind in a file of your own. Raises InputError for none."""
    found = tuple(rows_of(kind, os.path.abspath(file), {}))
    if not found:
        raise InputError(file, f"has no rows of {kind}", expected=f"tables such as [{kind}.my_name]")
    return found


def name_of(kind: str, text: str) -> str:
    """The name of the row that `text` means: its name, or else one of its `aliases`, whatever the case and the signs
    between words (H200, Llama-3.1-405B), with or without the organisation and the tuning of a Hugging Face id
    (meta-llama/..., -Instruct), and the maker of a device (NVIDIA H100 80GB HBM3). Raises InputError with the nearest
    match."""
    rows = load(kind)
    if text in rows:
        return text
    known, last = _folded(kind, os.environ.get(VARIABLE, "")), _fold(text.rpartition("/")[2])
    while last not in known:
        bare = MAKERS.sub("", TUNED.sub("", last))
        if bare == last:
            begun = max((each for each in known if len(each) > SHORT and last.startswith(each)), key=len, default="")
            close = known.get(begun) or nearest(text, rows) or known.get(nearest(last, known) or "")
            every = f"a name that `astrarium list {kind}` prints" if len(rows) > FEW else "one of " + ", ".join(rows)
            if close is None and len(rows) > FEW and (alike := _alike(text, rows)):
                every += f" ({', '.join(alike)}, ...)"
            raise InputError(f"catalog.{kind}", f"{text[:60]!r} is not known", expected=every, did_you_mean=close)
        last = bare
    return known[last]


def _alike(text: str, rows: Iterable[str]) -> list[str]:
    """The first rows that begin with the letters of `text` before its digits: h100_sxm and others for H999."""
    letters = re.split("[^a-z]", text.casefold(), maxsplit=1)[0]
    return [name for name in rows if letters and re.match(rf"{letters}(?![a-z])", name.casefold())][:ALIKE]


@functools.cache
def _folded(kind: str, files: str) -> Mapping[str, str]:
    """Folded name or alias -> name; where two rows have one, the first."""
    found = dict[str, str]()
    for name, row in _rows(kind, files).items():
        for each in (name, *row.get("aliases", ())):
            found.setdefault(_fold(each), name)
    return found


def _fold(text: str) -> str:
    return "".join(each for each in text.casefold() if each.isalnum())


def row_of(kind: str, name: str) -> Mapping[str, Any]:
    """A row of a kind by name or alias. Raises InputError with the nearest match."""
    return load(kind)[name_of(kind, name)]


def device(name: str) -> Device:
    """A device by name or alias. Raises InputError with the nearest match."""
    name = name_of("devices", name)
    row = row_of("devices", name)
    memory = MappingProxyType({key: row[key] for key in ("capacity", "bandwidth")})
    return Device(name, row["title"], MappingProxyType({"peak": row["peak"]}), memory, row["source"], row)


def host(name: str) -> Host:
    """A host by name. Raises InputError with the nearest match."""
    name = name_of("hosts", name)
    row = row_of("hosts", name)
    inner = (row["inner"],) if isinstance(row["inner"], str) else tuple(row["inner"])
    return Host(name, row["title"], row["device"], row["npus"], inner, row.get("outer"), row["source"])


def network(name: str) -> Link:
    """A network by name. Raises InputError with the nearest match."""
    name = name_of("networks", name)
    row = row_of("networks", name)
    known = ("bandwidth", "bandwidth_per_npu")
    measured = {"fabric": name} if name in load("collectives") else {}
    dim = MappingProxyType({**{key: row[key] for key in known if key in row}, **measured})
    return Link(name, row["title"], row["shape"], row.get("npus"), row.get("latency"), dim, row["source"],
                row.get("switch_ports"))
