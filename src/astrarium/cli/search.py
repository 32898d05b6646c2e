"""`astrarium search SPACE.yaml`: look for the best designs of a space."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from astrarium.cli.arguments import Parser, apart, idle, json_flag, note, once, outputs, place, set_flag, whole, wrote
from astrarium.cli.imports import say_imports
from astrarium.cli.json_output import print_json
from astrarium.cli.pages import page_flags, page_for, write_page, written
from astrarium.cli.progress import Counted, Line, clock
from astrarium.config import assignments
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.search import Progress, Study
    from astrarium.search.searchfile import SearchFile

__all__ = ["arguments", "run"]

TRIALS, SEED, CACHE = 200, 0, "512 MiB"


def arguments(parser: Parser) -> None:
    """The space, what is wanted, who looks for it, and where trials are kept."""
    parser.add_argument("space", metavar="SPACE.yaml", help="the space, a search file, or a bundle (.zip) to run again")
    set_flag(parser, "change a field of the base")
    parser.add_argument("--minimize", "--objective", metavar="EXPR", action="append", default=[],
                        help="makespan, runtime_x_cost, of a serving file ttft_p99, any expression over figures and "
                             "design paths; may be repeated")
    parser.add_argument("--maximize", metavar="EXPR", action="append", default=[], help="as --minimize, but more is "
                                                                                        "better")
    parser.add_argument("--require", metavar="COND", action="append", default=[],
                        help="a condition that designs must meet, such as 'peak_memory <= memory.capacity' or "
                             "'ttft_p99 <= 2s'")
    parser.add_argument("--agent", metavar="A", help="the agent (astrarium list agent), or 'command:PROGRAM ARGS' "
                                                     "for a program of yours; default bayesian")
    parser.add_argument("--option", metavar="key=value", action="append", default=[],
                        help="a hyper-parameter of the agent; may be repeated")
    parser.add_argument("--trials", metavar="N", type=whole, help=f"trials in total; default {TRIALS}")
    parser.add_argument("--seed", metavar="S", type=int, help=f"default {SEED}")
    parser.add_argument("--start", metavar="FILE", action="append", default=[],
                        help="designs to try after the base, from which the agent learns: a design file, a study "
                             "(its ten best), or a CSV with a column per knob; may be repeated; none: not even the "
                             "base")
    parser.add_argument("--limit", metavar="L", action="append", default=[],
                        help='limit of one design: "10 s" of CPU time, "8 GB" of memory; may be repeated')
    parser.add_argument("--cap", metavar="K", type=float,
                        help="stop a design once its objective is sure to be worse than K times the best so far; "
                             "default: every design runs to its end")
    parser.add_argument("--fidelity", metavar="MODEL", action="append", default=[],
                        help="a cheaper network model (closed_form): if it ranks random designs as the dear one does, "
                             "a search of 100 trials in it comes first, and its ten best designs start the search; "
                             "may be repeated, the cheapest first")
    parser.add_argument("--cache", metavar="SIZE", help="bytes that a process caches of workloads, traces and "
                                                        f"collectives for later designs; default {CACHE}")
    parser.add_argument("-j", "--jobs", metavar="N", type=whole, default=1, help="designs evaluated at a time")
    parser.add_argument("--processes", action="store_true", help="evaluate in processes instead of threads")
    parser.add_argument("--ray", metavar="ADDRESS",
                        help="evaluate on a Ray cluster: local, auto, host:port or ray://host:port (extra: ray)")
    parser.add_argument("--study", metavar="FILE", help="file of the trials; default SPACE.AGENT-SEED.study")
    parser.add_argument("--no-study", action="store_true", help="store no trials")
    parser.add_argument("--best", metavar="FILE", help="write the best design as a design file, or as a serving file "
                                                       "and its design")
    parser.add_argument("--count", action="store_true", help="only count the space")
    page_flags(parser, "what astrarium report --html writes of the study")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Search, print, write."""
    from astrarium.cli.paths import read_as
    from astrarium.search.searchfile import load_search, of_goal

    idle("--study", options.study and options.no_study, "no --no-study")
    idle("--processes", options.processes and options.jobs == 1, "-j 2 or more as well")
    idle("-j" if options.jobs > 1 else "--processes", options.ray and (options.jobs > 1 or options.processes),
         "no --ray: the cluster says how many")
    place("--best", options.best)
    page = page_for("report", options)
    if options.space.endswith(".zip"):
        return _again(options)
    file = read_as("space", lambda path: load_search(path, assignments(options.set)), options.space)
    for flag, name in outputs(options):
        apart(flag, name, (file.base, *options.start))
    for flag in ("html", "plot"):
        if getattr(options, flag) and options.no_study:
            raise InputError(f"--{flag}", "needs a study: leave out --no-study")
    say_imports(file.space.base)
    if options.count:
        _nothing_but(options, ("best", "processes", "ray", "html", "plot"), "no --count: nothing is evaluated")
        idle("-j", options.jobs > 1, "no --count: nothing is evaluated")
        return _count(file, options)
    try:
        study, path = _searched(file, options)
    except InputError as error:
        raise of_goal(error, options.space) from None
    for text in study.notes:
        note(text)
    _print(study, options, path)
    if written(options) and path is not None:
        from astrarium.cli.report import reported
        from astrarium.search.studyfile import load_study

        write_page(page, options, reported([load_study(path)]))
    if options.best:
        _write_best(study, options.best)
    return 0


