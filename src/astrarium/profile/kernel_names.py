"""What recorded GPU kernels do, by their names: libraries of kernels have naming habits, and nothing else is recorded.

cuBLAS and CUTLASS (`ampere_fp16_s16816gemm_...`, `sm80_xmma_gemm_...`, `cutlass_80_tensorop_...`, `nvjet_...`),
rocBLAS and hipBLASLt (`Cijk_...`), DeepGEMM; FlashAttention, FlashInfer, Transformer Engine's and cuDNN's fused
attention.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["ATTENTION", "OTHER", "PRODUCTS", "kernel_class"]

PRODUCTS, ATTENTION, OTHER = "products", "attention", "other kernels"
_ATTENTION = re.compile(r"flash|fmha|\battn|attention|mha_|_mla|mla_", re.IGNORECASE)
_PRODUCTS = re.compile(r"gemm|gemv|cutlass|cublas|nvjet|wgmma|\bCijk_|splitKreduce|xmma|_tensorop_|\bmatmul",
                       re.IGNORECASE)


@lru_cache(1 << 12)
def kernel_class(name: str) -> str:
    """`attention` for fused attention, `products` for matrix products of all kinds, else `other kernels`."""
    if _ATTENTION.search(name):
        return ATTENTION
    return PRODUCTS if _PRODUCTS.search(name) else OTHER
