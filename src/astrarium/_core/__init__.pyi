"""
Compiled core of Astrarium: private, without a compatibility promise. Use the astrarium package.
"""

from astrarium._core import trace as trace


def execute(plan: object, record: bool = False, fold: bool = True) -> object:
    """
    Runs a Plan; a dict of the Outcome's columns, or (kind of error, message).
    """
