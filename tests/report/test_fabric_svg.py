"""Pictures of fabrics: all nodes and links are in them once, boxes do not overlap, large ones stay small."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fabric.fabrics import NUMBERS, saved, two_hosts

import astrarium as ar
from astrarium.cli import main
from astrarium.errors import InputError
from astrarium.fabric.built import laid_of
from astrarium.fabric.classes import refined
from astrarium.fabric.config import Fabric, FabricFile
from astrarium.fabric.files import document_of
from astrarium.fabric.numbers import known
from astrarium.fabric.sketch import sketch
from astrarium.report.tables.show_fabric import (
    ShownFabric,
    busy_links,
    fabric_picture,
    fabric_rows,
    shown_dims,
    shown_fabric,
)

SVG = "{http://www.w3.org/2000/svg}"
FABRICS = {
    "rail": ar.blueprint("dgx_h100_rail", hosts=8, links={"rail": {"latency": "600 ns"}}),
    "rail 128": ar.blueprint("dgx_h100_rail", hosts=128),
    "clos 1024": ar.blueprint("clos", hosts=1024, ports=64, links={"access": NUMBERS}),
    "clos 16384": ar.blueprint("clos", hosts=2048, xpus=8, ports=64, tiers=3),
    "small clos": ar.blueprint("clos", hosts=4, xpus=2, ports=4),
    "dragonfly": ar.blueprint("dragonfly", routers=4, xpus=2, global_links=2, links={"local": NUMBERS}),
    "torus": ar.blueprint("torus", sides=[4, 4]),
    "large torus": ar.blueprint("torus", sides=[16, 8, 8]),
}


def drawn(shown: ShownFabric):
    plain = np.array([word.free or word.bandwidth is word.latency is None for word in shown.known])
    return sketch(shown.laid.expanded, shown.laid.npus, shown.laid.on_ways, plain)


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS)
def test_a_picture_has_every_node_and_link_once_and_stays_small(fabric: Fabric) -> None:
    shown = shown_fabric(fabric)
    found = drawn(shown)
    rows = fabric_rows(shown)
    inside = sum(row["on_ways"] for row in rows["links"] if row["link"].endswith(".inside"))    # ports of switches
    assert sum(line.count for line in found.lines) == sum(row["on_ways"] for row in rows["links"]) - inside
    for kind in ("xpu", "nic", "switch"):
        assert sum(box.count for box in found.boxes if box.kind == kind) + found.left_out.get(kind, 0) == \
            rows["nodes"].get(kind, 0)
    for line in found.lines:
        if line.one != line.two:
            assert line.of_one[0] * found.boxes[line.one].count == line.count == \
                line.of_two[1] * found.boxes[line.two].count
    root = ET.fromstring(fabric_picture(shown))
    assert float(root.get("width", "inf")) < 1000
    assert float(root.get("height", "inf")) < 1000
    assert len(found.boxes) <= 60


@pytest.mark.parametrize("name", ["rail", "small clos", "torus", "dragonfly"])
def test_boxes_do_not_overlap(name: str) -> None:
    rects = [[float(each.get(key, "0")) for key in ("x", "y", "width", "height")]
             for each in ET.fromstring(fabric_picture(shown_fabric(FABRICS[name]))).iter(f"{SVG}rect")
             if each.find(f"{SVG}title") is not None]
    assert len(rects) == len(drawn(shown_fabric(FABRICS[name])).boxes)
    for place, (x, y, width, height) in enumerate(rects):
        for u, v, wide, high in rects[:place]:
            assert x + width <= u or u + wide <= x or y + height <= v or v + high <= y


def test_rails_layers_and_shapes() -> None:
    rail = drawn(shown_fabric(FABRICS["rail"]))
    assert [box.title for box in rail.boxes if box.frame < 0] == [*(f"leaf.{n}" for n in range(8)), "spine"]
    assert rail.frames == (("host", 8),)
    assert {(box.title.split(".")[0], box.row) for box in rail.boxes} == {
        ("xpu", 0), ("nvswitch", -1), ("nic", 1), ("leaf", 1), ("spine", 2)}
    assert {line.shape for line in drawn(shown_fabric(FABRICS["dragonfly"])).lines} == {
        "", "9 x all-to-all of 4", "all-to-all of 9 groups"}
    assert {line.shape for line in drawn(shown_fabric(FABRICS["large torus"])).lines} == {
        "64 x ring of 16", "128 x ring of 8"}


def test_unequal_hosts_stay_apart_and_what_is_not_drawn_is_said(tmp_path: Path) -> None:
    plain = two_hosts()
    plain["devices"].append({"name": "lone", "components": [{"name": "xpu", "count": 1, "choice": "xpu"}]})
    plain["instances"].append({"name": "lone", "device": "lone", "count": 1})
    plain["edges"].append({"ep1": {"instance": "lone", "component": "xpu"},
                           "ep2": {"instance": "spine[0]", "component": "port[3]"}, "scheme": "one2one", "link": "up"})
    shown = shown_fabric(FabricFile(file=saved(plain, tmp_path)))
    assert drawn(shown).left_out == {"memory": 2}
    picture = fabric_picture(shown)
    assert "not drawn, on no way between XPUs: 2 memory" in picture
    assert ">lone</text>" in picture
    assert "host.nvlink 100 GB/s" in picture


@given(st.integers(2, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11), st.integers(0, 1)), max_size=24))
def test_classes_are_equitable(nodes: int, edges: list[tuple[int, int, int]]) -> None:
    kept = sorted({(min(a, b), max(a, b), link) for a, b, link in edges if a != b and max(a, b) < nodes})
    source, target, link = (np.array([each[side] for each in kept], np.int64) for side in range(3))
    colour, exact = refined(np.zeros(nodes, np.int64), source, target, link, nodes)
    assert exact
    seen: dict[int, list[tuple[int, int]]] = {}
    for node in range(nodes):
        near = sorted((int(colour[b if a == node else a]), kind) for a, b, kind in kept if node in (a, b))
        assert seen.setdefault(int(colour[node]), near) == near


def test_few_classes_where_the_graph_has_no_equal_nodes() -> None:
    line = np.arange(99)
    colour, exact = refined(np.zeros(100, np.int64), line, line + 1, np.zeros(99, np.int64), 10)
    assert not exact
    assert 2 <= colour.max() + 1 <= 10


def test_show_draws_a_design_and_a_fabric_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = saved(two_hosts(), tmp_path), tmp_path / "fabric.svg"
    assert main(["show", path, "-o", str(out)]) == 0
    assert "not given" in capsys.readouterr().out
    ET.fromstring(out.read_text())
    design = tmp_path / "design.yaml"
    design.write_text("workload: {source: collective, op: all_reduce, payload: 1 MB}\nnetwork:\n  backend: fluid\n"
                      "  fabric: {file: fabric.yaml, inside: free}\n")
    assert main(["show", str(design), "-o", str(tmp_path / "design.svg")]) == 0
    assert "fabric: " in capsys.readouterr().out
    assert main(["show", path, "-o", str(tmp_path / "fabric.png")]) == 1
    assert "ends in .svg" in capsys.readouterr().err
    assert main(["show", path, "--workload"]) == 1


def test_dims_are_drawn_too() -> None:
    shown = shown_dims(ar.Network([ar.Ring(4, one_way=True, **NUMBERS), ar.Switch(2, **NUMBERS)]))
    assert {box.title for box in drawn(shown).boxes} == {*(f"npu.{n}" for n in range(8)),
                                                         *(f"switch1.{n}" for n in range(4))}


def test_the_guides_picture_is_what_show_draws(root: Path) -> None:
    latency = {"latency": "600 ns"}
    fabric = ar.blueprint("dgx_h100_rail", hosts=8, links={"pcie": "free", "rail": latency, "spine": latency})
    assert fabric_picture(shown_fabric(fabric)) == (root / "docs/guides/fabrics_rails.svg").read_text(encoding="utf-8")


@st.composite
def documents(draw: st.DrawFn) -> dict[str, object]:
    """Fabrics of a few devices, joined at random."""
    kinds = st.sampled_from(["xpu", "nic", "switch"])
    devices = [{"name": f"d{number}", "links": [{"name": "inner"}], "components": [
        {"name": f"c{place}", "count": draw(st.integers(1, 3)), "choice": draw(kinds)} for place in range(2)],
        "edges": [{"ep1": {"component": "c0"}, "ep2": {"component": "c1"}, "scheme": "many2many", "link": "inner"}]}
        for number in range(2)]
    devices[0]["components"][0]["choice"] = "xpu"
    instances = [{"name": f"i{number}", "device": f"d{number % 2}", "count": draw(st.integers(1, 20))}
                 for number in range(3)]
    ends = st.fixed_dictionaries({"instance": st.sampled_from(["i0", "i1", "i2"]),
                                  "component": st.sampled_from(["c0", "c1"])})
    edges = draw(st.lists(st.fixed_dictionaries({"ep1": ends, "ep2": ends, "link": st.just("outer"), "scheme":
                                                 st.sampled_from(["one2one", "many2many"])}), min_size=1, max_size=5))
    return {"devices": devices, "links": [{"name": "outer"}], "instances": instances, "edges": edges}


@given(plain=documents())
def test_any_fabric_is_drawn_with_its_nodes_and_links_once(plain: dict[str, object]) -> None:
    document = document_of(plain, "drawn")
    try:
        laid = laid_of(document)
    except InputError:
        return      # NPUs that nothing joins
    shown = ShownFabric(laid, known(laid.expanded.links, {}), "drawn")
    found = drawn(shown)
    ET.fromstring(fabric_picture(shown))
    assert sum(line.count for line in found.lines) == int(laid.on_ways.sum())
    assert sum(box.count for box in found.boxes) + sum(found.left_out.values()) == laid.expanded.nodes
    assert found.exact


def test_a_run_colours_its_links() -> None:
    """By the busy share of the busiest link of each name: red the most, and said in words."""
    link = {"bandwidth": "50 GB/s", "latency": "500 ns"}
    fabric = ar.blueprint("clos", hosts=8, xpus=1, ports=4, links={"access": link, "spine": link, "inside": "free"})
    design = ar.Design(workload=ar.SingleCollective(op="all_to_all", payload="1 MB"),
                       network=ar.Network(fabric=fabric, backend="contention"))
    result = ar.simulate(design)
    busy = busy_links(result)
    assert max(busy.values()) == float(result.links.utilisation.max())
    picture = fabric_picture(shown_fabric(fabric), busy)
    assert 'stroke="#cc3311"' in picture
    assert f"{100 * max(busy.values()):.1f} % busy" in picture
    assert busy_links(ar.simulate(ar.replace(design, "network", ar.Network([ar.Ring(8, **link)])))) == {}


def test_a_picture_is_dark_on_a_dark_page() -> None:
    fabric = ar.blueprint("clos", hosts=4, ports=4, links={name: {"bandwidth": "50 GB/s", "latency": "1 us"}
                                                          for name in ("access", "spine")})
    busy = dict.fromkeys(range(len(shown_fabric(fabric).known)), 0.5)
    plain, hot = fabric_picture(shown_fabric(fabric)), fabric_picture(shown_fabric(fabric), busy)
    for text in (plain, hot):
        assert 'height="100%" fill="var(--plot-paper,#ffffff)"' in text
        assert "--plot-paper:#16181c" in text
    assert "busy share of the run: 0 % to 50.0 %" in hot
    assert "busy share" not in plain
    assert ">50.0 % busy<" in hot       # without the link's name, which the legend has
