"""What RoCE takes by the rate of a link where a design says nothing: thresholds of marks, and steps of increases.

Thresholds: at 40 Gb/s those of Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015; from 100
Gb/s on those of KMIN_MAP, KMAX_MAP and PMAX_MAP of SimAI (github.com/aliyun/SimAI,
astra-sim-alibabacloud/inputs/config/SimAI.conf, commit 08f3d53; at 100 Gb/s they are those of the HPCC authors'
simulator, github.com/alibaba-edu/High-Precision-Congestion-Control, simulation/mix/config.txt). Neither has 800 Gb/s:
the row is that of 400 Gb/s, twice, as both scale thresholds with the rate.

Steps: 40 Mb/s and 200 Mb/s at 40 Gb/s (RATE_AI and RATE_HAI, github.com/bobzhuyb/ns3-rdma,
windows/ns-3-dev/mix/config.txt, the simulator of the authors of SIGCOMM 2015), in proportion to the rate.
"""

from __future__ import annotations

import math

from msgspec import Struct

__all__ = ["ADDITIVE", "HYPER", "Marks", "marks_at"]

ADDITIVE, HYPER = 0.001, 0.005      # of the rate


class Marks(Struct, frozen=True):
    """Thresholds at a rate: bytes per ns; bytes; share of packets marked at `kmax`."""

    rate: float
    kmin: float
    kmax: float
    pmax: float


ROWS = (Marks(5.0, 5_000, 200_000, 0.01), Marks(12.5, 400_000, 1_600_000, 0.2), Marks(25.0, 300_000, 1_200_000, 0.8),
        Marks(50.0, 800_000, 3_200_000, 0.2), Marks(100.0, 1_600_000, 6_400_000, 0.2))


def marks_at(rate: float, rows: tuple[Marks, ...] = ROWS) -> Marks:
    """Thresholds of a link of `rate` bytes per ns: the row of this rate, else that of the nearest one (by their ratio;
    of two the lower one), in proportion to the rate."""
    near = min(rows, key=lambda row: (abs(math.log(rate / row.rate)), row.rate))
    scale = rate / near.rate
    return near if scale == 1 else Marks(rate, near.kmin * scale, near.kmax * scale, near.pmax)
