"""Network plug-ins behind the C ABI of `native/engine/plugins/astrarium_network.h`: shared libraries, in any language.

`load` opens one. The compiled core then calls its functions directly; `Library.open` is the same network behind the
Python protocol, through ctypes: for the exam, and for the pure-Python engine.
"""

from __future__ import annotations

import ctypes as c
import logging
import os
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from astrarium.engine.plan import NetworkPlan
from astrarium.engine.plugins.network import NEVER, Callback
from astrarium.errors import InputError, PluginError

__all__ = ["PREFIX", "VERSION", "Library", "LibraryNetwork", "load"]

PREFIX = "foreign:"
"""`network.backend: foreign:path/to/lib.so` names a shared library."""
VERSION = 1
FUNCTION = "astrarium_network_v1"

_CALLBACK = c.CFUNCTYPE(None, c.c_void_p)
_NOW = c.CFUNCTYPE(c.c_int64, c.c_void_p)
_SCHEDULE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int64, c.c_void_p, c.c_void_p)
_DELIVERED = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_uint64)
_LOG = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)
_MESSAGE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_uint64, c.c_int64, c.c_int32, c.c_int32, c.c_int64)


class _Dim(c.Structure):
    _fields_ = [("shape", c.c_int32), ("npus", c.c_int32), ("bandwidth", c.c_double), ("latency", c.c_double)]


class _Fabric(c.Structure):
    _fields_ = [("size", c.c_uint32), ("dim_size", c.c_uint32), ("npus", c.c_int32), ("dims", c.c_int32),
                ("dim", c.POINTER(_Dim))]


class _Host(c.Structure):
    _fields_ = [("size", c.c_uint32), ("version", c.c_uint32), ("run", c.c_void_p), ("now", _NOW),
                ("schedule", _SCHEDULE), ("delivered", _DELIVERED), ("log", _LOG)]


class _Table(c.Structure):
    _fields_ = [("size", c.c_uint32), ("version", c.c_uint32), ("name", c.c_char_p),
                ("create", c.CFUNCTYPE(c.c_void_p, c.POINTER(_Host), c.POINTER(_Fabric), c.c_char_p)),
                ("destroy", c.CFUNCTYPE(None, c.c_void_p)), ("sim_send", _MESSAGE), ("sim_recv", _MESSAGE),
                ("sim_schedule", _SCHEDULE), ("sim_get_time", _NOW), ("next_event_time", _NOW),
                ("advance", c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int64)),
                ("error", c.CFUNCTYPE(c.c_char_p, c.c_void_p))]


@dataclass(frozen=True)      # not a Struct: equality leaves a field out
class Library:
    """A shared library that was opened: `address` is its table's. `options` is handed to each network it makes."""

    path: str
    name: str
    address: int
    options: str = ""
    handle: Any = field(default=None, repr=False, compare=False)   # keeps the library open

    def open(self, fabric: NetworkPlan) -> LibraryNetwork:
        """A network for one run behind the Python protocol. Raises PluginError when the library cannot make one."""
        return LibraryNetwork(self, fabric)


def load(path: str | os.PathLike[str], options: str = "") -> Library:
    """Open a shared library and read its table. Raises InputError where it is none, or of another ABI version."""
    where = os.path.abspath(os.fspath(path))    # a bare name would be looked for in the system's folders
    try:
        handle = c.CDLL(where)
        function = handle[FUNCTION]
    except (OSError, AttributeError) as error:
        raise InputError(os.fspath(path), f"is not a network plug-in ({error})",
                         expected=f"a shared library that exports {FUNCTION} (astrarium_network.h)") from error
    function.restype, function.argtypes = c.c_void_p, []
    address = function()
    if not address:
        raise InputError(os.fspath(path), f"{FUNCTION}() gave no table")
    table = _Table.from_address(address)
    if table.version != VERSION or table.size < c.sizeof(_Table):
        raise InputError(os.fspath(path), f"its table has version {table.version} and {table.size} bytes",
                         expected=f"version {VERSION} and at least {c.sizeof(_Table)} bytes")
    name = (table.name or b"unnamed").decode("utf-8", "replace")
    return Library(where, name, int(address), options, handle)


