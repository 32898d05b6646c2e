"""Names of the catalog in the place of sections, alone and with overrides beside `like`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import astrarium as ar
from astrarium import catalog, config
from astrarium.compute.config import usual_model

WORK = "workload: {source: collective, op: all_reduce, payload: 64 MiB}\n"
NETWORK = "network: dgx_h100_nvswitch\n"


def read(text: str, folder: Path) -> ar.Design:
    (folder / "design.yaml").write_text(WORK + text)
    return ar.load_design(folder / "design.yaml")


def test_names_stand_for_sections(tmp_path: Path) -> None:
    design = read("compute: h100_sxm\nmemory: h100_sxm\n" + NETWORK, tmp_path)
    device, row = catalog.device("h100_sxm"), catalog.network("dgx_h100_nvswitch")
    assert design.compute == ar.Measured(device="h100_sxm")
    assert design.memory == ar.Memory(**device.memory)
    assert design.network == ar.Network([ar.Switch(8, latency=row.latency, **row.dim)])
    assert design == ar.Design(workload=design.workload, compute="h100_sxm", memory="h100_sxm",
                               network="dgx_h100_nvswitch")


@pytest.mark.parametrize("name", list(catalog.load("devices")))
def test_every_device_is_a_section(name: str, tmp_path: Path) -> None:
    design = read(f"compute: {name}\nmemory: {name}\n{NETWORK}", tmp_path)
    assert design.compute.tag == usual_model(name)
    assert design.memory.capacity is not None
    sheet = read(f"compute: {{like: {name}, model: roofline}}\nmemory: {name}\n{NETWORK}", tmp_path).compute
    assert sheet == ar.Roofline(**catalog.device(name).compute)


@pytest.mark.parametrize("name", list(catalog.load("networks")))
def test_every_network_is_a_section_and_a_dim(name: str, tmp_path: Path) -> None:
    whole = read(f"network: {{like: {name}, npus: 16, latency: 3 us, backend: contention}}", tmp_path).network
    dims = read(f"network: {{dims: [{{like: {name}, npus: 16, latency: 3 us}}], backend: contention}}", tmp_path)
    assert whole == dims.network
    assert (whole.npus, whole.flat[0].latency, whole.backend) == (16, 3000, "contention")
    assert whole.flat[0].tag == catalog.network(name).shape


def test_overrides_beside_like(tmp_path: Path) -> None:
    design = read("""compute: {like: b200, model: roofline, power: 1 kW}
memory: {like: b200, capacity: 100 GB}
network:
  dims: [{like: dgx_b200_nvswitch, latency: 1 us}, {like: infiniband_ndr, npus: 4, latency: 2 us}]
