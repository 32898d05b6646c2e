"""Host and device traces of PyTorch's profilers to Chakra execution traces.

A host trace (ExecutionTraceObserver) knows operators, tensors and call structure; a device trace (Kineto) knows times,
kernels, streams and runtime calls. `link` joins them and works out who waited for whom.
"""

from __future__ import annotations

from astrarium.profile.link.linker import Linked, link, write_linked
from astrarium.profile.link.report import LinkReport

__all__ = ["LinkReport", "Linked", "link", "write_linked"]
