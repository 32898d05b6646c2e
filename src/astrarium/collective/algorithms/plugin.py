"""A plug-in's algorithm: what it makes and says is looked over before anything uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from astrarium.collective.algorithms.algorithm import Algorithm, Bound, Case, Counts, never
from astrarium.collective.algorithms.options import Options
from astrarium.errors import PluginError, asked
from astrarium.vocab import CommOp, PeerMode, Schedule

__all__ = ["plugin_algorithm"]

NAMES = ("program", "send_ptr", "send_peer", "send_needs", "send_match", "send_block_ptr", "recv_ptr", "recv_peer")
Require = Callable[[bool, str], None]


def plugin_algorithm(name: str, found: object) -> Algorithm:
    """What a plug-in registered, an `Algorithm` or only its `build`, with every answer checked. Its functions raise
    PluginError where the plug-in's raise, or give something else than they should; errors of ours pass: it may refuse
    an operation. Whether a schedule does what the operation promises is for `collective.exam` to say, in the plug-in's
    tests."""
    who = f"algorithm plug-in {name}"
    if not isinstance(found, Algorithm):
        if not callable(found):
            raise PluginError(who, f"is an object of {type(found).__qualname__}, neither an Algorithm nor its build")
        found = Algorithm(found)
    return replace(
        found, build=partial(_schedule, who, found), bound=partial(_bound, who, found),
        counts=partial(_counts, who, found), messages=partial(asked, who, found.messages),
        candidate=never if found.candidate is never else partial(asked, who, found.candidate),
        exact=never)     # nothing but a proof makes an estimate a lower bound


def _bound(who: str, algorithm: Algorithm, op: CommOp, n: int, blocks: int) -> Bound | None:
    found = asked(who, algorithm.bound, op, n, blocks)
    if found is not None and not isinstance(found, Bound):
        raise PluginError(who, f"bound() gave an object of {type(found).__qualname__}, which is no Bound")
    return found


def _counts(who: str, algorithm: Algorithm, case: Case) -> Sequence[Counts] | None:
    found = asked(who, algorithm.counts, case)
    if found is not None and not (isinstance(found, (list, tuple)) and found
                                  and all(isinstance(row, Counts) for row in found)):
        raise PluginError(who, "counts() gave neither Counts nor None")
    for row in found or ():
        if not all(0 <= number < np.inf for number in row):
            raise PluginError(who, f"counts() gave {row}; expected numbers of 0 or more")
    return found


def _schedule(who: str, algorithm: Algorithm, op: CommOp, n: int, options: Options) -> Schedule:
    made: object = asked(who, algorithm.build, op, n, options)
    if not isinstance(made, Schedule):
        raise PluginError(who, f"gave {'None' if made is None else f'an object of {type(made).__qualname__}'}, "
                               "which is no Schedule")
    if made.op != op or made.n != n:
        raise PluginError(who, f"gave a schedule of {made.op!r} on {made.n} participants for {op!r} on {n}")
    if made.blocks < 1:
        raise PluginError(who, f"gave a schedule of {made.blocks} blocks")

    def require(ok: bool, what: str) -> None:
        if not ok:
            raise PluginError(who, f"gave a broken schedule: {what}")

    _check(made, require)
    return made


def _check(schedule: Schedule, require: Require) -> None:
    """Arrays of the right types that fit each other; peers within range; every receive matched by one send."""
    for name in (*NAMES, "recv_reduce"):
        value: object = getattr(schedule, name)
        kind = np.int32 if name in NAMES else np.bool_
        require(isinstance(value, np.ndarray) and value.dtype == kind and value.ndim == 1
                and value.flags.c_contiguous, f"array {name} has the wrong type, shape or layout")
    columns, reduce = {name: getattr(schedule, name) for name in NAMES}, schedule.recv_reduce
    require(schedule.peer_mode in tuple(PeerMode), "peer mode out of range")
    n, sends, receives = schedule.n, columns["send_peer"].size, columns["recv_peer"].size
    require(n >= 1 and schedule.switches >= 0
            and columns["program"].size == n + schedule.switches, "schedule program of another size")
    require(columns["send_needs"].size == sends and columns["send_match"].size == sends and reduce.size == receives
            and columns["send_block_ptr"].size == sends + 1 and columns["send_ptr"].size == columns["recv_ptr"].size,
            "schedule arrays differ in length")
    for name, end in (("send_ptr", sends), ("recv_ptr", receives)):
        pointer = columns[name]
        require(pointer.size > 0 and int(pointer[0]) == 0 and int(pointer[-1]) == end
                and bool((np.diff(pointer) >= 0).all()), "schedule pointers do not ascend")
    program, blocks = columns["program"], columns["send_block_ptr"]
    require(bool(((program >= 0) & (program < columns["send_ptr"].size - 1)).all()), "schedule program out of range")
    require(int(blocks[0]) >= 0 and bool((np.diff(blocks.astype(np.int64)) >= 0).all()), "schedule blocks out of range")
    _check_numbers(schedule, require)
    _check_matches(schedule, require)


def _check_numbers(s: Schedule, require: Require) -> None:
    require(s.peer_mode != PeerMode.XOR or s.n & (s.n - 1) == 0, "an xor schedule needs a power of two")
    require(s.peer_mode == PeerMode.ABSOLUTE or not s.switches, "switches in a symmetric schedule")
    least = 0 if s.peer_mode == PeerMode.ABSOLUTE else 1    # a distance of 0 would be the participant itself
    for peers in (s.send_peer, s.recv_peer):
        require(bool(((peers >= least) & (peers < s.n + s.switches)).all()), "schedule peer out of range")
    receives = np.repeat(np.diff(s.recv_ptr), np.diff(s.send_ptr))
    fine = (s.send_needs >= 0) & (s.send_needs <= receives) & (s.send_match >= 0)
    require(bool(fine.all()), "schedule send out of range")


def _check_matches(s: Schedule, require: Require) -> None:
    """Walk all messages (of participant 0 where all are alike); every receive is taken once, from where it says."""
    alike = s.peer_mode != PeerMode.ABSOLUTE and bool((s.program == s.program[0]).all())
    who = np.arange(1 if alike else s.n + s.switches)
    program = s.program[who]
    counts = (s.send_ptr[program + 1] - s.send_ptr[program]).astype(np.int64)
    source = np.repeat(who, counts)
    k = np.arange(source.size) - np.repeat(np.cumsum(counts) - counts, counts) + s.send_ptr[s.program[source]]
    peer = _peer(s, source, s.send_peer[k])
    require(bool((peer != source).all()), "a schedule sends to itself")
    theirs, match = s.program[peer], s.send_match[k].astype(np.int64)
    receives = s.recv_ptr[theirs + 1] - s.recv_ptr[theirs]
    require(bool((match < receives).all()), "a schedule's send meets no receive of its own")
    taken = match if alike else match + peer * 2**32
    require(np.unique(taken).size == taken.size, "a schedule's send meets no receive of its own")
    back = _peer(s, peer, s.recv_peer[s.recv_ptr[theirs] + match])
    require(bool((back == source).all()), "a schedule's receive comes from elsewhere")
    wanted = int((s.recv_ptr[program + 1] - s.recv_ptr[program]).sum())
    require(taken.size == wanted, "a schedule's receive without a send")


def _peer(s: Schedule, index: npt.NDArray[Any], peer: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    if s.peer_mode == PeerMode.RELATIVE:
        return np.asarray((index.astype(np.int64) + peer) % s.n, np.int64)
    return np.asarray(index ^ peer if s.peer_mode == PeerMode.XOR else peer, np.int64)
