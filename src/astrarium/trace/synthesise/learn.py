"""Learning a model of traces from examples, without torch: orders, run lengths, dependencies, sizes.

Order: a Markov chain over the last ORDER tokens. Where several tokens may follow, the model keeps how often each is
taken in a row, as a function of the conditions (a layer comes L - 1 times before the head): nested loops of layers and
micro-batches are recovered. Dependencies: per token, which earlier tokens it waits for, and how far back. Sizes: per
token and attribute, log-quadratic in the conditions with the residuals' quantiles.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from astrarium.errors import InputError
from astrarium.trace.synthesise.examples import VALUES, Example, Token
from astrarium.trace.synthesise.regression import Fit, features, fit_log, fit_runs, raw_features

__all__ = ["END", "ORDER", "Branch", "Model", "Motif", "Size", "learn", "rest_of_run"]

ORDER = 10
END = -1
FEW = 3                 # distances that are kept one by one
FEWEST = 8              # examples that a regression of its own needs
State = tuple[int, ...]


@dataclass(frozen=True)
class Branch:
    """What may follow a state: tokens in the order in which they are taken, and runs of each (None: to the end)."""

    follow: tuple[int, ...]
    runs: tuple[Fit | None, ...]


@dataclass(frozen=True)
class Motif:
    """Waits for a token: `back` of its occurrences (1: the latest), or, where those are many, for one that is
    `spread` times what is left of the run of equal nodes back: buckets of gradients fill one after the other."""

    parent: int
    back: tuple[int, ...]
    spread: Fit | None = None


@dataclass(frozen=True)
class Size:
    """An attribute of a token: always 0 (no fit), or a fit of the mean, or of the `total` over all such nodes where
    that says more (gradients fall into buckets in one way or another, their bytes are those of the model)."""

    fit: Fit | None
    total: bool = False


@dataclass(frozen=True, eq=False)
class Model:
    """What was learned. `names` are the conditions in order of the features; `low`, `high` their span."""

    names: tuple[str, ...]
    low: Mapping[str, float]
    high: Mapping[str, float]
    tokens: tuple[Token, ...]
    branches: Mapping[State, Branch]
    motifs: Mapping[int, tuple[Motif, ...]]
    sizes: Mapping[tuple[int, str], Size]
    longest: int
    examples: int


def learn(examples: Sequence[Example]) -> Model:
    """The model of `examples`. InputError where there are none, or their conditions differ in names."""
    if not examples:
        raise InputError("synthesise", "no examples", expected="at least one trace")
    names = tuple(sorted(examples[0].conditions))
    if any(tuple(sorted(each.conditions)) != names for each in examples):
        raise InputError("synthesise", "examples have different conditions", expected=", ".join(names))
    number: dict[Token, int] = {}
    coded = []
    for each in examples:
        own = np.array([number.setdefault(token, len(number)) for token in each.tokens], np.int64)
        coded.append(own[each.token])
    rows = [each.conditions for each in examples]
    span = {name: [row[name] for row in rows] for name in names}
    return Model(names, {name: min(found) for name, found in span.items()},
                 {name: max(found) for name, found in span.items()}, tuple(number),
                 _branches(coded, raw_features(rows, names)), _motifs(examples, coded, raw_features(rows, names)),
                 _sizes(examples, coded, features(rows, names)), max(map(len, coded)), len(examples))


# ------------------------------------------------------------ order
def _branches(coded: Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]],
              x: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> dict[State, Branch]:
    taken: dict[State, dict[int, list[list[int]]]] = defaultdict(lambda: defaultdict(list))
    for example, tokens in enumerate(coded):
        state: State = ()
        for token in [*tokens.tolist(), END]:
            runs = taken[state][example]
            if runs and runs[-1][0] == token:
                runs[-1][1] += 1
            else:
                runs.append([token, 1])
            state = (*state[-ORDER + 1:], token)
    return {state: _branch(found, x) for state, found in taken.items()}


def _branch(found: Mapping[int, list[list[int]]],
            x: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Branch:
    """Tokens by when they are first taken; runs by regression where there are enough examples, else their median."""
    first: dict[int, list[float]] = defaultdict(list)
    lengths: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for example, runs in found.items():
        for place, (token, count) in enumerate(runs):
            if token not in lengths or example not in lengths[token]:
                first[token].append(place)
            lengths[token][example].append(count)
    follow = tuple(sorted(first, key=lambda token: (token == END, float(np.mean(first[token])), token)))
    if len(follow) == 1:
        return Branch(follow, (None,))
    fits = []
    for token in follow:
        at = sorted(lengths[token])
        y = np.array([float(np.median(lengths[token][each])) for each in at])
        absent = [each for each in found if each not in lengths[token]]
        at, y = [*at, *absent], np.append(y, np.zeros(len(absent)))
        fits.append(fit_runs(x[at] if len(at) >= FEWEST else x[at][:, :1], y))
    width = x.shape[1]
    return Branch(follow, tuple(Fit(np.pad(fit.weight, (0, width - fit.weight.size)), fit.residual) for fit in fits))


# ------------------------------------------------------------ dependencies
def _motifs(examples: Sequence[Example], coded: Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]],
            x: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> dict[int, tuple[Motif, ...]]:
    """Per token the most frequent set of parents and distances; where they are many, how far back the latest is."""
    sets: dict[int, Counter[tuple[tuple[int, tuple[int, ...]], ...]]] = defaultdict(Counter)
    spread: dict[tuple[int, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for example, (each, tokens) in enumerate(zip(examples, coded, strict=True)):
        rest = rest_of_run(tokens)
        for node, (token, back) in enumerate(_backs(each, tokens.tolist())):
            sets[token][tuple(sorted((kind, tuple(sorted(far)) if len(far) <= FEW else ())
                                     for kind, far in back.items()))] += 1
            for kind, far in back.items():
                if rest[node] > 0:
                    spread[token, kind][example].append((min(far) - 1) / rest[node])
    found = {}
    for token, counted in sets.items():
        best = max(counted.items(), key=lambda item: (item[1], item[0]))[0]
        found[token] = tuple(Motif(kind, back or (1,), _spread(spread.get((token, kind), {}), x) if not back else None)
                             for kind, back in best)
    return found


def _backs(each: Example, listed: Sequence[int]) -> Iterator[tuple[int, dict[int, list[int]]]]:
    """Per node its token, and per parent's token how many occurrences back its parents are (1: the latest)."""
    seen: Counter[int] = Counter()
    rank, ptr, parent = [0] * len(listed), each.ptr.tolist(), each.parent.tolist()
    for node, token in enumerate(listed):
        back: dict[int, list[int]] = defaultdict(list)
        for before in parent[ptr[node]:ptr[node + 1]]:
            back[listed[before]].append(seen[listed[before]] - rank[before])
        yield token, back
        rank[node] = seen[token]
        seen[token] += 1


