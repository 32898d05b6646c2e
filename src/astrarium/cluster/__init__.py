"""Above one run: what many runs of a system say about serving."""
