"""Check a launch and run it: in the compiled core, or in Python where there is none."""

from __future__ import annotations

from astrarium.errors import InputError
from astrarium.gpu.engine._native import have_core, run_compiled
from astrarium.gpu.engine.check import MOST_PS, check
from astrarium.gpu.engine.recorded import MOST_BINS
from astrarium.gpu.engine.values import Finished, Launch

__all__ = ["run_launch"]

MOST_THREADS = 256


def run_launch(launch: Launch, *, fold: bool = True, pure: bool = False, threads: int = 1,
               record: int = 0, path: str = "launch") -> Finished:
    """Run `launch` to its end; errors name `path`.

    `fold`: where all GPUs do the same, simulate one of them: same integers. `pure`: in Python. `threads`: of the
    compiled core; they share the GPUs that are simulated, and change no integer. `record`: keep when operations ended,
    and the use of ports in bins of this width in ps (`Finished.recorded`), 65,536 bins at most; 0: nothing. Raises
    InputError for a launch that is broken and for bins that are too short, StallError when workgroups wait for ever.
    """
    check(launch, path=path)
    if not 1 <= threads <= MOST_THREADS:
        raise InputError("threads", str(threads), expected=f"1 to {MOST_THREADS}")
    if not 0 <= record <= MOST_PS:
        raise InputError("record", str(record), expected=f"0 to {MOST_PS} ps")
    finished = _run(launch, fold, pure, threads, record)
    if record and finished.makespan // record >= MOST_BINS:
        raise InputError("record", f"{record} ps", expected=f"at least {finished.makespan // MOST_BINS + 1} ps: the "
                         f"run takes {finished.makespan} ps, and {MOST_BINS:,} bins are kept")
    return finished


def _run(launch: Launch, fold: bool, pure: bool, threads: int, record: int) -> Finished:
    if have_core() and not pure:
        return run_compiled(launch, fold=fold, threads=threads, record=record)
    from astrarium.gpu.oracle import run

    return run(launch, fold=fold, record=record)
