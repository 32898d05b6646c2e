"""How much less efficient attention's backward pass is than its forward pass.

No published table has backward rows. Published speeds of FlashAttention-3 on H100 SXM5, head length 128, no mask, 16k
tokens in all (Shah et al., 2024, arXiv 2407.08608, figures 5 and 6), TFLOP/s at 512 ... 16k queries, backward counted
as 2.5 times the forward flops:

    forward   467  565  625  638  646  648
    backward  316  424  501  542  559  561

Their quotient falls from 1.48 to 1.155. FlashAttention-2 on A100 (Dao, 2023, arXiv 2307.08691, introduction) reaches
73 % of peak forward and 63 % backward: 1.159. So one curve serves all devices.
"""

from __future__ import annotations

import numpy as np

from astrarium.arrays import F64

__all__ = ["BACKWARD_WORK", "slowdown"]

BACKWARD_WORK = 2.5
"""Flops of the backward pass, in forward passes: five products where the forward has two."""
QUERIES = (512, 1024, 2048, 4096, 8192, 16384)
FORWARD = (467, 565, 625, 638, 646, 648)
BACKWARD = (316, 424, 501, 542, 559, 561)


def slowdown(queries: F64) -> F64:
    """Forward rate over backward rate, [n], by the number of queries; constant beyond the published ones."""
    return np.interp(np.log2(queries), np.log2(QUERIES), np.divide(FORWARD, BACKWARD))
