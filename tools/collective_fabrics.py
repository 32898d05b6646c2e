"""What `tools/fit_collectives.py` fits: fabrics with measured rows, their data sheets' link rates, and stand-ins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["HOSTS", "NETWORKS", "STAND_INS", "HostFabric", "NetworkFabric"]

_TABLE = ("NVIDIA aiconfigurator-core 0.12.0 (Apache-2.0, 2026), systems/data/{}/nccl_perf.parquet, half precision, "
          "https://pypi.org/project/aiconfigurator-core/0.12.0/; link: {}")
_ENGINES = ("NVIDIA aiconfigurator-core 0.12.0 (Apache-2.0, 2026), systems/data/{}/{{{}}}/custom_allreduce_perf."
            "parquet, https://pypi.org/project/aiconfigurator-core/0.12.0/; link: {}")
_NVLINK = "https://www.nvidia.com/en-us/data-center/nvlink/"


@dataclass(frozen=True)
class HostFabric:
    """Links inside one host: the folder of its table, GB/s out of one GPU as the data sheet has it; `exchange`: the
    folder of DeepEP's tables, of so many `ranks`; `alltoall`: of TensorRT-LLM's; `larger`: the fabric that has lines of
    more ranks; `rows`: the source of its rows in `benchmarks/data/nccl_hosts.csv`, where it has no table; `engines`:
    tables of serving engines in `folder` that were measured on such links, and not on the device's other fabric."""

    name: str
    title: str
    technology: str
    gbps: float
    folder: str
    sheet: str
    exchange: str = ""
    ranks: int = 8
    larger: str = ""
    rows: str = ""
    alltoall: str = ""
    engines: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[tuple[int, int], ...]:
        """(hosts, ranks per host) of DeepEP's rows."""
        return ((1, self.ranks),)

    @property
    def source(self) -> str:
        """Where rows and link rate come from."""
        if self.engines:
            return _ENGINES.format(self.folder, ",".join(self.engines), self.sheet)
        return f"{self.rows}; link: {self.sheet}" if self.rows else _TABLE.format(self.folder, self.sheet)


@dataclass(frozen=True)
class NetworkFabric:
    """Network between hosts: GB/s of NICs per GPU; every `every`-th of its rows is fitted; `shared`: the hardware's
    name in the shared file; `exchange`: the folder of DeepEP's tables of several hosts, `groups` their (hosts, ranks
    per host); `host`: fabric inside its hosts; `small`: the fabric whose lines of less latency are taken as well,
    because this one has no rows of small payloads."""

    name: str
    title: str
    technology: str
    gbps: float
    host: str
    source: str
    every: int = 1
    shared: str = ""
    small: str = ""
    exchange: str = ""
    groups: tuple[tuple[int, int], ...] = ()
    alltoall: str = ""


