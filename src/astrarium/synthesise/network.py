"""A recurrent network's weights, and what it says: a program, symbol by symbol, and the centres of sizes.

A gated recurrent unit (Cho et al., EMNLP 2014) reads symbols and conditions and gives the next symbol, of those with
which some example went on: where all went one way it has no say, at forks it decides. Sizes and
durations have their own head: per site a power law of the conditions, corrected by a multi-layer perceptron that
all sites share. Trained with PyTorch (`train`), run with numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from astrarium.synthesise.examples import VALUES
from astrarium.synthesise.fold import END, Program
from astrarium.synthesise.laws import FORMS, Form, form_values, table
from astrarium.synthesise.learn import Model

__all__ = ["SHIFT", "Array", "Network", "Runner", "check_network", "condition_features", "quadratic"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
SHIFT = 3               # symbol s has row s + SHIFT; the start is fed as END
RARE = 0.5              # ways less likely than this times the likeliest are never taken
SHAPES = {
    "embed": ("symbols", "width"), "w_ih": ("gates", "input"), "w_hh": ("gates", "hidden"), "b_ih": ("gates",),
    "b_hh": ("gates",), "out_w": ("symbols", "hidden"), "out_b": ("symbols",), "linear": ("keys", "terms"),
    "key": ("keys", "inner"), "w1": ("units", "joined"), "b1": ("units",), "w2": ("units", "units"), "b2": ("units",),
    "w3": ("one", "units"), "b3": ("one",)}


class Array(msgspec.Struct, frozen=True):
    """float32, little endian, in order of rows."""

    shape: list[int]
    data: bytes

    @staticmethod
    def of(values: npt.ArrayLike) -> Array:
        """An array of these values."""
        found = np.ascontiguousarray(np.asarray(values), "<f4")
        return Array(list(found.shape), found.tobytes())

    def values(self) -> F32:
        """The values. ValueError where their number is not that of the shape."""
        return np.frombuffer(self.data, "<f4").reshape(self.shape)


Asked = tuple[Form, float]


class Network(msgspec.Struct, frozen=True):
    """`mean` and `scale` of the logarithms of the conditions; `asked`: which of their combinations are at least how
    much (those that the model's decision trees found to matter); `keys`: (token before or None, token, column) of each
    row of the size head; `arrays` by name (see SHAPES)."""

    mean: list[float]
    scale: list[float]
    asked: list[Asked]
    keys: list[tuple[int | None, int, int]]
    arrays: dict[str, Array]
    longest: int
    seconds: float = 0.0


def condition_features(x: F64, mean: Sequence[float], scale: Sequence[float],
                       asked: Sequence[Asked]) -> tuple[F64, F64]:
    """[rows, n] standardised logarithms and ends; and [rows, m] those, which conditions are 1, and what is asked."""
    n = x.shape[1] - 2
    logs = (np.log1p(x[:, :n]) - np.array(mean)) / np.array(scale)
    plain = np.concatenate([logs, x[:, n:]], axis=1)
    above = form_values(x, [form for form, _ in asked]) >= np.array([threshold for _, threshold in asked])
    return plain, np.concatenate([plain, x[:, :n] == 1, above], axis=1).astype(np.float64)


def check_network(network: Network, tokens: int, width: int) -> None:
    """ValueError where shapes do not fit each other, or numbers are not finite."""
    sizes = {"one": 1, "symbols": tokens + SHIFT, "keys": len(network.keys)}
    if set(network.arrays) != set(SHAPES) or len(network.mean) != width - 2 or len(network.scale) != width - 2:
        raise ValueError("network: arrays")
    if not all(each > 0 for each in network.scale) or not 0 < network.longest < 100_000:
        raise ValueError("network: scale")
    for name, axes in SHAPES.items():
        values = network.arrays[name].values()
        if values.ndim != len(axes) or not np.isfinite(values).all():
            raise ValueError(f"network: {name}")
        for axis, size in zip(axes, values.shape, strict=True):
            if sizes.setdefault(axis, size) != size or size > 1_000_000:
                raise ValueError(f"network: {name}")
    for form, _ in network.asked:
        if form.kind not in FORMS or not all(0 <= each < width for each in (form.i, form.j, form.k)):
            raise ValueError("network: asked")
    plain, more = condition_features(np.ones((1, width)), network.mean, network.scale, network.asked)
    terms = 1 + plain.shape[1] * (plain.shape[1] + 3) // 2
    if sizes["gates"] != 3 * sizes["hidden"] or sizes["input"] != sizes["width"] + more.shape[1] \
            or sizes["joined"] != sizes["inner"] + plain.shape[1] or sizes["terms"] != terms:
        raise ValueError("network: sizes")
    for before, token, column in network.keys:
        if not (before is None or -1 <= before < tokens) or not 0 <= token < tokens or not 0 <= column < len(VALUES):
            raise ValueError("network: keys")


def quadratic(plain: F64) -> F64:
    """[rows, terms] 1, the features, and products of two."""
    i, j = np.triu_indices(plain.shape[1])
    return np.concatenate([np.ones((len(plain), 1)), plain, plain[:, i] * plain[:, j]], axis=1)


class Runner:
    """The network at work: `program` and `centres` are what `sample` takes as heads."""

    def __init__(self, network: Network, model: Model) -> None:
        self.names, self.base, self.orders = model.names, len(model.tokens) + 1, model.orders
        self.a = {name: array.values().astype(np.float64) for name, array in network.arrays.items()}
        self.network = network
        self.rows = {key: row for row, key in enumerate(network.keys)}

    def program(self, conditions: Mapping[str, float], rng: np.random.Generator) -> Program:
        """Symbols drawn one after the other, of those that go on as some example went on: the network says which way at
        every fork."""
        a = self.a
        network = self.network
        x = table([conditions], self.names)
        _, features = condition_features(x, network.mean, network.scale, network.asked)
        state, symbol, out, at = np.zeros(a["w_hh"].shape[1]), END, list[int](), 0
        while True:
            state = _gru(a, np.concatenate([a["embed"][symbol + SHIFT], features[0]]), state)
            ways = self.orders.follow[at]
            score = (a["out_w"] @ state + a["out_b"])[np.array(ways) + SHIFT]
            share = np.exp(score - score.max())
            share[share < RARE] = 0.0
            way = int(rng.choice(share.size, p=share / share.sum()))
            symbol = ways[way]
            if symbol == END:
                return tuple(out)
            out.append(symbol)
            at = self.orders.to[at][way]
            if not self.orders.follow[at]:
                return tuple(out)

    def centres(self, conditions: Mapping[str, float], codes: I64) -> F64:
        """[codes, VALUES] of sites before * base + token; NaN where the network has no say."""
        a = self.a
        x = table([conditions], self.names, sizes=True)
        plain, _ = condition_features(x, self.network.mean, self.network.scale, self.network.asked)
        joined = np.concatenate([a["key"], np.repeat(plain, len(a["key"]), axis=0)], axis=1)
        inner = np.maximum(joined @ a["w1"].T + a["b1"], 0)
        inner = np.maximum(inner @ a["w2"].T + a["b2"], 0)
        value = np.exp(np.clip(a["linear"] @ quadratic(plain)[0] + (inner @ a["w3"].T + a["b3"])[:, 0], -41, 41))
        out = np.full((codes.size, len(VALUES)), np.nan)
        for place, code in enumerate(codes.tolist()):
            before, token = divmod(code, self.base)
            for column in range(len(VALUES)):
                row = self.rows.get((before, token, column), self.rows.get((None, token, column), -1))
                if row >= 0:
                    out[place, column] = value[row]
        return out


def _gru(a: Mapping[str, F64], x: F64, state: F64) -> F64:
    """One step, with PyTorch's order of gates: reset, update, new."""
    size = state.size
    left, right = a["w_ih"] @ x + a["b_ih"], a["w_hh"] @ state + a["b_hh"]
    reset, update = (1 / (1 + np.exp(-np.clip(left[i:i + size] + right[i:i + size], -60, 60))) for i in (0, size))
    new = np.tanh(left[2 * size:] + reset * right[2 * size:])
    return np.asarray((1 - update) * new + update * state, np.float64)
