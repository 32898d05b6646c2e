"""Models: parameters, import, blocks."""
