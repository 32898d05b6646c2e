"""Design-space search: spaces, objectives, agents and studies.

The modules, from the bottom; each imports only from lines above its own:

    choice, expression, goal, limits, update     values of a knob; expressions; objectives; limits of a design
    axes, scope, diagram, differences            knobs; names in expressions; feasible combinations
    constraints, trial, explain                  constraints solved; trials and the best of them
    space, store                                 a design space; the trials of a study on disk
    evaluate, inputs, searchfile, agents.base    designs run and judged; the agents' interface
    agents, bounds, workers, studyfile, best     who proposes; lower bounds; who evaluates; the plan and its file
    study, analysis, export, certificate         the loop of a search; what is made of a study
    bundle, agents.exact                         a study to run again elsewhere; the optimum with a proof
"""

from __future__ import annotations

from astrarium.search.agents import Agent, Batch, Options, Told, one_objective
from astrarium.search.axes import Point
from astrarium.search.choice import Choice
from astrarium.search.exam import problems, sit
from astrarium.search.goal import Case, Goal, Objective
from astrarium.search.searchfile import dump_space, load_space
from astrarium.search.space import Space
from astrarium.search.study import Progress, Study, search
from astrarium.search.trial import Trial

__all__ = ["Agent", "Batch", "Case", "Choice", "Goal", "Objective", "Options", "Point", "Progress", "Space", "Study",
           "Told", "Trial", "dump_space", "load_space", "one_objective", "problems", "search", "sit"]
