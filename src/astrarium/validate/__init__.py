"""Measured rows against predictions: rows -> designs -> errors per source; and the intervals that follow from them."""
