"""The package `infragraph` (PyPI, 3.1.0) as a rival: its blueprints, and what it makes of them.

Run in a Python that has it: `python tests/fabric/infragraph_rival.py > tests/fabric/infragraph_facts.json`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

Plain = dict[str, Any]
KINDS = ("cpu", "xpu", "nic", "memory", "port", "switch")
LEFT_OUT = ("_cx5", "dgx1_cx5_qsfp", "dgx2_cx5_qsfp", "gb200_cx5_qsfp", "xe9680l", "xe9685l", "_dgx", "_wide")


def cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name -> what makes one of the package's infrastructures: its fabrics, and its devices as instances."""
    from infragraph.blueprints.devices.amd.mi300x import MI300X
    from infragraph.blueprints.devices.common.transceiver.qsfp import QSFP
    from infragraph.blueprints.devices.dell.xe9680 import Dellxe9680
    from infragraph.blueprints.devices.dell.xe9680L import Dellxe9680L
    from infragraph.blueprints.devices.dell.xe9685L import Dellxe9685L
    from infragraph.blueprints.devices.generic.generic_switch import Switch
    from infragraph.blueprints.devices.generic.server import Server
    from infragraph.blueprints.devices.ironwood_rack import IronwoodRack
    from infragraph.blueprints.devices.nvidia.cx5 import Cx5
    from infragraph.blueprints.devices.nvidia.dgx import NvidiaDGX
    from infragraph.blueprints.fabrics.clos_fat_tree_fabric import ClosFatTreeFabric
    from infragraph.blueprints.fabrics.closfabric import ClosFabric
    from infragraph.blueprints.fabrics.dragonfly_fabric import DragonflyFabric
    from infragraph.blueprints.fabrics.hybrid_debruijn_fabric import HybridDeBruijnFabric
    from infragraph.blueprints.fabrics.multi_host_debruijn_fabric import MultiHostDeBruijnFabric
    from infragraph.blueprints.fabrics.single_tier_fabric import SingleTierFabric

    yield "single_tier", lambda: SingleTierFabric(Server(), 2)
    yield "clos", ClosFabric
    yield "fat_tree_2", lambda: ClosFatTreeFabric(Switch(4), Server(1), 2, [100, 200])
    yield "fat_tree_3", lambda: ClosFatTreeFabric(Switch(4), Server(1), 3, [])
    yield "fat_tree_3_wide", lambda: ClosFatTreeFabric(Switch(8), Server(1), 3, [100, 400, 200])
    yield "fat_tree_2_dgx", lambda: ClosFatTreeFabric(Switch(16), NvidiaDGX("dgx_h100"), 2, [])
    yield "dragonfly", lambda: DragonflyFabric(Switch(16), Server(1), 4, 2, 2)
    yield "hybrid_debruijn", lambda: HybridDeBruijnFabric(Switch(16), Server(1), 2)
    yield "multi_host_debruijn", lambda: MultiHostDeBruijnFabric(Switch(16), Server(1), 2)
    yield "ironwood", lambda: alone(IronwoodRack())
    yield "mi300x", lambda: alone(MI300X())
    for name, kind in (("xe9680", Dellxe9680), ("xe9680l", Dellxe9680L), ("xe9685l", Dellxe9685L)):
        yield name, lambda kind=kind: alone(kind())
    for profile in ("dgx1", "dgx2", "dgx_a100", "dgx_h100", "dgx_gb200"):
        yield profile, lambda profile=profile: alone(NvidiaDGX(profile), count=2)
        yield f"{profile}_cx5", lambda profile=profile: _with_card(NvidiaDGX, profile, Cx5("cx5_100g_dual"))
        yield f"{profile}_cx5_qsfp", lambda profile=profile: _with_card(
            NvidiaDGX, profile, Cx5("cx5_100g_dual", QSFP("qsfp28_100g")), QSFP("qsfp28_100g"))


def alone(device: Any, *inside: Any, count: int = 1) -> Any:
    """An infrastructure of instances of one device."""
    from infragraph import Infrastructure

    found = Infrastructure(name="alone")
    for each in (device, *inside):
        found.devices.append(each)
    found.instances.add(name=device.name, device=device.name, count=count)
    return found


def _with_card(make: Callable[..., Any], profile: str, card: Any, *inside: Any) -> Any:
    return alone(make(profile, card), card, *inside)


def expanded(infrastructure: Any) -> Any:
    """The package's graph (networkx)."""
    from infragraph.infragraph_service import InfraGraphService

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        service = InfraGraphService()
        service.set_graph(infrastructure)
    return service.get_networkx_graph()


def bare(plain: Any) -> Any:
    """Plain data without descriptions."""
    if isinstance(plain, Mapping):
        return {key: bare(value) for key, value in plain.items() if key != "description"}
    return [bare(value) for value in plain] if isinstance(plain, list) else plain


def digest(lines: Iterable[str]) -> str:
    """A hash of lines, in order."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def facts(names: Sequence[str], kinds: Sequence[str], edges: Sequence[tuple[int, int, str]]) -> Plain:
    """Of a graph: counts, hashes of its nodes (in order) and edges (in any), and how many pairs of XPUs are so many
    edges apart."""
    lines = sorted(" ".join(sorted((names[one], names[two]))) + f" {link}" for one, two, link in edges)
    return {"nodes": len(names), "edges": len(edges),
            "node_hash": digest(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True)),
            "edge_hash": digest(lines), "distances": distances(kinds, edges)}


def distances(kinds: Sequence[str], edges: Sequence[tuple[int, int, str]]) -> dict[str, int]:
    """Edges of the shortest way -> ordered pairs of XPUs; "none" for pairs without one."""
    near: list[list[int]] = [[] for _ in kinds]
    for one, two, _ in edges:
        near[one].append(two)
        near[two].append(one)
    xpus = [node for node, kind in enumerate(kinds) if kind == "xpu"]
    found: Counter[str] = Counter()
    for start in xpus:
        steps, queue = {start: 0}, deque([start])
        while queue:
            node = queue.popleft()
            for other in near[node]:
                if other not in steps:
                    steps[other] = steps[node] + 1
                    queue.append(other)
        found.update(str(steps.get(other, "none")) for other in xpus if other != start)
    return dict(sorted(found.items()))


def facts_of(graph: Any) -> Plain:
    """The facts of the package's graph; the types that custom components give themselves are "custom"."""
    number = {name: place for place, name in enumerate(graph)}
    return facts(list(graph), [kind if kind in KINDS else "custom" for _, kind in graph.nodes(data="type")],
                 [(number[one], number[two], link) for one, two, link in graph.edges(data="link")])


def main() -> None:
    """Write the file of facts, of cases that are neither large nor like another."""
    found = {}
    for name, make in cases():
        if name.endswith(LEFT_OUT):
            continue
        with contextlib.redirect_stdout(io.StringIO()):
            infrastructure = make()
        plain = bare(infrastructure.serialize("dict"))      # first: to expand it leaves traces in it
        found[name] = {"facts": facts_of(expanded(infrastructure)), "document": plain}
    json.dump({"package": "infragraph 3.1.0 (PyPI), MIT licence", "cases": found}, sys.stdout, separators=(",", ":"),
              sort_keys=True)


if __name__ == "__main__":
    main()
