"""InfraGraph files: what the public package makes of its own blueprints, we make of them, too; and back."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from tests.network import infragraph_rival as rival

import astrarium as ar
from astrarium.errors import InputError
from astrarium.network.fabric.expand import Expanded, expand
from astrarium.network.fabric.files import document_of, plain_of, read_document, written
from astrarium.network.fabric.schema import COMPONENTS

FACTS: Mapping[str, Any] = json.loads((Path(__file__).parent / "infragraph_facts.json").read_text())["cases"]
SOUND = [name for name in FACTS if name != "dgx2"]
NO_PACKAGE = importlib.util.find_spec("infragraph") is None


def facts_of(found: Expanded) -> dict[str, Any]:
    """The rival's facts of our expansion."""
    edges = [(one, two, found.links[link].name) for one, two, link in
             zip(found.source.tolist(), found.target.tolist(), found.link.tolist(), strict=True)]
    return rival.facts(found.names(), [COMPONENTS[kind] for kind in found.kinds.tolist()], edges)


@pytest.mark.parametrize("name", SOUND)
def test_a_blueprint_of_the_package_expands_to_the_same_graph(name: str) -> None:
    assert facts_of(expand(document_of(FACTS[name]["document"], name).infrastructure)) == FACTS[name]["facts"]


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
                                         r".*did you mean 'nvsw'"):
        expand(document_of(FACTS["dgx2"]["document"], "dgx2").infrastructure)


@pytest.mark.skipif(NO_PACKAGE, reason="the package infragraph is not installed")
@pytest.mark.exam
def test_the_package_itself_agrees() -> None:
    for name, make in rival.cases():
        infrastructure = make()
        plain = infrastructure.serialize("dict")
        document = document_of(plain, name)
        assert plain_of(document) == plain
        if not name.startswith("dgx2"):
            assert facts_of(expand(document.infrastructure)) == rival.facts_of(rival.expanded(infrastructure)), name


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
