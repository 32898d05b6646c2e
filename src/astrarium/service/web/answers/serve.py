"""A stream of requests on a design: what `astrarium serve` prints."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from astrarium.config.whole import write_whole
from astrarium.report.pages.html import note, table_of
from astrarium.report.pages.serving import ShownServing, serving_page
from astrarium.report.tables.serving import interval_note, serving_notes, serving_tables
from astrarium.report.tables.serving_fleet import fleet_tables
from astrarium.report.tables.serving_prices import price_notes, price_table
from astrarium.service.web.answers.safe import refuse_code
from astrarium.serving import deployed, load_serving, serve_deployed, serve_slower
from astrarium.serving.interval import widest_interval
from astrarium.serving.prices import prices_of
from astrarium.units import format_time

__all__ = ["serve_found"]

Say = Callable[..., None]


def serve_found(asked: dict[str, Any], folder: str, say: Say) -> dict[str, Any]:
    """Serve a file of the folder, with another rate where one is asked for. Raises InputError."""
    changes = {"requests.rate": asked["rate"]} if asked.get("rate") else {}
    serving = load_serving(asked["file"], changes, {})
    deployment = deployed(serving.members, serving.buckets, serving.changes, serving.failures, {})
    for design in deployment.designs:
        refuse_code(design)

    def progress(done: int, of: int, now: int) -> None:
        say(f"{done:,} of {of:,} requests answered, {format_time(now / 1e3)} simulated", done / max(1, of))

    served = serve_deployed(deployment, serving.requests, progress)
    slower = None if served.closed or served.saturated else serve_slower(deployment, serving.requests, progress)
    prices, within = prices_of(deployment.designs, served), widest_interval(deployment.designs)
    notes = list(dict.fromkeys(each for member, design in zip(serving.members, deployment.designs, strict=True)
                               for each in serving_notes(served, slower, member.policy, design.stack)))
    notes += [interval_note(served, within), *price_notes(prices, deployment.designs[0].cost)]
    tables = [*serving_tables(served, serving.objective, asked["file"]), *fleet_tables(served, serving.members),
              *price_table(prices)]
    with write_whole(os.path.join(folder, "page.html")) as stream:
        stream.write(serving_page(ShownServing(asked["file"], served, tables, notes)).encode())
    return {"html": "".join(map(table_of, tables)) + "".join(map(note, notes)), "page": True}
