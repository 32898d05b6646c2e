"""Bad fabrics are named, with their path, before anything runs; whatever a file holds, nothing but InputError comes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fabric.fabrics import edge, link, two_hosts

import astrarium as ar
from astrarium.errors import InputError
from astrarium.fabric.built import build


def built(plain: Any, folder: Path) -> Any:
    path = folder / "bad.json"
    path.write_text(json.dumps(plain))
    return build(ar.FabricFile(file=str(path), links={"pcie": "free", "switch.inside": "free"}))


Change = Callable[[dict[str, Any]], object]
BAD: list[tuple[Change, str]] = [
    (lambda f: f["edges"].pop(1), r"edges: there is no way from host.0.xpu.0 to host.1.xpu.0: the XPUs are in 2 parts"),
    (lambda f: f["instances"][0].update(device="hots"),
     r"instances\[0\].device: there is no device 'hots'; .*did you mean 'host'"),
    (lambda f: f["edges"].append(edge("hots.nic", "leaf.port[3]", "rail")),
     r"edges\[4\].ep1.instance: there is no instance 'hots'"),
    (lambda f: f["edges"].append(edge("host.nik", "leaf.port[3]", "rail")),
     r"edges\[4\].ep1.component: device host has no component 'nik'; .*did you mean 'nic'"),
    (lambda f: f["edges"][0].update(link="rial"), r"edges\[0\].link: there is no link 'rial'; .*did you mean 'rail'"),
    (lambda f: f["edges"].append(edge("host[2].nic", "leaf.port[3]", "rail")),
     r"edges\[4\].ep1.instance: there is no host\[2\]; expected numbers from 0 to 1"),
    (lambda f: f["edges"].append(edge("host[0].nic[0:3]", "leaf.port[3]", "rail")), r"nic\[0:3\] goes beyond its 2"),
    (lambda f: f["edges"].append(edge("host[0].nic[1:1]", "leaf.port[3]", "rail")), r"nic\[1:1\] means none"),
    (lambda f: f["edges"].append(edge("host[0].nic[::0]", "leaf.port[3]", "rail")), r"\[::0\] of nic is no slice"),
    (lambda f: f["edges"].append(edge("host[0].nic[1]", "leaf[0].port[0]", "rail")),
     r"edges: leaf.0.port.0 has 2 cables; expected one cable of a port"),
    (lambda f: f["links"].__setitem__(0, link("rail", 0, 1)), r"rail: physical.bandwidth.gigabits_per_second: 0.0 is "),
    (lambda f: f["links"].__setitem__(0, link("rail", 1, -1)), r"link rail: physical.latency.ns: -1.0 is impossible"),
    (lambda f: f["links"].append(link("rail", 1, 1)), r"links\[2\].name: 'rail' is there twice"),
    (lambda f: [f["links"].append(link("slow", 1, 1)), f["edges"].append({**f["edges"][0], "link": "slow"})],
     r"edges: join host.0.nic.0 and leaf.0.port.0 over two links, rail and slow; expected one link between"),
    (lambda f: f["devices"].append(copy.deepcopy(f["devices"][1])), r"devices\[2\].name: 'switch' is there twice"),
    (lambda f: f["instances"].append({"name": "leaf", "device": "switch", "count": 1}), r"'leaf' is there twice"),
    (lambda f: f["instances"][0].update(count=-1), r"instances\[0\].count: -1 is impossible"),
    (lambda f: f["instances"][0].update(count=2**31 - 1), r"instances\[0\]: .* nodes are too many"),
    (lambda f: f["devices"][0]["components"].append({"name": "host", "count": 1, "choice": "device"}),
     r"components\[4\].name: device 'host' contains itself \(host in host\)"),
    (lambda f: f["devices"][0]["components"][0].update(choice="gpu"), r"components\[0\].choice: Invalid enum value"),
    (lambda f: f["devices"][0]["components"][0].update(choice="nic"), r"instances: have no xpu|no component"),
    (lambda f: f["devices"][0]["components"][0].pop("count"), r"devices\[0\].components\[0\]: count is missing"),
    (lambda f: f.update(instnces=[]), r"unknown key 'instnces'; .*did you mean 'instances'"),
    (lambda f: f["edges"][0].update(scheme="ring"), r"edges\[0\].scheme: ring: the schema does not say which"),
    (lambda f: f["devices"][0]["components"][0].update(custom={"type": "x"}), r"choice: says xpu and custom"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_a_bad_fabric_is_named(change: Change, message: str, tmp_path: Path) -> None:
    plain = two_hosts()
    change(plain)
    if "have no xpu" in message:
        plain["devices"][0]["components"][0]["choice"] = "nic"
    with pytest.raises(InputError, match=message):
        built(plain, tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", "a: &x 1\nb: *x", "!!python/object:os.system {}", "{\"a\": NaN}",
                                  "devices: 3", "[" * 500, "{" + '"a":{' * 2000])
def test_text_that_is_no_fabric(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"bad\.yaml"):
        build(ar.FabricFile(file=str(path)))


def test_json_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(two_hosts(), indent=1).replace("400", "NaN", 1))
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if "NaN" in text)
    with pytest.raises(InputError, match=rf"bad\.json:{line}: is not JSON"):
        build(ar.FabricFile(file=str(path)))


@pytest.mark.parametrize(("xpus", "tail"), [(12_000, 0), (4, 24_000)])
def test_long_fabrics_take_no_longer_than_their_size(xpus: int, tail: int, tmp_path: Path) -> None:
    """A line of XPUs, whose first two could begin a clique of all, and switches in line that lie on no way."""
    parts = [{"name": "h", "components": [{"name": "xpu", "count": 1, "choice": "xpu"}]},
             {"name": "s", "components": [{"name": "sw", "count": 1, "choice": "switch"}]}]
    plain = {"devices": parts, "links": [link("rail", 400, 1)],
             "instances": [{"name": "h", "device": "h", "count": xpus}, {"name": "s", "device": "s", "count": tail}],
             "edges": [edge(f"h[0:{xpus - 1}].xpu", f"h[1:{xpus}].xpu", "rail")]}
    if tail:
        plain["edges"] += [edge(f"s[0:{tail - 1}].sw", f"s[1:{tail}].sw", "rail"),
                           edge("h[0].xpu", "s[0].sw", "rail")]
    path = tmp_path / "long.json"
    path.write_text(json.dumps(plain))
    begin = process_time()
    assert build(ar.FabricFile(file=str(path))).npus == xpus
    assert process_time() - begin < 4


WORDS = ["", "host", "leaf[0]", "port[0:2]", "nic[-1]", "xpu", "rail", "nvlink", "many2many", "ring", "a.b", "[",
         "x[1:2:3:4]"]
ODD = st.one_of(st.none(), st.booleans(), st.integers(-3, 9), st.integers(), st.floats(), st.sampled_from(WORDS))


def places(plain: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything in plain data."""
    found = [path] if path else []
    for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ():
        found += places(value, (*path, key))
    return found


@given(st.data())
def test_whatever_is_changed_is_run_or_refused(data: st.DataObject) -> None:
    plain = two_hosts()
    for _ in range(data.draw(st.integers(1, 3))):
        *owners, last = data.draw(st.sampled_from(places(plain)))
        target: Any = plain
        for step in owners:
            target = target[step]
        if data.draw(st.booleans()):
            target[last] = data.draw(ODD)
        else:
            del target[last]
    with TemporaryDirectory() as folder:
        try:
            found = built(plain, Path(folder))
        except InputError:
            return
    assert found.npus >= 1
    assert (found.graph.bandwidth > 0).all()
