"""Agents: who proposes the next designs. One file each; a plug-in is a class below `Options` (guide: plug-ins)."""

from __future__ import annotations

from astrarium.search.agents.base import Agent, AgentOptions, Batch, Options, Values, agent_options, one_objective

__all__ = ["Agent", "AgentOptions", "Batch", "Options", "Values", "agent_options", "one_objective"]
