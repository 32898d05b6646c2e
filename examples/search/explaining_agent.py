"""An agent that asks why: `astrarium search SPACE.yaml --agent 'command:python explaining_agent.py'`.

It changes a few knobs of the best design. If the result is worse, it asks how much each of the changes contributed to
the makespan, and proposes the best design with those changes alone that made it faster. A language model would read the
explanations in the place of `better_part`.
"""

from __future__ import annotations

import json
import random
import re
import sys
from typing import Any

CHANGED = 3      # knobs at a time

Design = dict[str, Any]


class Agent:
    def __init__(self, opening: dict[str, Any]):
        self.knobs = {knob["name"]: knob["values"] for knob in opening["knobs"]}
        self.sign = -1 if opening["objectives"][0]["sense"] == "maximize" else 1
        self.draw = random.Random(opening["seed"])
        self.best: tuple[float, Design] | None = None
        self.worse: Design | None = None      # to be explained
        self.next: Design | None = None       # to be proposed

    def learn(self, trial: dict[str, Any]) -> None:
        worth = self.sign * next(iter(trial["objectives"].values())) if trial["feasible"] else float("inf")
        if self.best is None or worth < self.best[0]:
            self.best = worth, trial["values"]
        elif trial["objectives"] is not None:
            self.worse = trial["values"]

    def better_part(self, explanation: dict[str, Any]) -> None:
        """Propose the changes that made the design faster, if some did not."""
        assert self.best is not None
        assert self.worse is not None
        faster = {knob for change in explanation["changes"] if change["contribution"] < 0 for knob in change["knobs"]}
        found = {name: self.worse[name] if re.sub(r"\[\d+\]", "[*]", name) in faster else value
                 for name, value in self.best[1].items()}
        self.next = found if found not in (self.best[1], self.worse) else None
        self.worse = None

    def answer(self) -> dict[str, Any]:
        if self.worse is not None and self.best is not None:
            return {"explain": [self.best[1], self.worse]}
        if self.next is not None:
            found, self.next = self.next, None
            return {"propose": [found], "note": "the changes that made it faster"}
        found = {name: self.draw.choice(values) for name, values in self.knobs.items()}
        if self.best is not None:
            chosen = self.draw.sample(list(found), min(CHANGED, len(found)))
            found = {**self.best[1], **{name: found[name] for name in chosen}}
        return {"propose": [found]}


def main() -> None:
    agent: Agent | None = None
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "space":
            agent = Agent(message)
        elif agent is None:
            continue
        elif message["type"] == "trial":
            agent.learn(message)
        elif message["type"] == "explanation":
            agent.better_part(message)
        elif message["type"] == "refused":
            agent.next, agent.worse = message["nearest"], None
        elif message["type"] == "ask":
            print(json.dumps(agent.answer()), flush=True)


if __name__ == "__main__":
    main()
