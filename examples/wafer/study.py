"""Collectives on a wafer and on conventional systems, as in ASTRA-sim 2.0's section V-A, reconstructed.

`python study.py` prints the time of an all_reduce on each system, chunks through the dims in order (baseline) and in
orders that load all dims (Themis), and how they scale up. All values are in parameters.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import astrarium as ar
from astrarium.config import parse_yaml
from astrarium.plugins import Bytes

HERE = Path(__file__).parent
SHAPES = {"switch": (ar.Switch, "halving_doubling"), "ring": (ar.Ring, "ring_two_way"),
          "fully_connected": (ar.FullyConnected, "direct")}
Dims = Sequence[tuple[str, int, float]]


def time_us(found: Mapping[str, Any], dims: Dims, composition: str, op: str = "all_reduce") -> float:
    """Time of one collective in us."""
    kinds = [SHAPES["fully_connected" if npus == 2 else shape] for shape, npus, _ in dims]     # a ring of 2 is a pair
    network = ar.Network([kind(npus, bandwidth_per_npu=f"{bandwidth} GB/s", latency=found["latency"])
                          for (kind, _), (_, npus, bandwidth) in zip(kinds, dims, strict=True)])
    collective = ar.Collective(**{op: [algorithm for _, algorithm in kinds]}, choice="none",
                               chunks=found["chunks"], composition=composition)
    design = ar.Design(workload=ar.SingleCollective(op, payload=found["payload"]), network=network,
                       collective=collective)
    return float(ar.simulate(design, record=False).makespan) / 1000


def ideal_us(found: Mapping[str, Any], dims: Dims) -> float:
    """What an all_reduce sends at least, over the bandwidth of all dims: 2 (n - 1) / n bytes per byte and NPU."""
    npus = prod(npus for _, npus, _ in dims)
    return 2 * (npus - 1) / npus * Bytes(found["payload"]) / sum(dim[2] for dim in dims) / 1000


def scaled(found: Mapping[str, Any], place: int, npus: int, rate: float | None = None) -> Dims:
    """The system that is scaled, with NPUs added in one dim, which has the bandwidth `rate` where given."""
    dims = found["systems"][found["scaled"]["from"]]["dims"]
    more = npus // prod(size for _, size, _ in dims)
    return [(shape, size * more, rate or bandwidth) if number == place else (shape, size, bandwidth)
            for number, (shape, size, bandwidth) in enumerate(dims)]


def print_scaled(found: Mapping[str, Any], composition: str) -> None:
    """How much longer an all_reduce takes where NPUs are added outside the wafer than where they are added on it."""
    told = found["scaled"]
    print(f"\n{told['from'] + ' scaled up, ' + composition:<32}{'outside':>10}"
          + "".join(f"{f'on it, {rate} GB/s':>20}{'ratio':>7}" for rate in told["bandwidths"]))
    for npus in told["npus"]:
        outside = time_us(found, scaled(found, told["outside"], npus), composition)
        row = ""
        for rate in told["bandwidths"]:
            wafer = time_us(found, scaled(found, told["wafer"], npus, rate), composition)
            row += f"{wafer:>20.1f}{outside / wafer:>7.2f}"
        print(f"{npus:<32}{outside:>10.1f}{row}")


def main() -> None:
    found = parse_yaml((HERE / "parameters.yaml").read_text(encoding="utf-8"), "parameters.yaml").data
    print(f"{'all_reduce of ' + found['payload'] + ', us':<24}{'GB/s':>8}{'baseline':>10}{'Themis':>10}{'ideal':>10}"
          f"{'use':>7}")
    for name, each in found["systems"].items():
        dims = each["dims"]
        plain, themis, ideal = (time_us(found, dims, "blueconnect"), time_us(found, dims, "themis"),
                                ideal_us(found, dims))
        print(f"{name:<24}{sum(dim[2] for dim in dims):>8}{plain:>10.1f}{themis:>10.1f}{ideal:>10.1f}"
              f"{ideal / min(plain, themis):>7.1%}")
    for composition in ("blueconnect", "themis"):
        print_scaled(found, composition)
    print(f"\npublished [R]: up to {found['published']['speed_up']}")


if __name__ == "__main__":
    main()
