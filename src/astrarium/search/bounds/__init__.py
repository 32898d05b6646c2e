"""Lower bounds of an objective over a space, by which the agent `exact` proves its optimum."""
