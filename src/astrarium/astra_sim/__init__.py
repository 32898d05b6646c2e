"""ASTRA-sim's rule book: its input files, their lowering, and what it prints of a run."""
