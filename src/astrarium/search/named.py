"""Short names of objectives over figures."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["NAMED"]

NAMED: Mapping[str, str] = MappingProxyType({
    "runtime_x_bandwidth": "makespan * network_bandwidth",
    "runtime_x_cost": "makespan * network_cost",
    "performance_per_bandwidth": "1e9 / (makespan * network_bandwidth)",
    "performance_per_cost": "1e9 / max(1, makespan * network_cost)",
    "throughput_per_dollar": "1e9 / max(1, makespan * system_cost)",
    "energy_x_delay": "energy * makespan",
})
"""Short names of objectives that papers use (COSMIC: runtime x bandwidth per NPU, runtime x network cost)."""
