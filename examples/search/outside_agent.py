"""An agent in a program of its own: `astrarium search SPACE.yaml --agent 'command:python outside_agent.py'`.

It keeps the best design and changes one knob of it. What breaks a requirement is not tried again; what breaks a
constraint is replaced by the feasible design nearest to it, which comes with the refusal. A language model would be
asked in the place of `propose`. Lines on standard error are a log.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any


class Agent:
    def __init__(self, opening: dict[str, Any]):
        self.knobs = {knob["name"]: knob["values"] for knob in opening["knobs"]}
        self.sign = -1 if opening["objectives"][0]["sense"] == "maximize" else 1
        self.draw = random.Random(opening["seed"])
        self.best: tuple[float, dict[str, Any]] | None = None
        self.hint: dict[str, Any] | None = None
        self.bad: set[str] = set()

    def learn(self, trial: dict[str, Any]) -> None:
        if not trial["feasible"]:
            self.bad.add(json.dumps(trial["values"], sort_keys=True))
            return
        worth = self.sign * next(iter(trial["objectives"].values()))
        if self.best is None or worth < self.best[0]:
            self.best = worth, trial["values"]

    def propose(self) -> dict[str, Any]:
        if self.hint is not None:
            hint, self.hint = self.hint, None
            return hint
        for _ in range(100):
            found = {name: self.draw.choice(values) for name, values in self.knobs.items()}
            if self.best is not None:
                name = self.draw.choice(list(self.knobs))
                found = {**self.best[1], name: found[name]}
            if json.dumps(found, sort_keys=True) not in self.bad:
                break
        return found


def main() -> None:
    agent: Agent | None = None
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "space":
            agent = Agent(message)
        elif message["type"] == "trial" and agent is not None:
            agent.learn(message)
        elif message["type"] == "refused" and agent is not None:
            print(message["problem"], file=sys.stderr)
            agent.hint = message["nearest"]
        elif message["type"] == "ask" and agent is not None:
            print(json.dumps({"propose": [agent.propose()]}), flush=True)


if __name__ == "__main__":
    main()