HOSTS = (
    HostFabric("dgx_a100_nvswitch", "NVLink 3 and NVSwitch of an HGX or DGX A100, NCCL 2.27.3", "nvlink3", 300,
               "a100_sxm/comm/nccl/2.27.3", "NVIDIA A100 datasheet, 600 GB/s both directions"),
    HostFabric("dgx_h100_nvswitch", "NVLink 4 and NVSwitch of an HGX or DGX H100, NCCL 2.29.2", "nvlink4", 450,
               "h100_sxm/comm/nccl/2.29.2", "NVIDIA H100 datasheet, 900 GB/s both directions",
               "h100_sxm/comm/sglang/0.5.12"),
    HostFabric("dgx_h200_nvswitch", "NVLink 4 and NVSwitch of an HGX or DGX H200, NCCL 2.29.2", "nvlink4", 450,
               "h200_sxm/comm/nccl/2.29.2", "NVIDIA H200 datasheet, 900 GB/s both directions",
               "h200_sxm/comm/sglang/0.5.12"),
    HostFabric("dgx_b200_nvswitch", "NVLink 5 and NVSwitch of an HGX or DGX B200, NCCL 2.29.2", "nvlink5", 900,
               "b200_sxm/comm/nccl/2.29.2", _NVLINK,
               "b200_sxm/comm/sglang/0.5.12"),
    HostFabric("dgx_b300_nvswitch", "NVLink 5 and NVSwitch of an HGX or DGX B300, NCCL 2.29.2", "nvlink5", 900,
               "b300_sxm/comm/nccl/2.29.2", _NVLINK,
               "b300_sxm/comm/sglang/0.5.12"),
    HostFabric("gb200_nvl72", "NVLink 5 domain of a GB200 NVL72 (measured: 2 and 4 GPUs; 8: DGX B200)", "nvlink5", 900,
               "gb200/comm/nccl/2.29.2", _NVLINK,
               "gb200/comm/sglang/0.5.12", 4, "dgx_b200_nvswitch", alltoall="gb200/comm/trtllm/1.3.0rc10"),
    HostFabric("gb300_nvl72", "NVLink 5 domain of a GB300 NVL72 (measured: 2 and 4 GPUs; 8: DGX B300)", "nvlink5", 900,
               "gb300/comm/nccl/2.29.2", _NVLINK,
               "gb300/comm/sglang/0.5.12", 4, "dgx_b300_nvswitch", alltoall="gb200/comm/trtllm/1.3.0rc10"),
    HostFabric("l40s_pcie4", "L40S on PCIe 4.0 x16, NCCL 2.27.3", "pcie4", 32, "l40s/comm/nccl/2.27.3",
               "PCIe 4.0 x16, 32 GB/s"),
    HostFabric("rtx_pro_6000_pcie5", "RTX PRO 6000 Blackwell Server Edition on PCIe 5.0 x16, NCCL 2.29.2", "pcie5", 64,
               "rtx_pro_6000_server/comm/nccl/2.29.2", "PCIe 5.0 x16, 64 GB/s"),
    HostFabric("rtx_pro_6000_pcie5_host", "RTX PRO 6000 Blackwell Server Edition on PCIe 5.0 x16 through the host's "
               "memory, NCCL (measured: all_reduce of 2; all_gather and reduce_scatter: half of it)", "pcie5", 64,
               "rtx_pro_6000_server/comm", "PCIe 5.0 x16, 64 GB/s",
               engines=("vllm/0.19.0", "sglang/0.5.10", "trtllm/1.3.0rc10")),
    HostFabric("mi300x_platform", "Infinity Fabric of 8 x MI300X, RCCL (measured: all_reduce of all eight; all_gather "
               "and reduce_scatter: half of it)", "infinity_fabric", 448, "",
               "AMD Instinct MI300X Platform data sheet, 7 x 64 GB/s one direction",
               rows="hisohara/ai-scripts, training/01_rccl-smoketest/README.md, "
               "https://github.com/hisohara/ai-scripts"),
)

