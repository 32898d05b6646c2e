"""Models as files: one line of JSON that says what follows and its checksum, then the model as JSON.

Nothing in a file is run, and what is read is checked before it is used: sizes, numbers that index others, and that
trees go downward.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence

import msgspec

from astrarium.config.whole import write_whole
from astrarium.errors import InputError
from astrarium.synthesise.fold import CLOSE, OPEN
from astrarium.synthesise.laws import FORMS, STEEPEST, Count, Form, Law
from astrarium.synthesise.layout import ROLES
from astrarium.synthesise.learn import Model
from astrarium.synthesise.order import Split
from astrarium.vocab import NodeKind

__all__ = ["FORMAT", "VERSION", "load_model", "save_model"]

FORMAT, VERSION = "astrarium-trace-model", 3
MOST = 256 << 20        # bytes of a file
LINE = 1 << 10          # of those, room for the first line


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line."""

    format: str
    version: int
    sha256: str


def save_model(path: str | os.PathLike[str], model: Model) -> None:
    """Writes a model, whole or not at all; equal models give equal bytes. InputError where it cannot be written."""
    body = msgspec.json.encode(model)
    header = Header(FORMAT, VERSION, hashlib.sha256(body).hexdigest())
    where = os.fspath(path)
    if len(body) + LINE > MOST:
        raise InputError(where, f"is not written: a model of {len(body) >> 20:,} MiB",
                         expected=f"at most {MOST >> 20} MiB: fewer traces, or traces in which more repeats")
    with write_whole(where) as file:
        file.write(msgspec.json.encode(header) + b"\n" + body + b"\n")


def load_model(path: str | os.PathLike[str]) -> Model:
    """Reads a model. InputError for another file, another version, a wrong checksum, or a model that is none."""
    where = os.fspath(path)
    try:
        if os.path.getsize(where) > MOST:
            raise InputError(where, f"has more than {MOST >> 20} MiB", expected="a model of traces")
        with open(where, "rb") as file:
            data = file.read(MOST + 1)
    except (OSError, ValueError) as error:
        raise InputError(where, f"cannot be read ({getattr(error, 'strerror', None) or error})",
                         expected="a model of traces") from None
    first, _, body = data.partition(b"\n")
    body = body.removesuffix(b"\n")
    try:
        header = msgspec.json.decode(first, type=Header)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        header = Header("", 0, "")
    if header.format != FORMAT:
        raise InputError(where, "is no model of traces", expected="a file that `trace synthesise learn` wrote")
    if header.version != VERSION:
        raise InputError(where, f"version {header.version}", expected=f"version {VERSION}: learn again")
    if hashlib.sha256(body).hexdigest() != header.sha256:
        raise InputError(where, "the checksum does not fit: the file is damaged", expected="the whole file")
    try:
        model = msgspec.json.decode(body, type=Model)
        _check(model)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise InputError(where, f"is no valid model ({error})", expected="a file as it was written") from None
    return model


# ------------------------------------------------------------ what a file must be
def _check(model: Model) -> None:
    """ValueError where numbers do not fit each other."""
    tokens, width = len(model.tokens), len(model.names) + 2
    _need(len(model.low) == len(model.high) == len(model.names) and "stage" in model.names, "conditions")
    _need(len(set(model.names)) == len(model.names), "conditions")
    for token in model.tokens:
        _need(0 <= token.kind <= NodeKind.COMM_COLL and -1 <= token.op <= 9 and -1 <= token.involved < 2**31, "token")
        _need(abs(token.priority) < 2**31, "priority")
        known = ROLES if token.kind == NodeKind.COMM_COLL else ("next", "prev")
        _need(token.role in known if token.kind >= NodeKind.COMM_SEND else token.role == "", "role")
    _orders(model, tokens, width)
    for loop in model.loops:
        _symbols([*loop.body, *loop.before, *loop.after], tokens)
        _count(loop.count, width)
    for waits in model.waits:
        _within(waits.context, tokens)
        for each in waits.sets:
            _within(each.there, tokens)
        for motif in (motif for each in waits.sets for motif in each.motifs):
            _within([motif.parent], tokens)
            _need(all(back >= 1 for back in motif.back), "back")
    for size in model.sizes:
        _within([size.token], tokens)
        _need(0 <= size.column < 4, "column")
        _law(size.law, width)
    for bucket in model.buckets:
        _within([bucket.token, *bucket.producers], tokens)
        _law(bucket.threshold, width)
        _splits(bucket.present, 2, width)
        _need(all(len(pair) == 2 and 0 <= pair[0] < tokens and -1 <= pair[1] < tokens for pair in bucket.ends), "ends")
        if bucket.then is not None:
            _within([bucket.then.token], tokens)
            _law(bucket.then.share, width)
        for unit in bucket.units:
            _need(-1 <= unit.before < tokens and bool(bucket.units), "unit")
            _within([unit.closing], tokens)
            if unit.window is not None:
                _count(unit.window, width)
            _law(unit.payload, width)
    for pieces in model.pieces:
        _within([pieces.token], tokens)
        _law(pieces.total, width)
        _law(pieces.limit, width)


def _orders(model: Model, tokens: int, width: int) -> None:
    orders = model.orders
    _need(len(orders.follow) == len(orders.to) > 0 and len(orders.at) == len(orders.fork), "orders")
    for number, (follow, to) in enumerate(zip(orders.follow, orders.to, strict=True)):
        _need(len(follow) == len(to), "orders")
        _need(all(number < each < len(orders.to) for each in to), "orders go downward")
        _symbols(follow, tokens)
    for number, splits in zip(orders.at, orders.fork, strict=True):
        _within([number], len(orders.follow))
        _splits(splits, len(orders.follow[number]), width)


def _splits(splits: Sequence[Split], ways: int, width: int) -> None:
    _need(len(splits) > 0, "decisions")
    for number, split in enumerate(splits):
        _need(len(split.share) == ways and all(0 <= each <= 1 for each in split.share), "shares")
        _need(abs(sum(split.share) - 1) < 1e-6, "shares")
        if split.form is not None:
            _form(split.form, width)
            _need(number < split.below < len(splits) and number < split.above < len(splits), "decisions go downward")


def _law(law: Law | None, width: int) -> None:
    if law is not None:
        _need(len(law.coefficient) == len(law.exponent) <= 10_000, "law")
        _need(all(len(row) == width and max(map(abs, row)) <= STEEPEST for row in law.exponent), "exponents")
        _need(len(law.residual) in (0, 10) and all(abs(each) < 100 for each in law.residual), "residuals")


def _count(count: Count, width: int) -> None:
    _need(len(count.weight) == len(count.form), "count")
    for form in count.form:
        _form(form, width)


def _form(form: Form, width: int) -> None:
    _need(form.kind in FORMS, "form")
    _within([form.i, form.j, form.k], width)


def _symbols(symbols: Iterable[int], tokens: int) -> None:
    _need(all(CLOSE <= each < tokens for each in symbols) and OPEN > CLOSE, "symbol")


def _within(numbers: Iterable[int], size: int) -> None:
    _need(all(0 <= each < size for each in numbers), "number")


def _need(good: bool, what: str) -> None:
    if not good:
        raise ValueError(what)
