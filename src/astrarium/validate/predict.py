"""What our simulator says of measured rows: metric by metric, or why it cannot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from astrarium.errors import AstrariumError, InputError
from astrarium.lower.kept import Kept
from astrarium.simulate import simulate
from astrarium.validate.collectives import busbw_of, collective_ns, design_of
from astrarium.validate.designs import Candidate, candidates
from astrarium.validate.kernel_times import KernelTime, Meant, kernel_times
from astrarium.validate.memory import stated_bytes
from astrarium.validate.micro_rows import COPIES
from astrarium.validate.micro_times import micro_times
from astrarium.validate.passes import pass_of
from astrarium.validate.rows import Row
from astrarium.validate.serving import designs
from astrarium.validate.serving.predict import Predictor
from astrarium.validate.serving.rows import READERS, metrics_of, why_no_metric
from astrarium.workload.footprint import training_footprint
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.transformer import Transformer

__all__ = ["RATES", "NotPredictable", "Prediction", "Value", "predict", "predictions"]

GIB = 2.0**30
RATES = ("tok_s_gpu", "model_tflops_gpu", "busbw_GBs", "throughput", "output throughput")


class Value(Struct, frozen=True):
    """One metric of a row: `measured`, `predicted`, both in the metric's unit."""

    metric: str
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Relative: predicted over measured, less 1."""
        return self.predicted / self.measured - 1.0

    @property
    def time_error(self) -> float:
        """Relative error of the time behind the metric: a predicted rate that is too high is a time that is too
        short."""
        return self.measured / self.predicted - 1.0 if self.metric in RATES else self.error


class Prediction(Struct, frozen=True):
    """A row, the design that was simulated for it, and its metrics; the first one is what the row is scored by."""

    row: Row
    meant: Candidate | Meant
    seconds: float
    values: tuple[Value, ...]


class NotPredictable(Struct, frozen=True):
    """A row without a prediction, and why."""

    row: Row
    reason: str
    stated: bool = False


Found = Prediction | NotPredictable


def predictions(rows: Iterable[Row], note: Callable[[int], None] | None = None) -> Iterator[Found]:
    """A prediction, or why there is none, of every row; `note` is told how many are done."""
    kept, engines, rows = Kept(), Predictor(), list(rows)
    timed = {"kernel": iter(kernel_times([row for row in rows if row.kind == "kernel"])),
             "micro": iter(micro_times([row for row in rows if row.kind == "micro"]))}
    for number, row in enumerate(rows):
        if note is not None:
            note(number)
        yield _kernel(row, next(timed[row.kind])) if row.kind in timed else predict(row, kept, engines)


NO_LAYOUT = "it states no layout, and the load at which its objective just holds is not searched for"


def predict(row: Row, kept: Kept | None = None, engines: Predictor | None = None) -> Found:
    """The prediction of one row; `kept` and `engines` keep what rows share. Never raises for what a row says."""
    if row.kind == "mlperf":
        return NotPredictable(row, NO_LAYOUT)
    if row.kind in READERS:
        return _serving(row, engines or Predictor())
    if row.kind == "collective":
        return _collective(row)
    if row.kind == "pass":
        return _pass(row, kept)
    if row.kind in ("kernel", "micro"):
        return _kernel(row, (kernel_times if row.kind == "kernel" else micro_times)([row])[0])
    if not any(row.number(metric) for metric in ("step_s", *RATES, "mem_GiB")):
        return NotPredictable(row, "it states no measured figure (step_s, tok_s_gpu, model_tflops_gpu or mem_GiB)")
    try:
        meant, seconds = _fastest(candidates(row), kept)
        return Prediction(row, meant, seconds, tuple(_values(row, meant, seconds)))
    except AstrariumError as error:
        return NotPredictable(row, str(error), _states_all(row))


def _serving(row: Row, engines: Predictor) -> Found:
    """A row of serving figures."""
    stated = False
    try:
        meant = READERS[row.kind](row)
        stated = True
        if why := why_no_metric(row):
            return NotPredictable(row, why)
        made = engines.of(meant)
        design = designs.design_of(meant)
    except AstrariumError as error:
        return NotPredictable(row, str(error), stated)
    return Prediction(row, Candidate(design, meant.stack, meant.system, meant.assumed, meant.stated),
                      made.latency / 1e3, tuple(Value(*each) for each in metrics_of(row, meant, made)))


def _collective(row: Row) -> Found:
    """A row of nccl-tests: its time, or its bus bandwidth where it states no time."""
    time, busbw = row.number("time_us"), row.number("busbw_GBs")
    if not time and not busbw:
        return NotPredictable(row, "it states neither time_us nor busbw_GBs")
    try:
        meant = design_of(row)
        ns = collective_ns(meant)
    except AstrariumError as error:
        return NotPredictable(row, str(error))
    value = Value("time_us", time, ns / 1e3) if time else Value("busbw_GBs", busbw or 0.0, busbw_of(row, ns))
    return Prediction(row, meant, ns / 1e9, (value,))


def _kernel(row: Row, made: KernelTime | InputError) -> Found:
    """A kernel's time, in us, and in a long run its clock."""
    if isinstance(made, InputError):
        return NotPredictable(row, str(made))
    values = [Value("kernel_us", row.number("us") or 0.0, made.ns / 1e3)]
    if made.clock and row.number("clock"):
        values.append(Value("clock_MHz", row.number("clock") or 0.0, made.clock * 1e3))
    if made.copies and row.number(COPIES):
        values.append(Value(COPIES, row.number(COPIES) or 0.0, made.copies / 1e3))
    return Prediction(row, made.meant, made.ns / 1e9, tuple(values))


