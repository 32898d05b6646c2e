"""Plots: pictures of answers as data, and what draws them."""
