"""Traces for people and for other programs: JSON, graphs, counts and times."""
