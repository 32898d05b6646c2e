"""The engine in pure Python: the readable specification, the oracle of the tests, and what runs without a compiler.

`execute` runs every rank of a Plan, one row per rank, to the same integers as the compiled core.
The two rule books (design/0001-engine.md) are two sets of modules over common tables:
`clock`, `program` and `geometry` serve both, `astra_*` and `native_*` one each.
"""

from astrarium.engine.reference.execute import execute

__all__ = ["execute"]
