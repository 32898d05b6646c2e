"""PyTorch's calls of the kit's kernels, on random operands, never zeros."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from astrarium.compute.kit.cases import Case

__all__ = ["Call", "Prepared", "backend_of", "bytes_of", "prepared"]

Call = Callable[[], object]
Prepared = tuple[Call, bool]
"""(what launches the kernel once, whether a CUDA graph can hold it: backward passes and optimizers launch from threads
or from code that waits)."""
BACKENDS = {1: "flash", 3: "cudnn"}
"""Of torch.nn.attention.SDPBackend, those that rows tell apart."""


def bytes_of(case: Case) -> int:
    """About what a call's operands, results and gradients take in memory."""
    if case.kind == "stream":
        return 2 * case.bytes
    if case.kind.startswith("attention"):
        rows = case.heads * case.queries * 2 + case.kv_heads * case.keys * 2
        return 2 * case.batch * rows * case.head_length * (4 if case.kind == "attention_backward" else 1)
    operands = case.k * (case.m + case.n * max(1, case.groups))
    return (5 if case.precision == "fp8" else 2) * operands + 2 * case.m * case.n


def prepared(torch: Any, case: Case, device: str) -> Prepared:
    """A call on separate operands. Raises NotImplementedError where this PyTorch has no such operator, RuntimeError
    where the device cannot run it or has too little memory."""
    if case.kind == "stream":
        return _stream(torch, case, device)
    if case.kind == "gemm":
        return (_narrow if case.precision == "fp8" else _product)(torch, case, device), True
    if case.kind == "grouped_gemm":
        return _grouped(torch, case, device), True
    return _attention(torch, case, device)


def _random(torch: Any, device: str, *shape: int, dtype: Any = None, grad: bool = False) -> Any:
    return torch.randn(shape, device=device, dtype=dtype or torch.bfloat16).requires_grad_(grad)


def _product(torch: Any, case: Case, device: str) -> Call:
    """NT: activations (m, k), a weight (n, k); dgrad: gradients (m, k), a weight (k, n); wgrad: gradients (k, m),
    activations (k, n)."""
    if case.layout == "wgrad":
        left, right = _random(torch, device, case.k, case.m), _random(torch, device, case.k, case.n)
        return lambda: left.t() @ right
    left = _random(torch, device, case.m, case.k)
    if case.layout == "dgrad":
        right = _random(torch, device, case.k, case.n)
        return lambda: left @ right
    right = _random(torch, device, case.n, case.k)
    return lambda: torch.nn.functional.linear(left, right)


def _narrow(torch: Any, case: Case, device: str) -> Call:
    """fp8 operands with a scale each (tensor) or a scale a row (row): the product alone, no cast."""
    if not hasattr(torch, "_scaled_mm"):
        raise NotImplementedError("this PyTorch has no _scaled_mm")
    fp8 = torch.float8_e4m3fn
    left = _random(torch, device, case.m, case.k).to(fp8)
    right = _random(torch, device, case.n, case.k).to(fp8).t()
    sides = ((case.m, 1), (1, case.n)) if case.op == "row" else ((), ())
    scales = [torch.ones(side, device=device, dtype=torch.float32) for side in sides]
    return lambda: torch._scaled_mm(left, right, scale_a=scales[0], scale_b=scales[1], out_dtype=torch.bfloat16,
                                    use_fast_accum=True)


