"""Synthesising traces: learn a model from examples, draw new ones, say how close they are."""

from __future__ import annotations

from astrarium.trace.synthesise.examples import Example, example_of
from astrarium.trace.synthesise.fidelity import Fidelity, fidelity
from astrarium.trace.synthesise.learn import Model, learn
from astrarium.trace.synthesise.sample import sample

__all__ = ["Example", "Fidelity", "Model", "example_of", "fidelity", "learn", "sample"]