NETWORKS = (
    NetworkFabric("ethernet_400g", "400 Gb/s Ethernet (RoCE, BlueField-3), one port per GPU (measured: H200 hosts)",
                  "roce", 50, "dgx_h200_nvswitch", "schmaustech/nvidia-tools-image README, 2 x 8 H200, NCCL 2.30.4, "
                  "https://github.com/schmaustech/nvidia-tools-image"),
    NetworkFabric("infiniband_ndr", "NDR InfiniBand, one 400 Gb/s port per GPU (measured: H100 hosts)", "infiniband",
                  50, "dgx_h100_nvswitch", "SkyPilot documentation, NCCL test on Nebius, 2 x 8 H100, "
                  "https://github.com/skypilot-org/skypilot; wutz/k8s-in-action, mpi-operator/README.md, 2 x 8 H100, "
                  "https://github.com/wutz/k8s-in-action (512 MiB to 8 GiB; the two differ by 20 %; "
                  "small payloads: ethernet_400g)", small="ethernet_400g",
                  exchange="h100_sxm/comm/sglang/0.5.6.post2", groups=((2, 8), (4, 8), (8, 8))),
    NetworkFabric("gcp_a4", "Google Cloud A4: RoCE, one 400 Gb/s ConnectX-7 per GPU (measured: B200 hosts)", "roce", 50,
                  "dgx_b200_nvswitch", "dstack documentation, examples/clusters/a4, 2 x 8 B200, "
                  "https://github.com/dstackai/dstack (from 8 MiB; small payloads: ethernet_400g)",
                  small="ethernet_400g"),
    NetworkFabric("gcp_a3_mega", "Google Cloud A3 Mega: GPUDirect-TCPXO, 200 Gb/s per GPU (measured: H100 hosts)",
                  "tcpxo", 25, "dgx_h100_nvswitch",
                  "lessizzmore/create-a3mega-ztan-fork, ztan-NCCL-test-result, 2 x 8 H100, "
                  "https://github.com/lessizzmore/create-a3mega-ztan-fork (every second row of the shared file)",
                  every=2, shared="H100 8/node"),
    NetworkFabric("efa_p5", "AWS p5.48xlarge: EFA, 400 Gb/s per GPU (measured: H100 hosts)", "efa", 50,
                  "dgx_h100_nvswitch", "aws-samples/awsome-distributed-training, micro-benchmarks/nccl-tests README, "
                  "2 x 8 H100, https://github.com/aws-samples/awsome-distributed-training"),
    NetworkFabric("efa_p4de", "AWS p4de.24xlarge: EFA, 400 Gb/s for eight GPUs (measured: A100 hosts)", "efa", 6.25,
                  "dgx_a100_nvswitch", "aws-samples/awsome-distributed-training, micro-benchmarks/nccl-tests README, "
                  "2 x 8 A100, https://github.com/aws-samples/awsome-distributed-training"),
    NetworkFabric("efa_b200", "AWS with B200: EFA, 400 Gb/s per GPU (measured: 4 hosts)", "efa", 50,
                  "dgx_b200_nvswitch", "stas00/ml-engineering (CC-BY-SA), network benchmarks, 4 x 8 B200, "
                  "https://github.com/stas00/ml-engineering (every second row of the shared file; small "
                  "payloads: efa_p5)", every=2, small="efa_p5", shared="B200 EFA 50GB/s/GPU"),
    NetworkFabric("oci_a100_roce", "Oracle Cloud BM.GPU4.8: RoCE, 200 Gb/s per GPU (measured: A100 hosts)", "roce", 25,
                  "dgx_a100_nvswitch", "oracle-quickstart/oci-hpc-oke README, 2 x 8 A100 40 GB, "
                  "https://github.com/oracle-quickstart/oci-hpc-oke"),
)

STAND_INS: dict[str, dict[str, Any]] = {
    "infiniband_hdr": {
        "title": "HDR InfiniBand, one 200 Gb/s port per GPU: no rows; lines of NDR", "kind": "hosts",
        "link": "25 GB/s", "technology": "infiniband", "like": ["infiniband_ndr"],
        "source": "link: NVIDIA DGX A100 datasheet, eight 200 Gb/s ports for eight GPUs, "
                  "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/nvidia-dgx-a100-datasheet.pdf",
        "error": "no rows of its own"},
    "infiniband_xdr": {
        "title": "XDR InfiniBand, one 800 Gb/s port per GPU: no rows; lines of NDR", "kind": "hosts",
        "link": "100 GB/s", "technology": "infiniband", "like": ["infiniband_ndr"],
        "source": "link: NVIDIA DGX SuperPOD B300 reference architecture RA-11339-001, "
                  "https://docs.nvidia.com/dgx-superpod/reference-architecture/scalable-infrastructure-b300-xdr/latest/index.html",
        "error": "no rows of its own"},
}
