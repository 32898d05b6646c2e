"""Collective algorithms as data, and how they are composed over dims."""
