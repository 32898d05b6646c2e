"""The report of a book of your own: its clusters with what they take and cost, under every case."""

from __future__ import annotations

from collections.abc import Iterator

from comet import Bought, Lab, Row, Terms, bought, compared, terms_of
from figures import bars
from tables import parameters, parts_of, table
from verdicts import said

from astrarium.errors import InputError

__all__ = ["own_report"]


def own_report(lab: Lab) -> tuple[str, dict[str, str]]:
    """(Markdown, figure name -> SVG) of a lab's book. Raises InputError for a book without cases or clusters."""
    cases, clusters = lab.book.names("cases"), lab.book.names("clusters")
    for name, found in (("cases", cases), ("clusters", clusters)):
        if not found:
            raise InputError(name, f"{lab.book.name} has none", expected="at least one")
    terms, lines, drawn = terms_of(lab), [f"# Clusters of {lab.book.name}\n"], dict[str, str]()
    for case in cases:
        rows = compared(lab, case, clusters)
        lines += [f"## {lab.case(case).title}\n", *_clusters(lab, case, rows, terms)]
        if terms.budget is not None:
            lines += _budget(lab, case, terms)
        drawn[case] = bars(f"{lab.case(case).title}, each cluster with its best strategy, s",
                           [(f"{row.cluster} {row.point.name}", row.point) for row in rows])
        lines.append(f"![{case}]({case}.svg)\n")
    return "\n".join([*lines, *parameters(lab.book)]) + "\n", drawn


def _clusters(lab: Lab, case: str, rows: tuple[Row, ...], terms: Terms) -> Iterator[str]:
    nodes = lab.case(case).nodes
    yield f"{nodes:,} nodes of each cluster, with the fastest strategy that fits.\n"
    body = []
    for row in rows:
        price = lab.cluster(row.cluster).dollars
        all_of_them = Bought(row.cluster, nodes, row.point, nodes * (price or 0.0))
        body.append([row.cluster, lab.cluster(row.cluster).title, row.point.name, f"{row.point.held / 1e9:.0f}",
                     f"{row.point.seconds:.3g}", *parts_of(row), said(row.bound),
                     *_money(all_of_them if price is not None else None, terms)])
    yield from table(["", "cluster", "strategy", "GB a node", "s", "compute", "exposed", "bound by", "price",
                      "$ of an iteration"], body)
    left = [name for name in lab.book.names("clusters") if name not in {row.cluster for row in rows}]
    if left:
        yield f"No strategy fits on {', '.join(left)}.\n"


def _money(found: Bought | None, terms: Terms) -> tuple[str, str]:
    if found is None:
        return "", ""
    each = found.of_iteration(terms)
    return f"${found.price:,.0f}", "" if each is None else f"${each:,.4g}"


def _budget(lab: Lab, case: str, terms: Terms) -> Iterator[str]:
    """The clusters that the budget buys, fastest first."""
    assert terms.budget is not None
    found = [bought(lab, case, name, terms.budget) for name in lab.book.names("clusters")]
    there = sorted((each for each in found if each.point is not None), key=lambda each: each.point.seconds)
    yield (f"${terms.budget:,.0f} for all nodes (powers of two of them, and the case's own numbers), fastest first.\n")
    body = []
    for each in there:
        assert each.point is not None
        body.append([each.cluster, f"{each.most:,}", f"{each.point.nodes:,}", each.point.name,
                     f"{each.point.seconds:.3g}", f"{each.point.seconds / there[0].point.seconds:.2f}x",
                     *_money(each, terms)])
    yield from table(["", "nodes at most", "nodes", "strategy", "s", "of the fastest", "price", "$ of an iteration"],
                     body)
    none = [each.cluster for each in found if each.point is None]
    if none:
        yield f"The budget pays for no nodes that hold it of {', '.join(none)}.\n"
