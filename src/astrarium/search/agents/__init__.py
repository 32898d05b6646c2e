"""Agents: who proposes the next designs. One file each."""

from __future__ import annotations

from astrarium.search.agents.base import Agent, AgentOptions, Options, agent_options

__all__ = ["Agent", "AgentOptions", "Options", "agent_options"]
