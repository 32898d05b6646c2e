"""What there is to choose from."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins

from astrarium.report.tables.table import Table
from astrarium.service.answer import Answer
from astrarium.service.context import Context
from astrarium.service.operations.fields import command

__all__ = ["Catalog", "catalog"]

MOST = 200      # rows of an answer
SAMPLE = 4      # names of a kind beside its number


class Catalog(Struct, frozen=True, forbid_unknown_fields=True):
    """List what can be chosen, one sentence each: devices, models, networks, hosts, links, stacks, algorithms, shapes,
    compute models, workloads, agents, figures (objectives), parts with prices, and `field`: every field of a design
    with its unit and legal values. Without a kind: the kinds. Start here if a name is not known."""

    kind: Annotated[str, Meta(description="A kind such as device, model, network, host, stack, figure, agent, "
                                          "algorithm, field, term; empty: list the kinds.",
                              examples=["device", "field"])] = ""
    match: Annotated[str, Meta(description="Only rows that contain all these words in name or sentence, in any case.",
                               examples=["h200", "network bandwidth"])] = ""


def catalog(request: Catalog, context: Context) -> Answer:  # noqa: ARG001
    """See `Catalog`."""
    from astrarium.report.choices import choices, kind_named, kinds

    if not request.kind:
        rows = [(kind, _sample([row.name for row in choices(kind)])) for kind in kinds()]
        return Answer(title="kinds", tables=(Table("kinds, for catalog(kind)", "<<", rows),), command="astrarium list",
                      found={"kinds": list(kinds())})
    kind = kind_named(request.kind, "kind")
    words = request.match.lower().split()
    found = [row for row in choices(kind) if all(word in f"{row.name} {row.sentence}".lower() for word in words)]
    more = f", the first {MOST} of {len(found):,}: give words to match" if len(found) > MOST else ""
    kept: list[dict[str, Any]] = [to_builtins(row) for row in found[:MOST]]
    table = Table(f"{kind}{more}", "<<", [(row.name, row.sentence) for row in found[:MOST]])
    return Answer(title=kind, tables=(table,), found={"rows": kept}, command=command("list", kind))


def _sample(names: list[str]) -> str:
    """How many there are, and the first of them."""
    return f"{len(names):,}: {', '.join(names[:SAMPLE])}" + (", …" if len(names) > SAMPLE else "")
