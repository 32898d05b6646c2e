"""Measured rows that time something else than the kernel that a server runs. Predictions leave them out, and fits.

At the median of small shapes (up to 64 rows, as in decoding) each takes at least 1.5 times as long as another
framework's rows of the same shapes.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ARTEFACTS", "Artefact", "artefact"]

HOPPER = ("h100_sxm", "h200_sxm")
BLACKWELL = ("b200_sxm", "b300_sxm", "gb200", "gb300")
ALL: tuple[str, ...] = ()


class Artefact(NamedTuple):
    """Rows of a class, precision and framework (its name, or with a version) on `devices` (none: on all). `kept`: fits
    have them all the same, for large products are as fast as others', and training takes them."""

    family: str
    precision: str
    framework: str
    devices: tuple[str, ...]
    reason: str
    kept: bool = False


ARTEFACTS = (
    Artefact("gemm", "fp8_block", "vllm", ALL, "55 us (Hopper) to 280 us (L40S) for products of any size up to 1,024 "
             "rows, where SGLang and TensorRT-LLM take 4: they time the host"),
    Artefact("gemm", "fp8", "trtllm", ALL, "7 us more than others: a separate kernel finds the scales of activations, "
             "which checkpoints with static scales have", kept=True),
    Artefact("gemm", "fp4", "trtllm", BLACKWELL, "1.7 times SGLang's: a separate kernel casts the activations",
             kept=True),
    Artefact("gemm", "w8a16", "sglang/0.5.6.post2", ALL, "19 us for the smallest product: a chain of kernels"),
    Artefact("latent", "bf16", "sglang", (*HOPPER, "l40s", "rtx_pro_6000_server"), "1.5 to 8 times "
             "TensorRT-LLM's: with absorbed matrices, though prompts have keys and values for every head"),
    Artefact("experts", "fp8", "vllm/0.24.0", HOPPER, "3 to 5 times other frameworks' and vLLM 0.19's, at every size"),
    Artefact("experts", "mxfp4_a16", "trtllm", BLACKWELL, "2.3 times others': its servers run mxfp4_a8"),
    Artefact("experts", "mxfp4_a16", "vllm/0.19.0", BLACKWELL, "80 us at least, 18 times others'"),
    Artefact("experts", "w4a16", "vllm/0.19.0", (*HOPPER, *BLACKWELL), "2.5 to 4.9 times SGLang's"),
)


def artefact(device: str, family: str, precision: str, variant: str) -> Artefact | None:
    """Why the rows of a variant ("framework/version") are left out; None: they are not."""
    framework = variant.split("/", maxsplit=1)[0]
    return next((each for each in ARTEFACTS if (each.family, each.precision) == (family, precision)
                 and each.framework in (variant, framework) and (not each.devices or device in each.devices)), None)
