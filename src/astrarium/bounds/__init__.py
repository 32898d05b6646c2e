"""Lower bounds of the time of a training step, from its recipe: no run, no nodes of micro-batches."""
