"""The abstract `Model`: a family and its sizes. Text may replace one: a name of the catalog, or a config.json.

A family of models is one file with a class below Model, and one line of the registry (or an entry point). The class
is the only place that other rooms ask about a family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Protocol, TypeAlias, cast

from msgspec import Struct

from astrarium import catalog
from astrarium.config import Config, Knob, Problem, to_plain
from astrarium.config.named import Shorthand
from astrarium.config.spec import Variants
from astrarium.errors import InputError, UnsupportedError
from astrarium.registry import Kind, load
from astrarium.workload.model.checkpoint import Checkpoint

if TYPE_CHECKING:
    from fractions import Fraction

    from astrarium.workload.graph import Options, Stack
    from astrarium.workload.graph.layout import Size
    from astrarium.workload.model.hugging_face_keys import Readers

__all__ = ["Cache", "Count", "Counts", "Generation", "Layered", "Model", "Split", "cache_of", "with_layers"]

Count: TypeAlias = "int | Fraction"     # a Fraction only where heads do not divide d_model
Counts: TypeAlias = "tuple[Mapping[str, Count], Count]"


_TAKES = "a name of the catalog (`astrarium list models`), a path ending in .json (Hugging Face)"


def _is_file(text: str) -> bool:
    return text.endswith(".json")


def _plain(text: str) -> Mapping[str, Any]:
    """The model that a name of the catalog, or a Hugging Face config.json, describes."""
    if _is_file(text):
        from astrarium.workload.model.hugging_face import read_config

        return to_plain(read_config(text))
    try:
        found: Mapping[str, Any] = catalog.row_of("models", text)["model"]
    except InputError as error:
        raise InputError("", f"{text[:60]!r} is not a model of the catalog", expected=_TAKES,
                         did_you_mean=error.did_you_mean) from None
    unstated: Mapping[str, Any] = load("family", found["family"]).unstated
    return {**found, **{name: value for name, value in unstated.items() if name not in found}}


class Split(NamedTuple):
    """A layout of inference: degrees of the axes (`moe_tp`: parts of an expert), `redundant` experts, `even` where
    sizes must divide (`uneven: refuse`), `compressed` where the workload asks for a smaller cache."""

    tp: int
    sp: int = 1
    pp: int = 1
    ep: int = 1
    moe_tp: int = 1
    redundant: int = 0
    even: bool = True
    compressed: bool = False


class Cache(Struct, frozen=True):
    """The key-value cache of a model.

    `heads` are cached apart, so that tp can divide them. `sight(layer)` is how many tokens a layer looks back (None:
    all; 1: it has a state of fixed size, or nothing); only layers of equal sight can share a cache. `limit`: tokens
    of the longest sequence that is modelled (None: any).
    """

    heads: int
    sight: Callable[[int], int | None]
    limit: int | None = None


class Generation(Struct, frozen=True):
    """Steps of inference of a family. `rules(model, split)` yields what forbids a layout; `cache(model)` describes its
    key-value cache, None for a family that keeps states of fixed size in place of one. `predicts`: a module for
    multi-token prediction can be its draft (`Options.module`)."""

    rules: Callable[[Any, Split], Iterator[Problem]]
    cache: Callable[[Any], Cache] | None = None
    predicts: bool = False


class Model(Config, frozen=True, kw_only=True):
    """What is computed: a family of models and its sizes.

    A family has `stack` and `counts`; the rest where it applies. `layered`: it has `layers`, `heads` and `seq`.
    `generation`: its steps of inference; None: it has none. `unstated`: values of fields that a row of the catalog
    leaves out because its source does not state them.
    """

    variants: ClassVar[Variants | None] = Kind("family")
    tag_key: ClassVar[str] = "family"
    shorthand: ClassVar[Shorthand | None] = Shorthand(_plain, _TAKES, _is_file)
    layered: ClassVar[bool] = True
    generation: ClassVar[Generation | None] = None
    unstated: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    notes: Annotated[Sequence[str], Knob("What the import of a Hugging Face config.json assumed, and what it left out."
                                         )] = ()
    checkpoint: Annotated[Checkpoint | None, Knob("Number formats of the published weights; left out: 16 bits, or not "
                                                  "known.")] = None

    def stack(self, options: Options) -> Stack:
        """The model as blocks of operators, for training or (`options.packed`) a step of inference."""
        raise UnsupportedError("workload.model.family", f"family {self.tag} has no operators (stack) for a run over "
                               f"{options.seq} tokens")

    def sizes(self, options: Options) -> Mapping[str, Size]:
        """Sizes of the dims of its blocks."""
        return self.stack(options).sizes

    def counts(self) -> Counts:
        """(parameters by part, those of them that one token does not use), as the checkpoint holds them."""
        raise UnsupportedError("model", f"family {self.tag} does not count its parameters (counts)")

    def ep_units(self) -> int | None:
        """Into how many units ep must divide evenly (experts of a layer); 0: any ep; None: ep divides nothing."""
        return None

    @staticmethod
    def readers() -> Readers:
        """Values of `model_type` in a Hugging Face config.json, each with a function from its keys to this class's
        fields."""
        return {}


class Layered(Protocol):
    """A model with layers, heads and a sequence: a stack that pp, tp and sp divide. `seq`: tokens of a sample."""

    @property
    def layers(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def seq(self) -> int | None: ...


def with_layers(model: Model) -> Layered | None:
    """The model as one that has layers, heads and a sequence; None for a family that has none."""
    return cast(Layered, model) if model.layered else None


def cache_of(model: Model) -> Cache | None:
    """The model's key-value cache; None where it has none, or no steps of inference."""
    generation = model.generation
    return None if generation is None or generation.cache is None else generation.cache(model)
