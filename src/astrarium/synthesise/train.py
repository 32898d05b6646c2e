"""Training the recurrent network of `network` with PyTorch, beside a model that was learned without.

The network takes the place of the prefix tree (order) and of the laws of sizes and durations; what waits for what, how
often loops run, and how gradients gather stay those of the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from astrarium.errors import InputError
from astrarium.synthesise.examples import Example
from astrarium.synthesise.fold import END, Program
from astrarium.synthesise.laws import table
from astrarium.synthesise.learn import Model, SizeKey, main_of, programs_of, size_rows
from astrarium.synthesise.network import SHIFT, Array, Network, condition_features, quadratic
from astrarium.trace._torch import torch_module

__all__ = ["train"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Told = Callable[[str], None]
EMBED, HIDDEN, INNER, UNITS = 48, 128, 16, 64
BATCH, RATE, PAD = 32, 3e-3, -100
FORK = 20.0             # weight of a position at which orders differ: most of an order follows from what is before
STEPS = 1500            # of each part; told of every hundredth
POINTS = 8192           # sizes of one step
RIDGE = 1e-6


def train(model: Model, examples: Sequence[Example], *, seed: int = 0, steps: int = STEPS,
          told: Told | None = None) -> Network:
    """A network from the examples that `model` was learned from; `told` hears how it goes.

    On one thread: on more, steps as small as these take longer. Equal inputs give equal weights on one machine.
    InputError without PyTorch, or for other examples.
    """
    torch = torch_module()
    coded = main_of(examples)
    if coded.tokens != list(model.tokens) or coded.names != list(model.names):
        raise InputError("synthesise", "other examples than those of the model", expected="the same examples")
    start = time.perf_counter()
    rows = [each.conditions for each in examples]
    x, sizes = table(rows, model.names), table(rows, model.names, sizes=True)
    logs = np.log1p(x[:, :-2])
    mean, scale = logs.mean(axis=0), np.maximum(logs.std(axis=0), 1e-3)
    asked = list(dict.fromkeys((split.form, split.threshold) for splits in model.orders.fork for split in splits
                               if split.form is not None))
    programs = [program for program, _ in programs_of(coded)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            features = condition_features(x, mean, scale, asked)[1]
            order = _order(torch, programs, _forks(model, programs), features, len(model.tokens), steps, told)
            plain = condition_features(sizes, mean, scale, asked)[0]
            keys, size = _sizes(torch, size_rows(coded), plain, steps, told)
    finally:
        torch.set_num_threads(threads)
    return Network(mean.tolist(), scale.tolist(), asked, keys, {**order, **size}, max(map(len, programs)),
                   round(time.perf_counter() - start, 1))


def _order(torch: Any, programs: Sequence[Program], forks: Mapping[Program, Sequence[int]], features: F64, tokens: int,
           steps: int, told: Told | None) -> dict[str, Array]:
    """The recurrent part, by the likelihood of every next symbol."""
    symbols = tokens + SHIFT
    embed = torch.nn.Embedding(symbols, EMBED)
    cell = torch.nn.GRU(EMBED + features.shape[1], HIDDEN, batch_first=True)
    out = torch.nn.Linear(HIDDEN, symbols)
    known = torch.tensor(features, dtype=torch.float32)

    def loss() -> Any:
        batch = torch.randint(len(programs), (BATCH,))
        read, said, weight = _padded(torch, [programs[row] for row in batch.tolist()], forks)
        given = known[batch][:, None, :].expand(-1, read.shape[1], -1)
        state, _ = cell(torch.cat([embed(read), given], dim=2))
        each = torch.nn.functional.cross_entropy(out(state).flatten(0, 1), said.flatten(), ignore_index=PAD,
                                                 reduction="none")
        return (each * weight.flatten()).sum() / weight.sum()

    _fit(torch, [*embed.parameters(), *cell.parameters(), *out.parameters()], loss, steps, "order", told)
    return {"embed": _array(embed.weight), "w_ih": _array(cell.weight_ih_l0), "w_hh": _array(cell.weight_hh_l0),
            "b_ih": _array(cell.bias_ih_l0), "b_hh": _array(cell.bias_hh_l0), "out_w": _array(out.weight),
            "out_b": _array(out.bias)}


def _forks(model: Model, programs: Sequence[Program]) -> dict[Program, list[int]]:
    """Program -> positions at which other programs go on otherwise."""
    forks = set(model.orders.at)
    out: dict[Program, list[int]] = {}
    for program in dict.fromkeys(programs):
        at, out[program] = 0, []
        for position, symbol in enumerate((*program, END)):
            if at in forks:
                out[program].append(position)
            at = model.orders.to[at][model.orders.follow[at].index(symbol)]
    return out


def _padded(torch: Any, programs: Sequence[Program], forks: Mapping[Program, Sequence[int]]) -> tuple[Any, Any, Any]:
    """What is read (END first), what is said next (END last), and its weight: more at forks; [batch, longest + 1]."""
    longest = max(map(len, programs)) + 1
    read = np.full((len(programs), longest), END + SHIFT, np.int64)
    said = np.full((len(programs), longest), PAD, np.int64)
    weight = np.zeros((len(programs), longest), np.float32)
    for row, program in enumerate(programs):
        shifted = np.array(program, np.int64) + SHIFT
        read[row, 1:1 + len(program)] = shifted
        said[row, :len(program)] = shifted
        said[row, len(program)] = END + SHIFT
        weight[row, :len(program) + 1] = 1.0
        weight[row, forks[program]] = FORK
    return torch.from_numpy(read), torch.from_numpy(said), torch.from_numpy(weight)


def _sizes(torch: Any, seen: Mapping[SizeKey, Mapping[int, F64]], plain: F64, steps: int,
           told: Told | None) -> tuple[list[SizeKey], dict[str, Array]]:
    """The size head: a quadratic of logarithms per key by least squares, and a perceptron for what that leaves."""
    terms = quadratic(plain)
    keys: list[SizeKey] = []
    linear, row_of, key_of, left = [], list[I64](), list[I64](), list[F64]()
    for key, values in seen.items():
        rows = np.array([row for row, each in sorted(values.items()) if each.mean() > 0], np.int64)
        if 2 * rows.size <= len(values):
            continue
        y = np.log([values[row].mean() for row in rows.tolist()])
        a = terms[rows]
        weight = np.linalg.solve(a.T @ a + RIDGE * len(rows) * np.eye(a.shape[1]), a.T @ y)
        row_of.append(rows)
        key_of.append(np.full(rows.size, len(keys)))
        left.append(y - a @ weight)
        linear.append(weight)
        keys.append(key)
    row, key_at, y = (torch.from_numpy(np.concatenate(each)) for each in (row_of, key_of, left))
    y = y.to(torch.float32)
    known = torch.tensor(plain, dtype=torch.float32)
    key_table = torch.nn.Embedding(len(keys), INNER)
    first, second = torch.nn.Linear(INNER + plain.shape[1], UNITS), torch.nn.Linear(UNITS, UNITS)
    third = torch.nn.Linear(UNITS, 1)
    torch.nn.init.zeros_(third.weight)
    torch.nn.init.zeros_(third.bias)

    def loss() -> Any:
        batch = torch.randint(len(y), (POINTS,))
        inner = torch.relu(first(torch.cat([key_table(key_at[batch]), known[row[batch]]], dim=1)))
        return torch.nn.functional.smooth_l1_loss(third(torch.relu(second(inner)))[:, 0], y[batch], beta=0.01)

    layers = [*key_table.parameters(), *first.parameters(), *second.parameters(), *third.parameters()]
    _fit(torch, layers, loss, steps, "sizes", told)
    return keys, {"linear": Array.of(np.stack(linear)), "key": _array(key_table.weight), "w1": _array(first.weight),
                  "b1": _array(first.bias), "w2": _array(second.weight), "b2": _array(second.bias),
                  "w3": _array(third.weight), "b3": _array(third.bias)}


def _fit(torch: Any, parameters: Sequence[Any], loss: Callable[[], Any], steps: int, name: str,
         told: Told | None) -> None:
    """Adam (Kingma, Ba, ICLR 2015) with a rate that goes to 0 as a cosine."""
    optimizer = torch.optim.Adam(parameters, lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    total = 0.0
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        total += float(value.detach())
        if told is not None and step % 100 == 0:
            told(f"{name}: step {step} of {steps}, loss {total / 100:.5f}")
            total = 0.0


def _array(parameter: Any) -> Array:
    return Array.of(parameter.detach().numpy())
