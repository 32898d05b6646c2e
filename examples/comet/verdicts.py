"""What is known of COMET's findings, each with a verdict and its reason."""

from __future__ import annotations

from collections.abc import Iterator

from comet import Point
from work import CASE, TABLES, Found

NEAR = 0.1      # ratios within a tenth of each other agree


def verdicts(found: Found) -> Iterator[tuple[str, str, str]]:
    """(finding, verdict, reason)."""
    yield _clusters(found)
    yield _expansion(found)
    yield _smaller(found)
    yield _eight(found)
    yield _enough(found)
    yield _baseline(found)
    yield _footprint(found)
    yield from _bounds(found)
    yield _tables(found)


def _clusters(found: Found) -> tuple[str, str, str]:
    target = float(found.lab.book.value("published.clusters"))
    (all_, slow, fast), (gpus, slower, faster) = found.spreads["clusters"], found.spreads["gpus"]
    agrees = any(abs(each / target - 1) <= NEAR for each in (all_, gpus))
    return (f"Clusters differ by up to {target:g}x (abstract)", "agrees" if agrees else "not reproduced",
            f"{all_:.1f}x ({slow} over {fast}), {gpus:.2f}x among the GPU clusters ({slower} over {faster}): the "
            f"published ratio lies {'between' if gpus < target < all_ else 'outside'} the two; which clusters it "
            "compares, and what a Dojo or TPU node is, is not known")


def _expansion(found: Found) -> tuple[str, str, str]:
    target = float(found.lab.book.value("published.expansion"))
    best = max(each for each, _, _ in found.expanded.values())
    told = ", ".join(f"{name} {each:.2f}x" for name, (each, _, _) in found.expanded.items())
    return (f"Memory expansion gains up to {target:g}x (abstract)", "agrees" if abs(best / target - 1) <= NEAR else
            "not reproduced", f"{told}; the gain moves with what the footprint counts (see the sensitivities)")


def _smaller(found: Found) -> tuple[str, str, str]:
    moved = {name: (before, after) for name, (_, before, after) in found.expanded.items()}
    smaller = [name for name, (before, after) in moved.items() if after.split < before.split]
    larger = [name for name, (before, after) in moved.items() if after.split > before.split]
    verdict = "holds" if len(smaller) == len(moved) else "does not hold" if larger or not smaller else \
        f"holds in {len(smaller)} of {len(moved)}"
    told = "; ".join(f"{name}: {before.name} -> {after.name}" for name, (before, after) in moved.items())
    others = sum(after < before for before, after in (each.moved for each in found.changed))
    return ("The best strategy moves to small MP once memory is expanded", verdict,
            f"{told}; on A in {others} of the {len(found.changed)} sensitivities, too. Smaller MP sends less between "
            "pods; where a pod has 256 nodes (C) MP32 stays within one already")


def _eight(found: Found) -> tuple[str, str, str]:
    grid, told, there = found.grids["expansion"], [], []
    for number, row in enumerate(grid.rows):
        best = grid.best(number)
        if best is not None:
            there.append(best.split)
            told.append(f"{best.name} at {row}")
    return ("The best strategy with expanded memory is MP8_DP128 (recalled)",
            "holds" if set(there) == {8} else "depends on the bandwidth" if min(there) <= 8 else "not reproduced",
            ", ".join(told))


def _enough(found: Found) -> tuple[str, str, str]:
    grid = found.grids["expansion"]
    best = {row: point.seconds for number, row in enumerate(grid.rows) if (point := grid.best(number)) is not None}
    fastest = min(best, key=lambda row: best[row])
    share = best["500 GB/s"] / best[fastest]
    return ("About 500 GB/s of expanded memory are enough (recalled)",
            "holds" if share <= 1 + NEAR else "does not hold",
            f"at 500 GB/s the best strategy takes {share:.2f}x of the time that it takes at {fastest}")


def _baseline(found: Found) -> tuple[str, str, str]:
    case = found.lab.case(CASE)
    fits = [point for point in found.without if point.fits]
    least = min(fits, key=lambda point: point.split)
    best = min(fits, key=lambda point: point.seconds)
    verdict = "holds" if least.split == case.baseline == best.split else "not reproduced"
    return ("MP64_DP16 is the strategy for 80 GB (recalled)", verdict,
            f"{least.name} is the smallest MP that fits ({least.held / 1e9:.1f} GB) and the fastest is {best.name}; it "
            "rests on activations, of which one sample's layer inputs are counted: weights, gradients and states of "
            f"MP32_DP32 alone are {found.holds[32, 2][0] / 1e9:.1f} GB")


def _footprint(found: Found) -> tuple[str, str, str]:
    states, whole = found.holds[8, 2]
    verdict = "agrees" if abs(states / 250e9 - 1) <= NEAR else "not reproduced"
    return ("MP8_DP128 needs about 250 GB a node (recalled)", verdict,
            f"{states / 1e9:.0f} GB of weights, gradients and states (2 bytes a parameter over MP, 14 over all nodes: "
            f"265 GB), {whole / 1e9:.0f} GB with one sample's activations")


def _bounds(found: Found) -> Iterator[tuple[str, str, str]]:
    for row in found.rows:
        gains = ", ".join(f"{said(name)} {gain:.2f}x" for name, gain in row.gains.items())
        yield (f"What bounds {row.cluster} ({row.point.name})", said(row.bound),
               f"an iteration gains from a resource that is twice as fast: {gains}")


def said(resource: str) -> str:
    """A resource of a cluster in words."""
    return {"peak": "compute", "bandwidth": "local memory", "expansion": "expanded memory",
            "dims[0]": "network, innermost dim", "dims[1]": "network, second dim",
            "dims[2]": "network, third dim"}[resource]


def _tables(found: Found) -> tuple[str, str, str]:
    case = found.lab.case(TABLES)
    fewer = [point for (nodes, _), point in found.tables.items() if point.fits and nodes < case.nodes]
    whole = min(point.seconds for (nodes, _), point in found.tables.items() if nodes == case.nodes and point.fits)
    told = ", ".join(f"{point.nodes} nodes {_work(point) / (whole * case.nodes):.2f}x" for point in fewer)
    holds = any(_work(point) < whole * case.nodes for point in fewer)
    return ("DLRM-1.2T on fewer nodes with expanded memory takes fewer node-seconds (a question of ours)",
            "holds" if holds else "does not hold",
            f"node-seconds of an iteration over those of {case.nodes} nodes: {told}; look-ups run at the hybrid "
            "bandwidth, and the expanded memory is the slow part of it")


def _work(point: Point) -> float:
    return point.seconds * point.nodes
