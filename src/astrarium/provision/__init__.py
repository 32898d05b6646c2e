"""Which bandwidth per dim a budget should buy: LIBRA's question, answered by simulations.

`budget` what may be spent, `prices` US dollars per bandwidth of each dim, `pattern` the search, `provision` the door.
"""

from __future__ import annotations

from astrarium.provision.answer import Allocation, Provisioned
from astrarium.provision.budget import Budget
from astrarium.provision.prices import dollars_per_bandwidth
from astrarium.provision.provision import provision, with_bandwidths

__all__ = ["Allocation", "Budget", "Provisioned", "dollars_per_bandwidth", "provision", "with_bandwidths"]
