"""`astrarium trace synthesise learn|sample|compare`: models of traces, and traces from them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING

from astrarium.cli.arguments import Parser, json_flag, note, place, whole
from astrarium.cli.json_output import print_json
from astrarium.cli.trace_write import files_flags, how, progress, report
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.synthesise import Example, Model
    from astrarium.trace.work import Generated

__all__ = ["arguments", "run"]

DOUBTFUL = 0.1      # median error of totals from which on a model is said not to give back its examples
MODELS = "llama2-7b,llama2-13b,llama3-8b,llama2-70b"


def arguments(parser: Parser) -> None:
    """What to do."""
    verbs = parser.add_subparsers(dest="synthesise_verb", metavar="learn|sample|compare", required=True,
                                  parser_class=Parser)
    learn = _verb(verbs, "learn", "A model from traces, each with PREFIX.conditions.json, or from drawn ones.")
    learn.add_argument("traces", metavar="PREFIX", nargs="*", help="traces PREFIX.RANK.et with PREFIX.groups.json and "
                       "PREFIX.conditions.json; or a folder of such; none: --models")
    _corpus_flags(learn, 1000, "learn")
    learn.add_argument("--seed", type=int, default=0, help="seed of the draw (0)")
    learn.add_argument("-o", "--out", metavar="MODEL", required=True, help="the file of the model")
    json_flag(learn)
    draw = _verb(verbs, "sample", "Traces for conditions that no example need have had.")
    draw.add_argument("model", metavar="MODEL", help="a model file of `learn`")
    draw.add_argument("--condition", metavar="NAME=VALUE", action="append", default=[],
                      help="a condition that the model names; may be repeated. --tp N is short for --condition tp=N")
    for axis in ("tp", "dp", "pp"):
        draw.add_argument(f"--{axis}", type=whole, metavar="N", help=f"the layout's {axis}")
    draw.add_argument("--ranks", type=whole, metavar="N", help="tp * dp * pp; sets dp if it is not given")
    draw.add_argument("--model-size", metavar="NAME", help="sizes of a model of the catalog (llama2-7b, ...)")
    draw.add_argument("--seed", type=int, default=0, help="seed of the draw (0)")
    draw.add_argument("--jitter", action="store_true", help="draw sizes around their laws instead of at their centre")
    _model_flags(draw)
    files_flags(draw)
    other = _verb(verbs, "compare", "Compare drawn traces with the true traces of a held-out part.")
    other.add_argument("model", metavar="MODEL", help="a model file of `learn`, learnt from the catalog")
    _corpus_flags(other, 24, "held_out")
    other.add_argument("--seed", type=int, default=0, help="seed of the draw (0)")
    _model_flags(other)
    json_flag(other)


def _verb(verbs: argparse._SubParsersAction[Parser], name: str, words: str) -> Parser:
    return verbs.add_parser(name, prog=f"astrarium trace synthesise {name}", description=words, help=words)


def _corpus_flags(parser: Parser, count: int, part: str) -> None:
    parser.add_argument("--models", metavar="NAMES", default=None, help=f"dense decoders of the catalog ({MODELS})")
    parser.renamed = {"--catalog": "--models", "--count": "--traces"}
    parser.add_argument("--traces", type=whole, default=count, dest="count", metavar="N",
                        help=f"number of traces to draw ({count})")
    parser.add_argument("--part", choices=("learn", "held_out", "fresh"), default=part,
                        help=f"split of sizes and replicas to draw from ({part})")


def _model_flags(parser: Parser) -> None:
    parser.add_argument("--extrapolate", action="store_true", help="allow conditions outside the learnt range")


def run(options: argparse.Namespace) -> int:
    """The sub-verb."""
    return {"learn": _learn, "sample": _sample, "compare": _compare}[options.synthesise_verb](options)


# ------------------------------------------------------------ learn
def _learn(options: argparse.Namespace) -> int:
    from astrarium.synthesise import learn, reproduced, save_model

    place("-o", options.out)
    if options.traces and options.models:
        raise InputError("--models", "cannot be combined with traces", expected="one of the two")
    examples = _given(options.traces) if options.traces else _drawn(options)
    def finite(error: float) -> float | None:
        return error if isfinite(error) else None

    model = learn(examples)
    save_model(options.out, model)
    again = reproduced(model, examples)
    if again.median > DOUBTFUL:
        where = ", ".join(f"{name} {value:g}" for name, value in again.conditions.items())
        note(f"this model does not reproduce its training traces; the worst: {again.what} at {where}")
    span = {name: [low, high] for name, low, high in zip(model.names, model.low, model.high, strict=True)}
    if options.json:
        print_json("trace synthesise learn", {
            "model": options.out, "examples": model.examples, "tokens": len(model.tokens), "conditions": span,
            "reproduction": {"median": finite(again.median), "worst": finite(again.error)}})
        return 0
    print(f"{options.out}: {model.examples:,} examples (ranks' traces), {len(model.tokens)} kinds of nodes")
    print(f"{again.tried} of them drawn again: totals by kind of node within {again.median:.2%} (median), "
          f"{again.error:.2%} (worst)")
    print("conditions: " + ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in span.items()))
    return 0


def _drawn(options: argparse.Namespace) -> list[Example]:
    from astrarium.synthesise import examples_of_generated

    out: list[Example] = []
    for number, (conditions, made) in enumerate(_corpus(options)):
        out += examples_of_generated(made, conditions)
        if sys.stderr.isatty() and number % 20 == 0:
            print(f"\r{number:,} of {options.count:,} traces", end="", file=sys.stderr, flush=True)
    return out


def _corpus(options: argparse.Namespace) -> Iterator[tuple[dict[str, float], Generated]]:
    from astrarium.workload.corpus import draw_corpus
    from astrarium.workload.generate import generate

    names = (options.models or MODELS).split(",")
    for conditions, work in draw_corpus(names, options.count, part=options.part, seed=options.seed):
        yield conditions, generate(work)


def _given(paths: list[str]) -> list[Example]:
    from astrarium.synthesise.files import find_prefixes, read_examples

    return [example for prefix in find_prefixes(paths) for example in read_examples(prefix)]


# ------------------------------------------------------------ sample
def _sample(options: argparse.Namespace) -> int:
    from astrarium.config.whole import write_whole
    from astrarium.synthesise import load_model, sample
    from astrarium.synthesise.sample import within
    from astrarium.trace.export import write_generated

    model = load_model(options.model)
    conditions = _conditions(options, model)
    made = sample(model, conditions, seed=options.seed, jitter=options.jitter, extrapolate=options.extrapolate)
    for each in within(model, conditions):
        note(f"extrapolated: {each}")
    written = write_generated(made, options.out, jobs=options.jobs, link=how(options), compress=options.gzip,
                              progress=progress())
    with write_whole(f"{options.out}.conditions.json") as stream:
        stream.write((json.dumps(conditions, indent=1) + "\n").encode())
    report(options, written)
    return 0


def _conditions(options: argparse.Namespace, model: Model) -> dict[str, float]:
    """What the flags say; numbers of the catalog first, then what is said one by one."""
    out: dict[str, float] = {}
    if options.model_size:
        from astrarium.workload.corpus import sizes_of_model

        out.update((name, value) for name, value in sizes_of_model(options.model_size).items() if name in model.names)
    for text in options.condition:
        name, equals, value = text.partition("=")
        try:
            out[name] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise InputError("--condition", text[:60], expected="NAME=NUMBER")
    given = {axis: getattr(options, axis) for axis in ("tp", "dp", "pp")}
    out.update({axis: float(value) for axis, value in given.items() if value is not None})
    for axis in ("tp", "pp"):
        if axis in model.names:
            out.setdefault(axis, 1.0)
    if options.ranks is not None:
        rest = out.get("tp", 1.0) * out.get("pp", 1.0)
        out.setdefault("dp", options.ranks / rest)
        if rest * out["dp"] != options.ranks or out["dp"] != int(out["dp"]):
            raise InputError("--ranks", f"{options.ranks} is not tp * dp * pp",
                             expected=f"a multiple of tp * pp = {rest:g}" if options.dp is None else
                             f"{rest * out['dp']:g}")
    return out


# ------------------------------------------------------------ compare
def _compare(options: argparse.Namespace) -> int:
    from msgspec.structs import asdict

    from astrarium.report.tables.synthesis import COLUMNS, compare, summary
    from astrarium.report.tables.table import Table, print_tables
    from astrarium.synthesise import examples_of_generated, load_model, sample

    model = load_model(options.model)
    pairs = list(_corpus(options))
    options.part, options.count = "learn", 20
    known = [example for c, made in _corpus(options) for example in examples_of_generated(made, c)]
    found = [compare(sample(model, c, seed=options.seed, extrapolate=options.extrapolate), real, c, known)
             for c, real in pairs]
    if options.json:
        print_json("trace synthesise compare", {"summary": summary(found), "cases": [asdict(each) for each in found]})
        return 0
    rows = [(kind, *(f"{summary(found)[column][kind]:.2%}" for column in COLUMNS)) for kind in ("median", "worst")]
    print_tables([Table(f"{len(pairs)} held-out traces", "<" + ">" * len(COLUMNS), rows, ("", *COLUMNS))], sys.stdout)
    return 0
