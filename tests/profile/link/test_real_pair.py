"""The public ResNet pair (two A100, one of two ranks, three profiler steps): counts, order, measured wall time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from astrarium.profile.link import Linked, link, write_linked
from astrarium.profile.link.emit import GAP_NAME
from astrarium.trace import Attr, Node, check, read_traces
from astrarium.trace.counts import statistics

from .paired import columns_of, kernels_by, nodes_of, replayed_us

MEASURED_US = 667_200.0      # three profiler steps


@pytest.fixture(scope="module")
def files(shared: Path) -> tuple[Path, Path]:
    return shared / "traces" / "resnet_host.json.gz", shared / "traces" / "resnet_device.json.gz"


@pytest.fixture(scope="module")
def resnet(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Linked]:
    folder = tmp_path_factory.mktemp("resnet")
    found = link(*files)
    write_linked(folder / "w", found)
    return folder, found


@pytest.fixture(scope="module")
def nodes(resnet: tuple[Path, Linked]) -> list[Node]:
    return nodes_of(resnet[0])


@pytest.mark.shared
def test_counts(resnet: tuple[Path, Linked]) -> None:
    folder, found = resnet
    counted = statistics(columns_of(folder))
    assert (counted.gpu_operations, counted.gpu_kernels, counted.gpu_memcpys) == (3660, 2700, 960)
    assert counted.gpu_memsets == 114
    assert counted.collectives == {"all_reduce": 15, "broadcast": 6}
    assert sum(each["operations"] for each in counted.streams.values()) == 3660 + 114
    assert (found.report.joined, found.report.operators, found.report.host_nodes) == (14388, 14388, 14391)
    assert found.report.launched == 3660 + 114
    assert found.report.warnings == ()
    assert counted.nodes == found.report.nodes


@pytest.mark.shared
def test_collectives_have_their_bytes_and_groups(nodes: list[Node]) -> None:
    comms = [node for node in nodes if node.attr("comm_type") is not None]
    reduced = [node.attr("comm_size").value for node in comms if node.attr("comm_type").value == 0]
    assert sum(reduced) == 3 * 25_557_032 * 4       # ResNet-50's parameters, in float, every step
    assert {node.attr("pg_name").value for node in comms} == {"0"}


@pytest.mark.shared
def test_no_operation_is_left_out_of_its_stream(nodes: list[Node]) -> None:
    ids = {node.id for node in nodes}
    followed = {dep for node in nodes for dep in node.data_deps}
    on_gpu = [node for node in nodes if node.attr("stream") is not None]
    last = {node.attr("stream").value: node.id for node in on_gpu}
    assert {node.id for node in on_gpu} - followed <= set(last.values())
    for node in nodes:
        assert set(node.data_deps) | set(node.ctrl_deps) <= ids
        assert all(dep < node.id for dep in (*node.data_deps, *node.ctrl_deps))     # so no cycle
        assert len(set(node.data_deps)) == len(node.data_deps)


@pytest.mark.shared
def test_the_measured_time_comes_back(resnet: tuple[Path, Linked]) -> None:
    folder, found = resnet
    assert replayed_us(folder) == pytest.approx(MEASURED_US, rel=0.005)      # asked for: 5 %
    assert found.report.unexplained_us < 0.01 * MEASURED_US


@pytest.mark.shared
def test_kernels_twice_as_fast(resnet: tuple[Path, Linked]) -> None:
    """The host launches slowly here: its own time is a lower bound, and nothing gets slower."""
    folder, _ = resnet
    columns = columns_of(folder)
    fast, slow = replayed_us(folder, kernels_by(0.5)), replayed_us(folder, kernels_by(8.0))
    gaps = np.array([name == GAP_NAME for name in columns.names()])
    busy = float(columns.duration[(columns.is_cpu_op != 0) & ~gaps].sum())
    assert 6000 < float(columns.duration[gaps].sum()) < 9000       # 2,700 launches onto an idle stream, 2.2 us each
    assert busy <= fast + 1 <= replayed_us(folder) + 1
    assert fast > 0.95 * busy
    on_gpu = columns.has(Attr.STREAM) & (columns.is_cpu_op == 0)
    first = columns.stream[on_gpu] == 7
    assert slow > 0.99 * 8 * float(columns.duration[on_gpu][first].sum() - 960 * 2)      # copies keep their time


@pytest.mark.shared
def test_host_time_is_what_passed_on_each_thread(resnet: tuple[Path, Linked]) -> None:
    """Sums per thread: the main thread's own time and autograd's fill the wall, less what each waited."""
    columns = columns_of(resnet[0])
    gaps = np.array([name == GAP_NAME for name in columns.names()])
    host = int(columns.duration[(columns.is_cpu_op != 0) & ~gaps].sum())
    assert host == pytest.approx(MEASURED_US, rel=0.005)
    assert int(columns.duration[columns.is_cpu_op == 0].sum()) == pytest.approx(165_185.838, rel=0.001)


@pytest.mark.shared
def test_same_input_same_bytes(files: tuple[Path, Path], resnet: tuple[Path, Linked]) -> None:
    assert link(*files).data == resnet[1].data


@pytest.mark.shared
def test_the_doctor_finds_only_the_rank_that_is_not_there(resnet: tuple[Path, Linked]) -> None:
    found = check(read_traces([resnet[0] / "w.0.et"]))
    assert {each.code for each in found if each.severity == "error"} == set()
    assert [each.code for each in found if each.severity == "warning"] == ["part_of_job"]


@pytest.mark.shared
def test_either_alone(files: tuple[Path, Path], resnet: tuple[Path, Linked], tmp_path: Path) -> None:
    device = link(None, files[1])
    assert device.report.communications == resnet[1].report.communications
    assert device.report.replayed_us == resnet[1].report.replayed_us
    assert any("no host trace" in what for what in device.report.missing)
    host = link(files[0], None)
    assert host.report.communications == {"all_reduce": 15, "broadcast": 6}
    assert any("no device trace" in what for what in host.report.missing)
    write_linked(tmp_path / "w", host)
    assert not np.any(columns_of(tmp_path).duration)
