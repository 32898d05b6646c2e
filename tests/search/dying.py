"""Objectives for test_ray.py: one kills its worker the first few times, one is slow."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import astrarium as ar
from astrarium.result import Result

DEATHS = 4


def makespan(_: ar.Design, result: Result) -> float:
    """The makespan, or SIGKILL while fewer than `DEATHS` marks stand in the folder that ASTRARIUM_DYING names."""
    folder = os.environ.get("ASTRARIUM_DYING")
    if folder is not None and float(result.makespan) % 7 < 3:
        for number in range(DEATHS):
            mark = Path(folder, str(number))
            try:
                mark.touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
    return float(result.makespan)


def slow(_: ar.Design, result: Result) -> float:
    """The makespan, after a tenth of a second."""
    time.sleep(0.1)
    return float(result.makespan)
