"""Published figures of engines under a stated concurrency: one metric a row (NVIDIA NIM, NeMo, TensorRT-LLM)."""

from __future__ import annotations

import re

from astrarium.errors import InputError
from astrarium.validate.models import NAMES
from astrarium.validate.rows import Row
from astrarium.validate.serving.deployment import Deployment, Layout, Lengths

__all__ = ["published_of"]

ENGINES = (("vllm", "vllm"), ("sglang", "sglang"), ("trt|tensorrt|nim|nvidia", "trt-llm"))
MANY = 1024     # requests in flight where as many as fit are


def published_of(row: Row) -> Deployment:
    """The deployment of the row. Raises InputError where it states too little."""
    name = row.text("model").strip().lower().replace("_", "-").replace(" ", "-")
    model = next((found for pattern, found in NAMES if re.fullmatch(pattern, name)), None)
    if model is None:
        raise InputError("model", f"{name[:60]!r} is not known", expected="a model of the catalog")
    most = row.text("concurrency") == "max"
    users, tp = MANY if most else row.count("concurrency"), row.count("tp") or row.count("n_gpus")
    if users is None or tp is None:
        raise InputError("concurrency" if users is None else "tp", "is not stated", expected="a whole number")
    formats = {"bf16": "bf16", "fp16": "bf16", "fp8": "fp8", "fp4": "nvfp4", "nvfp4": "nvfp4"}
    precision = row.text("precision").lower() or "bf16"
    if precision not in formats:
        raise InputError("precision", f"{precision[:60]!r} is not known", expected="one of " + ", ".join(formats))
    prompt, output = row.count("isl"), row.count("osl")
    if prompt is None or output is None:
        raise InputError("isl" if prompt is None else "osl", "is not stated", expected="tokens")
    words = " ".join(row.text(name) for name in ("stack", "engine", "source")).lower()
    stack = next((name for pattern, name in ENGINES if re.search(pattern, words)), "")
    cache = "bf16" if precision in ("bf16", "fp16") else "fp8"
    npus = row.count("n_gpus") or tp
    return Deployment(
        model=model, system=row.text("gpu").lower(), stack=stack or "trt-llm", version="", precision=precision,
        formats={"weights": formats[precision], "cache": cache}, layout=Layout(tp), concurrency=users,
        prompt=Lengths(prompt, prompt), output=Lengths(output, output), engines=max(1, npus // tp),
        batch=MANY if most else None,
        assumed=(*(() if stack else ("stack: trt-llm",)), f"cache: {cache}", "lengths: as stated, without spread",
                 *((f"concurrency: {MANY:,} (max)",) if most else ())))
