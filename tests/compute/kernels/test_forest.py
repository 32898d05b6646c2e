"""Symmetric trees: the array evaluation equals walking every tree, question by question."""

import numpy as np

from astrarium.compute.kernels.forest import LEAF_UNIT, Forest, fixed_point


def walk(forest, column):
    total = forest.bias
    for questions, thresholds, leaves in zip(forest.feature, forest.threshold, forest.leaf):
        number = sum(int(column[f] > t) << bit for bit, (f, t) in enumerate(zip(questions, thresholds)))
        total += leaves[number] * LEAF_UNIT
    return total


def test_evaluation_equals_walking_the_trees():
    rng = np.random.default_rng(0)
    forest = Forest(rng.integers(0, 5, (40, 6)).astype(np.uint8), rng.integers(-2000, 2000, (40, 6)).astype(np.int16),
                    rng.integers(-900, 900, (40, 64)).astype(np.int16), 0.25)
    columns = rng.integers(-3000, 3000, (5, 1300)).astype(np.int16)
    assert np.allclose(forest(columns), [walk(forest, column) for column in columns.T], atol=1e-4)


def test_features_are_cut_where_an_int16_ends():
    assert fixed_point([0.0, 1.0, -1.0, 1e9, -1e9]).tolist() == [0, 512, -512, 32767, -32767]
