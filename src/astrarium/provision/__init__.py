"""Which bandwidth per dim a budget should buy: LIBRA's question, with a certificate and a simulated answer.

`budget` what may be spent, `prices` US dollars per bandwidth of each dim, `floors` the time of a design as affine cuts
in the dims' inverse bandwidths, `barrier` one convex program, `cuts` the cutting planes that use it, `refine` the last
step on simulated times, `provision` the door.
"""

from __future__ import annotations

from astrarium.provision.answer import Allocation, Provisioned
from astrarium.provision.budget import Budget
from astrarium.provision.prices import dollars_per_bandwidth
from astrarium.provision.provision import provision, with_bandwidths

__all__ = ["Allocation", "Budget", "Provisioned", "dollars_per_bandwidth", "provision", "with_bandwidths"]
