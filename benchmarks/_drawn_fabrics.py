"""Draws fabrics of blueprints, their link speeds, and what NPUs send each other."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["TRAFFIC", "fabric_of", "sends_of"]

RATES, LATENCIES = (12.5, 25.0, 50.0, 100.0), (150.0, 300.0, 500.0, 1000.0)     # GB/s, ns
TRAFFIC = ("permutation", "incast", "ring", "all_to_all")


def fabric_of(rng: random.Random, npus: int) -> tuple[str, Any]:
    """(blueprint and sizes in words, the Network of back end packets) of about so many NPUs."""
    import astrarium as ar

    name, sizes, links = rng.choice((_clos, _clos3, _rail, _dragonfly, _torus))(rng, npus)
    numbers: dict[str, Any] = {
        link: {"bandwidth": f"{rng.choice(RATES)} GB/s", "latency": f"{rng.choice(LATENCIES)} ns"} for link in links}
    if name.startswith("dgx"):
        numbers = {"pcie": "free", **{link: {"latency": f"{rng.choice(LATENCIES)} ns"} for link in ("rail", "spine")}}
    network = ar.Network(fabric=ar.blueprint(name, links=numbers, **sizes), backend="packets", ecmp=rng.randrange(9))
    return f"{name} {', '.join(f'{key} {value}' for key, value in sizes.items())}", network


def _clos(rng: random.Random, npus: int) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    ports = 2 * round((2 * npus) ** 0.5 / 2) or 2
    up = rng.choice((1, 3))
    sizes = {"hosts": npus, "ports": ports + (up == 3) * (-ports % 4), "oversubscription": up}
    return "clos", sizes, ("access", "spine")


def _clos3(_: random.Random, npus: int) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    ports = next(ports for ports in range(4, 256, 2) if ports**3 // 4 >= npus)
    return "clos", {"hosts": npus, "ports": ports, "tiers": 3}, ("access", "spine", "core")


def _rail(_: random.Random, npus: int) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    return "dgx_h100_rail", {"hosts": npus // 8, "ports": 64 if npus <= 2048 else 128}, ()


def _dragonfly(_: random.Random, npus: int) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    half = next(half for half in range(1, 40) if 2 * half * half * (2 * half * half + 1) >= npus)
    groups = -(-npus // (2 * half * half))
    return "dragonfly", {"routers": 2 * half, "xpus": half, "global_links": half, "groups": groups}, \
        ("access", "local", "global")


def _torus(rng: random.Random, npus: int) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    count = rng.choice((2, 3))
    side = round(npus ** (1 / count))
    sides = [side] * count
    return "torus", {"sides": sides}, tuple(f"dim{k}" for k in range(count))


def sends_of(rng: random.Random, traffic: str, npus: int) -> np.ndarray:
    """(source, destination) of the messages [messages, 2]; all_to_all has none: it is a collective."""
    every = np.arange(npus)
    found: dict[str, Callable[[], np.ndarray]] = {
        "permutation": lambda: np.random.default_rng(rng.randrange(1 << 30)).permutation(npus),
        "incast": lambda: every // 32 * 32, "ring": lambda: (every + 1) % npus}
    to = found[traffic]()
    return np.stack([every, to], axis=1)[to != every]
