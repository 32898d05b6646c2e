"""Sentences about a design and its run: what was assumed, what was left out, what a model does not see."""
