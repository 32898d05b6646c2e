"""Design -> Plan: where traces, system, collectives and models meet."""

from __future__ import annotations

from astrarium.lower.rule_books import lower

__all__ = ["lower"]
