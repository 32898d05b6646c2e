"""COMET's workflow (Kadiyala et al., arXiv 2211.16648): which cluster trains a model how fast, and what bounds it.

A book of parameters (each with its source) names cases and clusters. A `Lab` simulates points: a case under a strategy
(MP, DP) on a cluster, with the memory bandwidth that its footprint has over local and expanded memory.
"""

from __future__ import annotations

from comet.cases import Case
from comet.compare import Row, compared, expansion_ratios, ratio, spread_ratio
from comet.decompose import PHASES, LayerPhase, decompose
from comet.lab import Lab, Point
from comet.machines import Cluster, Expansion, Spread, spread_of
from comet.market import Bought, Terms, bought, terms_of
from comet.parameters import MARKS, Book, Parameter, load_book
from comet.phases import Breakdown
from comet.questions import Answer, Changed, answers, sensitivities
from comet.sweeps import Grid, by_split, capacities, expansions, faster, networks, scaled

__all__ = ["MARKS", "PHASES", "Answer", "Book", "Bought", "Breakdown", "Case", "Changed", "Cluster", "Expansion",
           "Grid", "Lab", "LayerPhase", "Parameter", "Point", "Row", "Spread", "Terms", "answers", "bought",
           "by_split", "capacities", "compared", "decompose", "expansion_ratios", "expansions", "faster", "load_book",
           "networks", "ratio", "scaled", "sensitivities", "spread_of", "spread_ratio", "terms_of"]
