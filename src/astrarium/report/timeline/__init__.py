"""Timelines for ui.perfetto.dev."""
