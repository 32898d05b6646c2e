"""`network.changes`: which links a change names, and that messages go round failed ones."""

from __future__ import annotations

from typing import Any

import pytest

import astrarium as ar
from astrarium.errors import InputError
from astrarium.network.changed import link_changes
from astrarium.network.names import link_namer
from astrarium.report.tables.packets import packet_tables

LINK = {"bandwidth": "50 GB/s", "latency": "500 ns"}
RAILS = ar.blueprint("dgx_h100_rail", hosts=2, links={"pcie": "free", "rail": {"latency": "600 ns"},
                                                      "spine": {"latency": "600 ns", "tier": "scale_across"}})
SWITCHES = [ar.Switch(4, bandwidth="400 GB/s", latency="500 ns"), ar.Switch(4, **LINK)]


def named(network: ar.Network) -> set[str]:
    """The links that change."""
    name = link_namer(network)
    return {name(link) for _, link, _ in link_changes(network)}


def changed(where: dict[str, Any], **change: Any) -> ar.Network:
    return ar.Network(**where, backend="contention", changes=[{"at": "1 us", "speed": 0.5, **change}])


def test_of_dims_a_change_names_links_of_an_npu_and_of_a_dim() -> None:
    """NPU 5 is at switch 1 of dim 0 and at switch 1 of dim 1: a user could not name one of its links."""
    both = {"NPU 5 -> switch 1 of dim 0", "switch 1 of dim 0 -> NPU 5",
            "NPU 5 -> switch 1 of dim 1", "switch 1 of dim 1 -> NPU 5"}
    dims = {"dims": SWITCHES}
    assert named(changed(dims, link=[5, "switch"])) == named(changed(dims, nic=5)) == both
    for dim in (0, 1):
        of_dim = {name for name in both if name.endswith(f"dim {dim}") or f"dim {dim} " in name}
        assert named(changed(dims, link=[5, "switch"], dim=dim)) == named(changed(dims, nic=5, dim=dim)) == of_dim
        assert len(named(changed(dims, dim=dim))) == 32
    ring = {"dims": [ar.Ring(3, **LINK), ar.Mesh(3, **LINK)]}
    assert named(changed(ring, link=[0, 3], dim=1)) == {"NPU 0 -> NPU 3", "NPU 3 -> NPU 0"}
    assert len(named(changed(ring, dim=1))) == 12


def test_of_a_fabric_a_change_names_a_nic_a_switch_and_a_tier() -> None:
    fabric = {"fabric": RAILS}
    name = next(iter(named(changed(fabric, nic="host.1.nic.3"))))
    assert "host.1." in name
    nic = named(changed(fabric, nic="host.1.nic.3"))
    assert len(nic) == 2
    assert all("leaf" in link or "rail" in link for link in nic)
    assert len(named(changed(fabric, tier="scale_across"))) == len([
        link for link in named(changed(fabric, tier="scale_across")) if "spine" in link])


@pytest.mark.parametrize(("where", "change", "message"), [
    ({"dims": SWITCHES}, {"link": [5, "switch"], "dim": 2}, r"changes\[0\].dim: there is no dim 2; expected 0 to 1"),
    ({"dims": SWITCHES}, {"tier": "scale_up"}, r"changes\[0\].tier: dims have no tiers; expected dim"),
    ({"dims": SWITCHES}, {"nic": "host.0"}, r"changes\[0\].nic: there is no 'host.0'; expected an NPU, 0 to 15"),
    ({"dims": SWITCHES}, {"link": [0, 1], "dim": 1}, r"no link between 0 and 1 in dim 1"),
    ({"dims": SWITCHES}, {"nic": 1, "tier": "scale_up"}, "nic: stands beside tier"),
    ({"dims": SWITCHES}, {"npu": 1, "dim": 1}, "dim: has no effect beside npu"),
    ({"fabric": RAILS}, {"nic": "host.0.nik.0"}, "host has no component 'nik'|has no component"),
    ({"fabric": RAILS}, {"tier": "scale_above"}, r"tier: no link is of tier scale_above; expected one of scale_"),
    ({"fabric": RAILS}, {"dim": 0}, r"changes\[0\].dim.*has no effect on a fabric")])
def test_changes_that_name_nothing(where: dict[str, Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        link_changes(changed(where, **change))


def sent(network: ar.Network, op: str = "all_reduce", algorithm: str = "ring") -> ar.Result:
    return ar.simulate(ar.Design(workload=ar.SingleCollective(op, "10 MB"), network=network,
                                 collective=ar.Collective(choice="none", **{op: [algorithm]})))


@pytest.mark.parametrize("backend", ["contention", "packets"])
def test_a_ring_goes_on_without_a_cable(backend: str) -> None:
    """Its messages go round the other way, and back once the cable is; a failure of both of an NPU's stalls it."""
    ring = ar.Network([ar.Ring(6, **LINK)], backend=backend)
    broken, flap = ({"at": "20 us", "link": [2, 3], "speed": 0}, {"at": "60 us", "link": [2, 3], "speed": 1})
    usual, once, always = (sent(ar.replace(ring, "changes", changes)) for changes in ([], [broken, flap], [broken]))
    assert usual.makespan < always.makespan
    assert once.makespan not in (usual.makespan, always.makespan)
    if backend == "packets":
        assert always.flows is not None
        assert 0 < int(always.flows.lost.sum()) <= 2 * 4096
        assert "links that failed lost 4.096 kB, sent again" in next(packet_tables(always)).title
    with pytest.raises(ar.StallError, match=r"NPU [23] -> NPU [34] stands still"):
        sent(ar.replace(ring, "changes", [broken, {"at": "20 us", "link": [3, 4], "speed": 0}]))


@pytest.mark.parametrize("backend", ["contention", "packets"])
def test_a_host_without_a_nic_uses_the_others(backend: str) -> None:
    rails = ar.Network(fabric=RAILS, backend=backend)
    usual, broken = (sent(ar.replace(rails, "changes", changes), "all_to_all", "direct") for changes in (
        [], [{"at": "5 us", "nic": "host.1.nic.3", "speed": 0}]))
    assert usual.makespan < broken.makespan
