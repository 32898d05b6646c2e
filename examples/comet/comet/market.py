"""What clusters of a book cost: nodes that a budget pays for, and dollars of an iteration."""

from __future__ import annotations

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.units import Lifetime, Money
from comet.lab import Lab, Point

__all__ = ["Bought", "Terms", "bought", "terms_of"]


class Terms(Struct, frozen=True):
    """`budget`: US dollars of all nodes; `lifetime`: hours over which they are paid off. None: the book has none."""

    budget: float | None
    lifetime: float | None


class Bought(Struct, frozen=True):
    """The fastest point of a cluster that a budget pays for (None: it pays for none that holds the case), and its
    price in US dollars."""

    cluster: str
    most: int
    point: Point | None = None
    price: float = 0.0

    def of_iteration(self, terms: Terms) -> float | None:
        """US dollars of an iteration: the share of the lifetime that it takes, times the price."""
        if self.point is None or terms.lifetime is None:
            return None
        return self.price * self.point.seconds / (terms.lifetime * 3600)


def terms_of(lab: Lab) -> Terms:
    """The book's `money`. Raises InputError for what is no sum of money or lifetime."""
    def read(name: str, kind: type[Money] | type[Lifetime]) -> float | None:
        path = f"money.{name}"
        if path not in lab.book.parameters:
            return None
        try:
            return float(kind(lab.book.value(path)))
        except InputError as error:
            raise InputError(path, error.message, expected=error.expected) from None

    for path in lab.book.parameters:
        if path.startswith("money.") and path not in ("money.budget", "money.lifetime"):
            raise InputError(path, "unknown key", expected="money.budget or money.lifetime")
    return Terms(read("budget", Money), read("lifetime", Lifetime))


def bought(lab: Lab, case: str, cluster: str, budget: float) -> Bought:
    """The fastest strategy on as many nodes as a budget pays for: the powers of two up to that, and the case's own
    numbers of nodes. Raises InputError for a cluster without a price."""
    chosen, machine = lab.case(case), lab.cluster(cluster)
    if machine.dollars is None:
        raise InputError(f"clusters.{cluster}.price", "is missing", expected="US dollars of a node, such as 49 k$")
    most = int(budget / machine.dollars)
    counts = {1 << place for place in range(most.bit_length())} | {chosen.nodes, *chosen.node_counts}
    found = Bought(cluster, most)
    for nodes in sorted(count for count in counts if count <= most):
        try:
            machine.network(nodes)
        except InputError:      # not whole pods, or more than the cluster has
            continue
        splits = [split for split in chosen.splits if nodes % split == 0 and chosen.divides(split, nodes)]
        point = lab.best(chosen, machine, name=cluster, nodes=nodes, splits=splits)
        if point is not None and (found.point is None or point.seconds < found.point.seconds):
            found = Bought(cluster, most, point, nodes * machine.dollars)
    return found