class LibraryNetwork:
    """One network of a library as a `Network`. Callbacks are kept by number until the library calls them."""

    def __init__(self, library: Library, fabric: NetworkPlan) -> None:
        self._network: int | None = None
        self._who = f"network plug-in {library.name}"
        self._library, self._table = library, _Table.from_address(library.address)
        self._open: dict[int, Callback] = {}
        self._number = self._now = 0
        self._timers: list[tuple[int, int, int, int]] = []      # of a network without a clock of its own
        self._fault: BaseException | None = None
        self._keep: dict[int, Any] = {}
        self._host = _Host(c.sizeof(_Host), VERSION, None, _NOW(lambda _: self._now), _SCHEDULE(self._schedule),
                           _DELIVERED(self._delivered), _LOG(self._log))
        self._fabric = _fabric(fabric)
        self._network = self._table.create(c.byref(self._host), c.byref(self._fabric), library.options.encode())
        if not self._network:
            raise PluginError(self._who, f"create() failed: {self._words(None)}")

    def __del__(self) -> None:
        if self._network:
            self._table.destroy(self._network)

    def sim_send(self, msg_size: int, src: int, dst: int, callback: Callback, tag: int = 0) -> None:
        """As `Network` says. Raises PluginError when the library reports a failure."""
        self._number += 1
        self._open[self._number] = callback
        self._check(self._table.sim_send(self._network, self._number, msg_size, src, dst, tag), "sim_send")

    def sim_recv(self, msg_size: int, src: int, dst: int, callback: Callback, tag: int = 0) -> None:
        """As `Network` says. Raises PluginError when the library reports a failure."""
        self._number += 1
        self._open[self._number] = callback
        self._check(self._table.sim_recv(self._network, self._number, msg_size, src, dst, tag), "sim_recv")

    def sim_schedule(self, delta: int, callback: Callback) -> None:
        """As `Network` says."""
        def run(_: Any) -> None:
            self._keep.pop(number)
            self._guarded(callback)

        self._number += 1
        number, thunk = self._number, _CALLBACK(run)
        self._keep[number] = thunk
        self._check(self._table.sim_schedule(self._network, delta, c.cast(thunk, c.c_void_p), None), "sim_schedule")

    def sim_get_time(self) -> int:
        """The library's clock, ps."""
        return int(self._table.sim_get_time(self._network))

    def next_event_time(self) -> int:
        """The library's next event, ps, or NEVER."""
        due = self._timers[0][0] if self._timers else NEVER
        if not self._table.next_event_time:
            return due
        return min(due, int(self._table.next_event_time(self._network)))

    def advance(self, to: int) -> None:
        """Run the library up to `to`."""
        while self._timers and self._timers[0][0] <= to:
            self._now, _, callback, argument = heappop(self._timers)
            _CALLBACK(callback)(argument)
            self._check(0, "schedule")
        self._now = to
        if self._table.advance:
            self._check(self._table.advance(self._network, to), "advance")

    def _delivered(self, _: Any, message: int) -> int:
        callback = self._open.pop(message, None)
        if callback is None:
            self._fault = self._fault or PluginError(
                self._who, "called a callback that it does not have, or called it twice")
            return -1
        return self._guarded(callback)

    def _schedule(self, _: Any, delta: int, callback: int | None, argument: int | None) -> int:
        if delta < 0 or not callback:
            self._fault = self._fault or PluginError(self._who, f"schedules a callback {delta} ps from now")
            return -1
        self._number += 1
        heappush(self._timers, (self._now + delta, self._number, callback, argument or 0))
        return 0

    def _log(self, _: Any, level: int, text: bytes | None) -> None:
        words = (text or b"").decode("utf-8", "replace")
        logging.getLogger(f"astrarium.plugins.{self._library.name}").log(level, "%s", words)

    def _guarded(self, callback: Callback) -> int:
        """Run a callback; what it raises waits until the library's function has returned."""
        try:
            callback()
        except BaseException as error:  # an exception cannot cross the library's own frames; _check raises it
            self._fault = self._fault or error
            return -1
        return 0

    def _check(self, status: int, function: str) -> None:
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        if status:
            raise PluginError(self._who, f"{function}() failed: {self._words(self._network)}")

    def _words(self, network: Any) -> str:
        text = self._table.error(network) if self._table.error else None
        return text.decode("utf-8", "replace") if text else "it does not say why"


def _fabric(network: NetworkPlan) -> _Fabric:
    dims = (_Dim * len(network.dims))(*(_Dim(int(d.shape), d.npus, d.bandwidth, d.latency) for d in network.dims))
    npus = 1
    for dim in network.dims:
        npus *= dim.npus
    return _Fabric(c.sizeof(_Fabric), c.sizeof(_Dim), npus, len(dims), dims)
