"""InfraGraph files: what the public package makes of its own blueprints, we make of them, too; and back."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from tests.fabric import infragraph_rival as rival

import astrarium as ar
from astrarium.errors import InputError
from astrarium.fabric.built import dropped_notes, fabric_notes, laid_out
from astrarium.fabric.config import FabricFile
from astrarium.fabric.expand import Expanded, expand
from astrarium.fabric.files import document_of, plain_of, read_document, written
from astrarium.fabric.schema import COMPONENTS, Document
from astrarium.fabric.templates import DroppedEdge

FACTS: Mapping[str, Any] = json.loads((Path(__file__).parent / "infragraph_facts.json").read_text())["cases"]
NO_PACKAGE = importlib.util.find_spec("infragraph") is None


def facts_of(found: Expanded) -> dict[str, Any]:
    """The rival's facts of our expansion."""
    edges = [(one, two, found.links[link].name) for one, two, link in
             zip(found.source.tolist(), found.target.tolist(), found.link.tolist(), strict=True)]
    return rival.facts(found.names(), [COMPONENTS[kind] for kind in found.kinds.tolist()], edges)


def expanded(document: Document, name: str) -> Expanded:
    """What we make of it; edges of the DGX-2 to a component that it does not have are dropped, as the package does."""
    return expand(document.infrastructure, drop_dangling=name.startswith("dgx2"))


@pytest.mark.parametrize("name", FACTS)
def test_a_blueprint_of_the_package_expands_to_the_same_graph(name: str) -> None:
    assert facts_of(expanded(document_of(FACTS[name]["document"], name), name)) == FACTS[name]["facts"]


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_a_file_is_written_as_it_was_read(name: str, suffix: str, tmp_path: Path) -> None:
    plain = FACTS[name]["document"]
    document = document_of(plain, name)
    assert plain_of(document) == plain
    path = tmp_path / f"fabric.{suffix}"
    path.write_text(written(document, path))
    assert read_document(str(path)) == document


def test_an_edge_to_nothing_which_the_package_drops_is_named() -> None:
    with pytest.raises(InputError, match=r"devices\[0\].edges\[23\].ep2.component: device dgx2 has no component 'nvlsw'"
                                         r".*`dangling: drop`.*did you mean 'nvsw'"):
        expand(document_of(FACTS["dgx2"]["document"], "dgx2").infrastructure)


def test_edges_that_are_dropped_are_noted_by_path_and_number(tmp_path: Path) -> None:
    plain = json.loads(json.dumps(FACTS["dgx2"]["document"]))
    plain["instances"][0]["count"] = 1
    plain["edges"] = [{"ep1": {"instance": "dgx2", "component": "cx5[0]"}, "scheme": "one2one", "link": "wire",
                       "ep2": {"instance": "dgx2", "component": f"cx{number}"}} for number in range(7, 29)]
    plain["links"] = [{"name": "wire"}]
    path = tmp_path / "dgx2.json"
    path.write_text(json.dumps(plain))
    fabric = FabricFile(file=str(path), dangling="drop")
    notes = fabric_notes(fabric)
    assert len(notes) == 23
    assert notes[:2] == (
        "dropped 3 edges, as device dgx2 has no component 'nvlsw': devices[0].edges[23], devices[0].edges[24], "
        "devices[0].edges[25]", "dropped 1 edge, as device dgx2 has no component 'cx7': edges[0]")
    edges = [DroppedEdge(f"edges[{place}]", "host", "xpu") for place in range(3000)]
    assert dropped_notes(edges)[0].endswith("edges[18], edges[19] and 2,980 more")


@pytest.mark.parametrize("word", ["refuse", "drop"])
def test_only_missing_components_may_dangle(word: str, tmp_path: Path) -> None:
    device = {"name": "host", "components": [{"name": "xpu", "choice": "xpu", "count": 2}], "links": [{"name": "a"}],
              "edges": [{"ep1": {"component": "xpu[0]"}, "ep2": {"component": "xpu[2]"}, "scheme": "one2one",
                         "link": "a"}]}
    path = tmp_path / "host.json"
    path.write_text(json.dumps({"devices": [device], "instances": [{"name": "host", "device": "host", "count": 1}]}))
    with pytest.raises(InputError, match=r"devices\[0\].edges\[0\].ep2.component: there is no xpu\[2\]"):
        laid_out(FabricFile(file=str(path), dangling=word))


@pytest.mark.skipif(NO_PACKAGE, reason="the package infragraph is not installed")
@pytest.mark.exam
def test_the_package_itself_agrees() -> None:
    for name, make in rival.cases():
        infrastructure = make()
        plain = infrastructure.serialize("dict")
        document = document_of(plain, name)
        assert plain_of(document) == plain
        assert facts_of(expanded(document, name)) == rival.facts_of(rival.expanded(infrastructure)), name


@pytest.mark.skipif(NO_PACKAGE, reason="the package infragraph is not installed")
@pytest.mark.exam
@pytest.mark.parametrize(("name", "fields"), [
    ("dgx_h100_rail", {"hosts": 4, "ports": 16}), ("clos", {"hosts": 16, "ports": 4, "tiers": 3}),
    ("dragonfly", {"routers": 4, "xpus": 2, "global_links": 2}), ("torus", {"sides": [3, 4]})])
def test_the_package_reads_our_blueprints(name: str, fields: dict[str, Any], tmp_path: Path) -> None:
    from infragraph import Infrastructure

    document = ar.blueprint(name, **fields).document()
    plain = plain_of(document)
    theirs = Infrastructure().deserialize(json.dumps(plain.get("infrastructure", plain)))
    assert rival.facts_of(rival.expanded(theirs)) == facts_of(expand(document.infrastructure))


def test_sixteen_thousand_xpus_expand_within_a_second() -> None:
    document = ar.blueprint("clos", hosts=2048, xpus=8, ports=64, tiers=3).document()
    begin = process_time()
    found = expand(document.infrastructure)
    assert process_time() - begin < 1
    assert (found.nodes, found.source.size) == (151_552, 196_608)