def _again(options: argparse.Namespace) -> int:
    """A bundle runs again: 0 where every trial is the same to the byte."""
    from astrarium.search.bundle import rerun

    _nothing_but(options, ("set", "count", "html", "plot"), "a bundle as it is, or a space")
    told = _Trials("objective")
    with Line(sys.stderr, told, everywhere=True):
        found = rerun(options.space, jobs=options.jobs, processes=options.processes, ray=options.ray,
                      progress=told.show)
    _print(found.study, options)
    if options.best:
        _write_best(found.study, options.best)
    if found.stopped:
        note(f"{found.stopped:,} designs were stopped at a limit in the bundle: they did not run again")
    if found.differs is None:
        note(f"all {found.trials:,} trials are those of the bundle, byte for byte")
        return 0
    note(f"trial {found.differs} is not that of the bundle, which was made by "
         + ", ".join(f"{name} {version}" for name, version in found.versions.items()))
    return 1


def _nothing_but(options: argparse.Namespace, more: Sequence[str], beside: str) -> None:
    """InputError for a flag that says what a search is, and for those of `more`."""
    for name in ("minimize", "maximize", "require", "agent", "option", "trials", "seed", "start", "study", "no_study",
                 "limit", "cap", "fidelity", "cache", *more):
        idle(f"--{name.replace('_', '-')}", getattr(options, name) not in (None, [], False), beside)


def _count(file: SearchFile, options: argparse.Namespace) -> int:
    space = file.space
    if options.json:
        print_json("search count", {"feasible_points": space.count, "nominal_points": space.nominal,
                                    "knobs": len(space.axes)})
    else:
        print(f"{space.count:,} feasible designs of {space.nominal:,} in {len(space.axes)} knobs")
    return 0


def _searched(file: SearchFile, options: argparse.Namespace) -> tuple[Study, str | None]:
    """What was found, and the file that keeps it."""
    from astrarium.search.goal import goal_of
    from astrarium.search.study import DEFAULT, search
    from astrarium.search.subject import subject_of

    asked = options.minimize or options.maximize
    minimize = options.minimize if asked else file.minimize
    maximize = options.maximize if asked else file.maximize
    minimize = minimize or (() if maximize else subject_of(file.space.base).usual or ())
    agent = options.agent or file.agent or DEFAULT
    settings = _settings(options.option)
    if agent == file.agent:
        settings = {**file.options, **settings}
    seed = next(each for each in (options.seed, file.seed, SEED) if each is not None)
    study = None if options.no_study else options.study or _default_study(options.space, agent, seed)
    once([*([("--study", study)] if study else []), *outputs(options)])
    told = _Trials(goal_of(minimize, maximize).objectives[0].name, study if options.study is None else None)
    with Line(sys.stderr, told, everywhere=True) as line:
        told.say = line.note
        found = search(file.space, minimize, maximize=maximize,
                       require=[*file.require, *options.require], cases=file.cases, agent=agent, options=settings,
                       trials=options.trials or file.trials or TRIALS, seed=seed,
                       start=() if options.start == ["none"] else options.start or None,
                       jobs=options.jobs, processes=options.processes, ray=options.ray, study=study,
                       limit=options.limit or file.limit, cap=file.cap if options.cap is None else options.cap,
                       fidelity=options.fidelity or file.fidelity, cache=options.cache or CACHE, progress=told.show)
    return found, study


def _default_study(space: str, agent: str, seed: int) -> str:
    return f"{os.path.splitext(os.path.basename(space))[0]}.{agent.partition(':')[0]}-{seed}.study"


def _settings(texts: list[str]) -> dict[str, Any]:
    from astrarium.config import assignment

    found: dict[str, Any] = {}
    for text in texts:
        key, value = assignment(text)
        if key in found:
            raise InputError(f"--option {key}", "is there twice", expected="one value")
        found[key] = value
    return found


def _write_best(study: Study, path: str) -> None:
    from astrarium.search.subject import dump_base

    if study.best is None:
        raise InputError("--best", f"{study.nothing}, so there is no best design")
    dump_base(study.plan.space.design(study.best.point), path)
    wrote(path)


def _print(study: Study, options: argparse.Namespace, path: str | None = None) -> None:
    """`path`: the study's file, which keeps what is found of its best designs."""
    from astrarium.report.tables.study import study_best, study_plain, study_tables

    told = Counted()
    with Line(sys.stderr, told):
        best = study_best(study, path, lambda done, total: told.show(done, total, "best designs with their memory"))
    if options.json:
        print_json("search", study_plain(study, best))
        return
    from astrarium.report.tables.table import print_tables

    print_tables(study_tables(study, options.space, best), sys.stdout)


class _Trials:
    """How far a search is. And, once there are trials, the name of the file that keeps them, where none was given."""

    def __init__(self, objective: str, study: str | None = None):
        self.objective, self.study = objective, study
        self.say = note
        self._state: Progress | None = None
        self._since = time.monotonic()

    def show(self, state: Progress) -> None:
        """The state of a study, to be drawn at the next turn."""
        if self.study is not None and state.trials:
            self.say(f"trials are stored in {self.study}; the same command continues the study")
            self.study = None
        self._state, self._since = state, time.monotonic()

    def __call__(self) -> str | None:
        state = self._state
        return None if state is None else _progress(state, self.objective, time.monotonic() - self._since)


def _progress(state: Progress, objective: str, since: float) -> str:
    """Trials, best so far, rate, refused trials, time left; `since`: seconds since that was the state."""
    from astrarium.report.tables.study import shown

    seconds = state.seconds + since
    rate = state.fresh / seconds if seconds and state.fresh else 0.0
    left = f"{clock((state.planned - state.trials) / rate)} left" if rate else "time left unknown"
    best = "none yet" if state.best is None else shown(objective, state.best)
    speed = f"{rate:,.3g} designs/s" if rate >= 1 or not rate else f"{1 / rate:,.3g} s a design"
    return (f"{state.trials:,} of {state.planned:,} trials, best {objective} {best}, {speed}, "
            f"{state.refused:,} refused, {left}")