def _pass(row: Row, kept: Kept | None) -> Found:
    """A prefill, or a decode step, in ms."""
    try:
        meant = pass_of(row)
        seconds = simulate(meant.design, record=False, kept=kept).at_least / 1e9
    except AstrariumError as error:
        return NotPredictable(row, str(error))
    return Prediction(row, meant, seconds, (Value("pass_ms", row.number("pass_ms") or 0.0, seconds * 1e3),))


def _states_all(row: Row) -> bool:
    """Whether model, parallelism, batch and device are there."""
    return bool(row.text("model") and row.text("gpu") and row.count("gbs") and (row.count("tp") or row.count("dp")))


def _fastest(found: list[Candidate], kept: Kept | None) -> tuple[Candidate, float]:
    """The candidate that is fastest among those that fit, and its seconds; where none fits, that which holds least."""
    if len(found) > 1:
        held = {id(each): _gibibytes(each) for each in found}
        room = float(found[0].design.memory.capacity or 0) / GIB
        fitting = [each for each in found if held[id(each)] <= room]
        found = fitting or [min(found, key=lambda each: held[id(each)])]
    timed = [(simulate(each.design, record=False, kept=kept).at_least / 1e9, each) for each in found]
    seconds, best = min(timed, key=lambda each: each[0])
    return best, seconds


def _gibibytes(meant: Candidate) -> float:
    """Most that a rank holds, by the footprint of its stage."""
    work = meant.design.workload
    assert isinstance(work, Transformer)
    return max(stage.total for stage in training_footprint(work)) / GIB


def _values(row: Row, meant: Candidate, seconds: float) -> Iterator[Value]:
    work = meant.design.workload
    assert isinstance(work, Transformer)
    tokens = work.global_batch * (work.seq or getattr(work.model, "seq", 0) or 0) / seconds / work.ranks
    made: dict[str, Callable[[], float]] = {
        "step_s": lambda: seconds, "tok_s_gpu": lambda: tokens,
        "model_tflops_gpu": lambda: tokens * _flops(work, row) / 1e12,
        "mem_GiB": lambda: stated_bytes(work, meant.stack) / GIB}
    for metric, value in made.items():
        if measured := row.number(metric):
            yield Value(metric, measured, value())


def _flops(work: Transformer, row: Row) -> float:
    """FLOPs of a token by the usual count: 6 a parameter of the layers' matrices and the head, and all scores of
    attention (Narayanan et al., arXiv 2104.04473, equation 3); recomputation too where the row says that its figure
    has it."""
    model = work.model
    if not isinstance(model, Decoder):
        raise InputError("model", "is no decoder, for which alone the usual count of FLOPs is known")
    seq, head = work.seq or model.seq or 0, float(model.head)
    attention = model.d_model * head * (2 * model.heads + 2 * model.groups)
    ffn = (3 if model.gated else 2) * model.d_model * model.ffn
    if model.moe is not None:
        ffn = (3 if model.gated else 2) * model.d_model * (model.moe.expert_ffn or model.ffn) * model.moe.top_k
    layers = model.layers * (6 * (attention + ffn) + 12 * model.heads * head * seq)
    hardware = bool(re.search(r"hardware", row.text("note").lower())) and work.recompute == "full"
    return layers * (4 / 3 if hardware else 1) + 6 * model.d_model * model.vocab