npu_types: [{npus: 0:8, compute: h100_sxm, memory: {like: h100_sxm, capacity: 60 GB}}]
""", tmp_path)
    assert isinstance(design.compute, ar.Roofline)
    assert (design.compute.peak, design.compute.power) == (2.25e6, 1000)
    assert (design.memory.capacity, design.memory.bandwidth) == (100e9, 8000)
    assert [dim.npus for dim in design.network.flat] == [8, 4]
    kind = design.npu_types[0]
    assert kind.memory is not None
    assert kind.memory.capacity == 60e9
    assert kind.compute == ar.Measured(device="h100_sxm")


def test_one_bandwidth_takes_the_place_of_the_other(tmp_path: Path) -> None:
    dim = read("network: {like: tpu_v5p_ici, npus: 8, latency: 1 us, bandwidth: 70 GB/s}", tmp_path)
    assert (dim.network.flat[0].link_bandwidth, dim.network.flat[0].bandwidth_per_npu) == (70, None)
    back = config.replace(dim, "network.dims[0].bandwidth_per_npu", "100 GB/s")
    assert (back.network.flat[0].link_bandwidth, back.network.flat[0].bandwidth) == (50, None)
    with pytest.raises(ar.InputError, match="cannot be combined with bandwidth"):
        config.replace_all(dim, {"network.dims[0].bandwidth_per_npu": "1 GB/s", "network.dims[0].bandwidth": "1 GB/s"})
    with pytest.raises(ar.InputError, match="bandwidth: is missing"):
        config.replace(dim, "network.dims[0].bandwidth", None)


def test_nested_sections_of_a_model_are_merged(tmp_path: Path) -> None:
    design = ar.Transformer({"like": "mixtral-8x7b", "layers": 2, "moe": {"experts": 16}}, tp=8, global_batch=8)  # type: ignore[arg-type]
    whole = ar.Transformer("mixtral-8x7b", tp=8, global_batch=8)
    assert config.get(design, "model.layers") == 2
    assert config.get(design, "model.moe.experts") == 16
    assert config.get(design, "model.moe.top_k") == config.get(whole, "model.moe.top_k")
    assert config.get(design, "model.vocab") == config.get(whole, "model.vocab")


def test_files_beside_like_are_relative_to_the_design(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "config.json").write_text(json.dumps({
        "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 8,
        "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 64}))
    (tmp_path / "design.yaml").write_text("workload: {source: transformer, tp: 8, global_batch: 8, seq: 64, "
                                          "model: {like: models/config.json, layers: 3}}\n" + NETWORK)
    design = ar.load_design(tmp_path / "design.yaml")
    assert (config.get(design, "workload.model.layers"), config.get(design, "workload.model.d_model")) == (3, 64)


def test_a_written_design_reads_back_equal(tmp_path: Path) -> None:
    design = read("compute: h100_sxm\nmemory: {like: h200_sxm, capacity: 99 GB}\n"
                  "network: {dims: [dgx_h100_nvswitch, {like: tpu_v4_ici, npus: 4, latency: 1 us}]}\n", tmp_path)
    for defaults in (False, True):
        ar.dump_design(design, tmp_path / "copy.yaml", defaults=defaults)
        assert ar.load_design(tmp_path / "copy.yaml") == design
        assert "like" not in (tmp_path / "copy.yaml").read_text()


@pytest.mark.parametrize(("section", "message"), [
    ("compute: h1000\n" + NETWORK, r"yaml:2: compute: .*'h1000' is not known; .*did you mean 'h100_sxm'"),
    ("memory: {like: h200_sx}\n" + NETWORK,
     r"yaml:2: memory.like: .*'h200_sx' is not known; .*did you mean 'h200_sxm'"),
    ("compute: {like: h100_sxm, peak: 650 TFLOP/s}\n" + NETWORK,
     r"yaml:2: compute.peak: unknown key 'peak' of model: measured; roofline and analytic have it"),
    ("memory: {like: 7}\n" + NETWORK, r"memory.like: '7' is not a name; expected a device of the catalog"),
    ("memory: {like: h100_sxm, capacty: 8 GB}\n" + NETWORK, r"memory.capacty: unknown key .*did you mean 'capacity'"),
    ("memory: {lik: h100_sxm}\n" + NETWORK, r"memory.lik: unknown key 'lik'; .*did you mean 'like'"),
    ("network: dgx_h100", r"yaml:2: network: .*'dgx_h100' is not known; .*did you mean 'dgx_h100_nvswitch'"),
    ("network: {like: gb200_nvl72, bogus: 1}", r"network.bogus: unknown key 'bogus'"),
    ("network: {like: mi355x_platform}", r"dims\[0\].latency: is missing, and mi355x_platform does not say it; "
                                         r"expected `like: mi355x_platform` and beside it latency: a time with its u"),
    ("network: infiniband_ndr", r"dims\[0\].npus: is missing, and infiniband_ndr does not say it"),
    ("network: {dims: [dgx_h100_nvswitch, infiniband_nrd]}", r"dims\[1\]: .*did you mean 'infiniband_ndr'"),
    ("network: 8", r"network: 8 is a whole number; expected a name of the catalog \(`astrarium list network`\)"),
    ("system: {like: h100_sxm}\n" + NETWORK, r"system.like: unknown key 'like'"),
])
def test_what_is_refused(section: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ar.InputError, match=message):
        read(section, tmp_path)


def test_names_on_a_path(tmp_path: Path) -> None:
    design = read(NETWORK, tmp_path)
    changed = config.replace_all(design, {
        "compute": "b200", "memory": {"like": "b200", "capacity": "90 GB"}, "memory.bandwidth": "8 TB/s",
        "network.dims[0]": {"like": "gb200_nvl72", "latency": "1 us"}, "network.dims[0].npus": 36})
    assert changed.compute == ar.Measured(device="b200")
    assert (changed.memory.capacity, changed.memory.bandwidth) == (90e9, 8000)
    assert (changed.network.npus, changed.network.flat[0].npu_bandwidth) == (36, 900)


def test_a_space_searches_over_names_and_what_they_stand_for(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text("""base:
  workload: {source: collective, op: all_reduce, payload: 64 MiB}
  compute: h100_sxm
  memory: h100_sxm
  network: {like: tpu_v5p_ici, npus: 8, latency: 1 us}
choices:
  network.dims[0].bandwidth: [50 GB/s, 200 GB/s]
variables:
  device: [h100_sxm, b200]
derived:
  compute: device
  memory: device
""")
    space = ar.load_space(tmp_path / "space.yaml")
    designs = {(design.network.flat[0].link_bandwidth, design.memory.capacity, design.compute)
               for design in map(space.design, space.points())}
    names = {name: ar.Measured(device=name) for name in ("h100_sxm", "b200")}
    assert designs == {(band, size, names[name]) for band in (50, 200) for name, size in (
        ("h100_sxm", 81559 * 2**20), ("b200", 183359 * 2**20))}
    ar.dump_space(space, tmp_path / "copy.yaml")
    copy = ar.load_space(tmp_path / "copy.yaml")
    assert [copy.design(point) for point in copy.points()] == [space.design(point) for point in space.points()]


def test_a_study_of_names_goes_on(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text("""base:
  workload: {source: collective, op: all_reduce, payload: 64 MiB}
  network: dgx_h100_nvswitch
choices:
  compute: [h100_sxm, b200]
  network: [dgx_h100_nvswitch, {like: dgx_a100_nvswitch, latency: 1 us}]
""")
    space = ar.load_space(tmp_path / "space.yaml")
    for trials in (2, 4):
        study = ar.search(space, minimize="makespan", agent="grid", trials=trials, study=tmp_path / "study")
    assert study.trials == study.distinct == 4
