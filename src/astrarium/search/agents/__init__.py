"""Agents, which propose the next designs. A plug-in is a subclass of `Options` (guide: plug-ins)."""

from __future__ import annotations

from astrarium.search.agents.base import Agent, AgentOptions, Batch, Options, Told, Values, agent_options, one_objective

__all__ = ["Agent", "AgentOptions", "Batch", "Options", "Told", "Values", "agent_options", "one_objective"]
