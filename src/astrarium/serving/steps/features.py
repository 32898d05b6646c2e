"""What the numbers of attention are linear in: tokens, keys that are read, and scores, with and without a window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astrarium.arrays import F64, I64
from astrarium.workload.inference.replica import Replica
from astrarium.workload.model.base import cache_of, with_layers

__all__ = ["decode_features", "edge_of", "limit_of", "line", "prompt_features", "token_features", "windows_of"]


def edge_of(replica: Replica) -> int | None:
    """Tokens of a fresh prompt beyond which it runs other kernels: as many as an indexer chooses."""
    sparse = getattr(replica.model, "sparse", None)
    return None if sparse is None else int(sparse.top_k)


def limit_of(replica: Replica) -> int | None:
    """Tokens of the longest sequence that is modelled: one chunk of attention that goes chunk by chunk."""
    cache = cache_of(replica.model)
    return None if cache is None else cache.limit


def windows_of(replica: Replica) -> tuple[int | None, ...]:
    """How many tokens layers look at: all (None), those in a window that is shorter than the longest sequence, those
    that an indexer chooses; a state is none."""
    cache, layered = cache_of(replica.model), with_layers(replica.model)
    if cache is None or layered is None:
        return (None,)
    sights = {cache.sight(layer) for layer in range(layered.layers)} - {cache.limit}
    return (None, *sorted(each for each in {*sights, edge_of(replica)} if each is not None and each > 1))


def line(tokens: I64) -> F64:
    """[points, 2] of what goes through the layers, or is sampled."""
    return np.stack([np.ones(len(tokens)), tokens], axis=1)


def token_features(tokens: I64, curves: Sequence[F64]) -> F64:
    """[points, features] of tokens, and of sizes that are another function of them: each alone and times the tokens."""
    return np.concatenate([line(tokens), *(np.stack([each, each * tokens], axis=1) for each in curves)], axis=1)


def decode_features(count: I64, context: I64, padding: I64, new: int, windows: Sequence[int | None]) -> F64:
    """[points, features] of `count` sequences with `new` tokens each and `context` tokens in their caches in all, and
    `padding` more without a cache."""
    mean, rest = np.divmod(context, count)
    columns, every, each = [np.ones(len(count)), count + padding], count + padding, np.full(len(count), new)
    for window in windows:
        (keys, scores), (more, others) = _seen(each, mean, window), _seen(each, mean + 1, window)
        alone, own = _seen(each, 0 * mean, window)
        keys = (count - rest) * keys + rest * more + padding * alone
        scores = (count - rest) * scores + rest * others + padding * own
        columns += [keys, scores, keys / every, scores / keys, scores / (every * keys)]
    return np.stack(columns, axis=1).astype(np.float64)


def prompt_features(count: I64, new: I64, past: I64, windows: Sequence[int | None]) -> F64:
    """[points, features] of `count` equal prompts, or parts of them: `new` tokens with `past` tokens in the cache."""
    columns = [np.ones(len(new)), count, new, count * new]
    for window in windows:
        keys, scores = _seen(new, past, window)
        columns += [keys, count * keys, count * scores, scores / (new * keys), scores / (count * new * keys)]
    return np.stack(columns, axis=1).astype(np.float64)


def _seen(new: I64, past: I64, window: int | None) -> tuple[I64, I64]:
    """(keys, scores) of one sequence with a causal mask."""
    if window is None:
        return past + new, new * past + new * (new + 1) // 2
    rising: I64 = np.clip(window - past, 0, new)
    keys: I64 = np.minimum(past, window - 1) + new
    return keys, rising * past + rising * (rising + 1) // 2 + (new - rising) * window