def rest_of_run(tokens: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """[nodes] which share of the run of equal tokens comes after the node; 0 at its end."""
    edge = np.flatnonzero(np.diff(tokens)) + 1
    begin, end = np.concatenate([[0], edge]), np.concatenate([edge, [tokens.size]])
    length = np.repeat(end - begin, end - begin)
    return np.asarray((np.repeat(end, end - begin) - 1 - np.arange(tokens.size)) / length, np.float64)


def _spread(found: Mapping[int, list[float]], x: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Fit | None:
    at = sorted(found)
    if len(at) < FEWEST:
        return None
    return fit_runs(x[at], np.array([float(np.median(found[each])) for each in at]))


# ------------------------------------------------------------ sizes
def _sizes(examples: Sequence[Example], coded: Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]],
           x: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> dict[tuple[int, str], Size]:
    """Per token and attribute; every example weighs the same whatever its number of such nodes."""
    rows: dict[tuple[int, str], list[tuple[int, float, float]]] = defaultdict(list)
    counts: dict[int, dict[int, int]] = defaultdict(dict)
    for example, (each, tokens) in enumerate(zip(examples, coded, strict=True)):
        order = np.argsort(tokens, kind="stable")
        kinds, begin = np.unique(tokens[order], return_index=True)
        for kind, part in zip(kinds.tolist(), np.split(order, begin[1:]), strict=True):
            counts[kind][example] = part.size
            for column, name in enumerate(VALUES):
                values = each.values[part, column]
                values = values[~np.isnan(values)]
                distinct, count = np.unique(values, return_counts=True)
                rows[kind, name] += [(example, value, times / values.size) for value, times in
                                     zip(distinct.tolist(), count.tolist(), strict=True)]
    found = {}
    for key, listed in rows.items():
        positive = [row for row in listed if row[1] > 0]
        if not listed:
            continue
        found[key] = _size(positive, x, counts[key[0]]) if len(positive) * 2 > len(listed) else Size(None)
    return found


def _size(listed: Sequence[tuple[int, float, float]], x: np.ndarray[tuple[int, int], np.dtype[np.float64]],
          counts: Mapping[int, int]) -> Size:
    """The fit of every example's mean or total; residuals are those of the fit and of nodes about the mean."""
    example, value, weight = (np.array([row[side] for row in listed]) for side in range(3))
    at, inverse = np.unique(example.astype(np.int64), return_inverse=True)
    mean = np.bincount(inverse, value * weight) / np.bincount(inverse, weight)
    total = mean * np.array([counts[each] for each in at.tolist()])
    rows = x[at] if at.size >= FEWEST else x[at][:, :1]
    fits = [fit_log(rows, each, np.ones(at.size)) for each in (mean, total)]
    rest = [np.log(each) - rows @ fit.weight for each, fit in zip((mean, total), fits, strict=True)]
    chosen = int(rest[1].std() < 0.9 * rest[0].std() and rest[0].std() > 1e-3)
    quantiles = np.quantile(np.log(value / mean[inverse]) + rest[chosen][inverse], np.linspace(0.05, 0.95, 10))
    return Size(Fit(np.pad(fits[chosen].weight, (0, x.shape[1] - rows.shape[1])), quantiles), bool(chosen))