def _grouped(torch: Any, case: Case, device: str) -> Call:
    """Equal groups of rows, a weight each."""
    if not hasattr(torch, "_grouped_mm"):
        raise NotImplementedError("this PyTorch has no _grouped_mm")
    rows = _random(torch, device, case.m, case.k)
    weights = _random(torch, device, case.groups, case.n, case.k).transpose(-2, -1)
    ends = torch.arange(1, case.groups + 1, device=device, dtype=torch.int32) * (case.m // case.groups)
    return lambda: torch._grouped_mm(rows, weights, offs=ends)


def _heads(torch: Any, case: Case, device: str, grad: bool = False) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Queries, keys, values and how to attend. Decoding has the query heads of one key head as rows of queries."""
    size = case.head_length
    heads, rows = (case.kv_heads, case.heads // case.kv_heads) if case.op == "decode" else (case.heads, case.queries)
    how: dict[str, Any] = {"is_causal": bool(case.causal)}
    if heads != case.kv_heads:
        how["enable_gqa"] = True
    query, key, value = (_random(torch, device, case.batch, *sides, size, grad=grad) for sides in (
        (heads, rows), (case.kv_heads, case.keys), (case.kv_heads, case.keys)))
    return query, key, value, how


def _attention(torch: Any, case: Case, device: str) -> Prepared:
    backward = case.kind == "attention_backward"
    query, key, value, how = _heads(torch, case, device, backward)
    attend = torch.nn.functional.scaled_dot_product_attention
    if not backward:
        return lambda: attend(query, key, value, **how), True
    return _gradient(torch, attend(query, key, value, **how), (query, key, value)), False


def backend_of(torch: Any, case: Case, device: str) -> str:
    """The backend that PyTorch takes for attention; "": one that rows have no name for, or not to be told."""
    query, key, value, how = _heads(torch, case._replace(batch=1), device, case.kind == "attention_backward")
    try:
        return BACKENDS.get(int(torch._fused_sdp_choice(query, key, value, **how)), "")
    except (AttributeError, TypeError, RuntimeError):
        return ""


def _gradient(torch: Any, result: Any, leaves: Sequence[Any]) -> Call:
    """The backward pass alone."""
    given = torch.randn_like(result)
    return lambda: torch.autograd.grad(result, leaves, given, retain_graph=True)


def _stream(torch: Any, case: Case, device: str) -> Prepared:
    if case.op == "adamw_fused":
        return _adamw(torch, case, device), False
    if case.op.startswith("embedding"):
        return _embedding(torch, case, device)
    if case.vocab:
        return _of_logits(torch, case, device)
    if case.op.endswith("_backward"):
        return _backward(torch, case, device), False
    return _forward(torch, case, device), True


def _forward(torch: Any, case: Case, device: str) -> Call:
    rows, columns, functional = case.m, case.n, torch.nn.functional
    one = _random(torch, device, rows, columns, dtype=torch.float32 if case.op == "to_bf16" else None)
    if case.op in ("add", "mul"):
        other = _random(torch, device, rows, columns)
        return (lambda: one + other) if case.op == "add" else (lambda: one * other)
    if case.op == "cat":
        low, high = (each.contiguous() for each in one.chunk(2, dim=-1))
        return lambda: torch.cat((low, high), dim=-1)
    weight, bias = _random(torch, device, columns), _random(torch, device, columns)
    calls: dict[str, Call] = {
        "gelu": lambda: functional.gelu(one, approximate="tanh"), "silu": lambda: functional.silu(one),
        "layer_norm": lambda: functional.layer_norm(one, (columns,), weight, bias),
        "rms_norm": lambda: functional.rms_norm(one, (columns,), weight), "sum_rows": lambda: one.sum(0),
        "to_fp32": one.float, "to_bf16": lambda: one.to(torch.bfloat16),
        "to_fp8": lambda: one.to(torch.float8_e4m3fn), "transpose_copy": lambda: one.t().contiguous()}
    return calls[case.op]


def _backward(torch: Any, case: Case, device: str) -> Call:
    columns, functional = case.n, torch.nn.functional
    one = _random(torch, device, case.m, columns, grad=True)
    weight, bias = (_random(torch, device, columns, grad=True) for _ in range(2))
    if case.op == "gelu_backward":
        return _gradient(torch, functional.gelu(one, approximate="tanh"), (one,))
    if case.op == "silu_backward":
        return _gradient(torch, functional.silu(one), (one,))
    if case.op == "layer_norm_backward":
        return _gradient(torch, functional.layer_norm(one, (columns,), weight, bias), (one, weight, bias))
    return _gradient(torch, functional.rms_norm(one, (columns,), weight), (one, weight))


def _embedding(torch: Any, case: Case, device: str) -> Prepared:
    backward = case.op == "embedding_backward"
    table = _random(torch, device, case.vocab, case.n, grad=backward)
    tokens = torch.randint(case.vocab, (case.m,), device=device)
    look = torch.nn.functional.embedding
    if backward:
        return _gradient(torch, look(tokens, table), (table,)), False
    return lambda: look(tokens, table), True


def _of_logits(torch: Any, case: Case, device: str) -> Prepared:
    if case.op == "logits_to_fp32":
        narrow = _random(torch, device, case.m, case.vocab)
        return narrow.float, True
    backward = case.op == "cross_entropy_backward"
    logits = _random(torch, device, case.m, case.vocab, dtype=torch.float32, grad=backward)
    wanted, lose = torch.randint(case.vocab, (case.m,), device=device), torch.nn.functional.cross_entropy
    if backward:
        return _gradient(torch, lose(logits, wanted), (logits,)), False
    return lambda: lose(logits, wanted), True


def _adamw(torch: Any, case: Case, device: str) -> Call:
    weights = _random(torch, device, case.elements, grad=True)
    weights.grad = _random(torch, device, case.elements)
    step: Call = torch.optim.AdamW([weights], fused=True).step
    return step
