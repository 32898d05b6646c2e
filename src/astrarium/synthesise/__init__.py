"""Synthesising traces: learn a model from examples, draw new ones, say how close they are."""

from __future__ import annotations

from astrarium.synthesise.examples import Example, examples_of, examples_of_generated
from astrarium.synthesise.fidelity import Fidelity, fidelity
from astrarium.synthesise.learn import Model, learn
from astrarium.synthesise.reproduce import Reproduction, reproduced
from astrarium.synthesise.sample import sample
from astrarium.synthesise.store import load_model, save_model
from astrarium.synthesise.tokens import Token

__all__ = ["Example", "Fidelity", "Model", "Reproduction", "Token", "examples_of", "examples_of_generated", "fidelity",
           "learn", "load_model", "reproduced", "sample", "save_model"]
