"""Topology, and how messages share it."""
