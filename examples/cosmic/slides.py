"""The talk's slides on COSMIC, a figure and a verdict each: python examples/cosmic/slides.py --quick --out DIR.

"Using AI to navigate the search space" (T. Krishna, ASPLOS 2026). The searches are those of study.py, in the same files
(DIR/studies). The same command goes on where the last one stopped; `--slide` draws only some. It writes DIR/slides.html
and a DIR/NAME.svg for each slide.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import figures
from optimum import PROVED, read_optima
from runs import FULL, QUICK, Found, carry_out, plan
from verdicts import FINDINGS, judged

import astrarium as ar
from astrarium.report.pages.html import escape, note, page, table

LEAD = ("COSMIC's evaluation, repeated. Values are what searches of this length find: means over seeds with their 95 % "
        "interval. A claim is undecided if its interval spans it, or if the mean after half of the trials is on its "
        "other side. Network model: closed_form.")


@dataclass(frozen=True)
class Slide:
    """A figure of one part of the study, the findings that it shows, and what to say about it."""

    title: str
    part: str
    draw: Callable[[Sequence[Found], figures.Optima], str]
    findings: tuple[str, ...]
    caption: str


SLIDES = {
    "latency": Slide(
        "Latency spread over the workload knobs", "spread", figures.latency,
        ("GPT3-175B's latency spreads widely over workload knobs alone",),
        "GPT3-175B on System 2: all 332 splits of 1,024 NPUs into dp, sp, pp, tp, with and without sharded weights."),
    "gains": Slide(
        "Full-stack search over single-stack searches", "stacks", figures.gain,
        ("Full-stack search beats every single-stack search", "The workload stack gives the highest gains"),
        "Published: 1.50 to 48.41x and 3.15 to 7.67x (performance per bandwidth), 3.94 to 127.17x and 3.40 to 38.73x "
        "(per cost). The smallest gain is over the stack that gives most by itself. Bars: 95 % over seeds."),
    "by_knob": Slide(
        "What the full stack gains, by knob", "stacks", figures.by_knob, (),
        "System 2, performance per bandwidth: the best design of each single stack against that of the full stack. The "
        "factors of a colour multiply to its gain (Shapley values of the logarithm; bars: 95 % over drawn orders)."),
    "scaling": Slide(
        "Full-stack search by system size", "scaling", figures.scaling,
        ("The value of full-stack search grows with system size",),
        "System 2 at three sizes (its dims are our choice), performance per bandwidth. Bands: 95 % over seeds."),
    "designs": Slide(
        "Designs for the use cases", "mixes", figures.designs, ("Each use case wants a design of its own",),
        "The design that the talk shows, and the best found here (performance per bandwidth); green: the same value. "
        "Last row: runtime times bandwidth, over ours. Pairs of use cases of which one refuses the design of the other "
        "are not counted."),
    "rewards": Slide(
        "Reward of every trial", "agents", figures.rewards,
        ("The random walk's curve stays flat, the other agents learn",),
        "Full stack of System 2, performance per bandwidth. Points: trials of all seeds; line: median of 16 trials in "
        "a row over the seeds; dashed: the proven optimum."),
    "knobs": Slide(
        "Consistency of critical knobs across agents", "agents", figures.consistency,
        ("Agents agree on the critical knobs and vary in the others", "Optimising for cost leads to diverse choices"),
        "Best designs of each agent and seed, the knobs by permutation importance (in brackets; red line: below the "
        "five most important). Green: the most frequent value of the row."),
}


def main() -> int:
    """Runs the searches of the slides and draws them."""
    given = _arguments()
    (given.out / "studies").mkdir(parents=True, exist_ok=True)
    slides = {name: slide for name, slide in SLIDES.items() if not given.slide or name in given.slide}
    start = time.perf_counter()

    def say(line: str) -> None:
        sys.stderr.write(f"{time.perf_counter() - start:6.0f} s  {line}\n")
        sys.stderr.flush()

    effort, parts, found = QUICK if given.quick else FULL, {slide.part for slide in slides.values()}, list[Found]()
    wanted = [run for run in plan(effort, "talk") if run.part in parts]
    for number, run in enumerate(wanted, 1):
        try:
            found.append(carry_out(run, given.out / "studies", given.jobs,
                                   lambda line, at=number: say(f"[{at}/{len(wanted)}] {line}")))
        except ar.InputError as error:      # an agent whose library is not installed; a study of other inputs
            say(f"[{number}/{len(wanted)}] {run.file}: left out: {error}")
    text, body = _written(slides, found, given.out)
    left = len(wanted) - len(found)
    lead = LEAD + (f" {left} of {len(wanted)} searches are missing." if left else "")
    trials = sum(each.trials for each in found)
    (given.out / "slides.html").write_text(
        page("COSMIC, slide by slide", f"{lead} {len(found)} searches, {trials:,} trials.", body), encoding="utf-8")
    sys.stdout.write(text)
    return 1 if left else 0


def _written(slides: dict[str, Slide], found: Sequence[Found], folder: Path) -> tuple[str, list[str]]:
    """Draw each slide into a file. Returns the verdicts as text, and the slides as HTML."""
    optima, text, body = read_optima([str(PROVED)], "talk"), "", list[str]()
    for name, slide in slides.items():
        part = [each for each in found if each.run.part == slide.part]
        if not part:
            continue
        drawn = slide.draw(part, optima)
        (folder / f"{name}.svg").write_text(drawn, encoding="utf-8")
        rows = [(finding, *judged(FINDINGS[finding], part)) for finding in slide.findings]
        text += f"{slide.title} ({name}.svg)\n" + "".join(f"  {finding}: {verdict}\n    {reason}\n"
                                                         for finding, verdict, reason in rows)
        body += [f"<h2>{escape(slide.title)}</h2>", drawn, note(slide.caption)]
        body += [table(["finding", "verdict", "reason"], rows, "<<<")] if rows else []
    return text, body


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--quick", action="store_true", help="3 seeds, 64 trials a search; 320 to compare agents")
    size.add_argument("--full", action="store_true", help="5 seeds, 200 trials a search; 1,000 to compare agents")
    parser.add_argument("--out", type=Path, required=True, help="folder of studies and slides")
    parser.add_argument("--slide", action="append", choices=SLIDES, help="only this slide; may be repeated (all)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
