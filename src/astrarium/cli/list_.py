"""`astrarium list [KIND]`: what there is to choose from, one sentence each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from astrarium.cli.arguments import Parser, json_flag
from astrarium.cli.json_output import print_json

if TYPE_CHECKING:
    from astrarium.report.choices import Row

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """`[KIND] [--json]`."""
    parser.add_argument("kind", nargs="?", metavar="KIND", help="list only this kind, such as algorithm, shape or "
                                                                "device")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Print everything, or one kind."""
    from astrarium.report.choices import choices, kind_named, kinds

    # Without a kind: everything but the fields of a design, of which there are a hundred, and the glossary.
    chosen = [kind_named(options.kind)] if options.kind else [kind for kind in kinds() if kind not in ("field", "term")]
    found = {kind: choices(kind) for kind in chosen}
    if options.json:
        print_json("list", [asdict(row) for rows in found.values() for row in rows])
        return 0
    _print(found, titles=not options.kind)
    return 0


def _print(found: Mapping[str, list[Row]], *, titles: bool) -> None:
    from astrarium.report.tables.table import Table, print_tables

    print_tables((Table(kind if titles else "", "<<", [(row.name, row.sentence) for row in rows])
                  for kind, rows in found.items()), sys.stdout)
