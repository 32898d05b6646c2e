"""Batches over the machines of a Ray cluster (extra: ray). Tasks whose worker dies run again, elsewhere."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from astrarium.errors import AstrariumError, InputError
from astrarium.search.agents.libraries import needed

__all__ = ["RETRIES", "RayPool"]

RETRIES = 10        # times that one part of a batch may lose its worker
LOCAL = "local"


class RayPool:
    """A connection to a cluster: `local` starts one on this machine, `auto` takes the one that runs here, else
    `host:port` or `ray://host:port`. A connection that the process has already is used, and left open. Every machine
    needs the same Astrarium. Raises InputError where there is no Ray, or no cluster at that address."""

    def __init__(self, address: str):
        self._ray: Any = needed("evaluation over Ray", "ray", "ray")
        self._own = not self._ray.is_initialized()
        if self._own:
            more: dict[str, Any] = {"include_dashboard": False} if address == LOCAL else {}
            if address == LOCAL:        # a cluster of ours tells nobody about it, unless its user says otherwise
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            try:
                with _own_signals():
                    self._ray.init(address=address, log_to_driver=False, logging_level="ERROR", **more)
            except (ConnectionError, ValueError, RuntimeError, OSError) as error:
                first = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise InputError(f"ray {address}", f"no cluster answers ({first[:200]})",
                                 expected="local, auto, host:port or ray://host:port") from error
        self.cpus = max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def map(self, function: Callable[..., Any], shared: bytes, parts: Sequence[Any]) -> Iterator[Any]:
        """`function(shared, part)` of every part, in their order; all parts at once, as many as there are CPUs."""
        task = self._ray.remote(num_cpus=1, max_retries=RETRIES)(function)
        common = self._ray.put(shared)
        return self._answers([task.remote(common, part) for part in parts])

    def _answers(self, asked: Sequence[Any]) -> Iterator[Any]:
        left = list(asked)
        try:
            while left:
                found = self._ray.get(left[0])
                del left[0]         # before the answer goes out: nobody may ask for another one
                yield found
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, AstrariumError):
                raise error.cause from None
            raise
        except (self._ray.exceptions.WorkerCrashedError, self._ray.exceptions.NodeDiedError) as error:
            raise InputError("ray", f"a part of a batch lost its worker more than {RETRIES} times",
                             expected="workers that live; the same command goes on with this study") from error
        finally:
            for each in left:       # what ended the batch here ends its other parts there
                self._ray.cancel(each, force=True)

    def close(self) -> None:
        """Leaves the cluster, where this pool joined it."""
        if self._own:
            self._ray.shutdown()


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Ray takes over what SIGTERM does; this gives it back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
