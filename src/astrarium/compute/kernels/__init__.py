"""How long kernels take: fitted models of measured devices.

    model = kernels.load("h100_sxm")
    model.latency_ns("gemm", "bf16", np.array([[1.0], [4096.0], [8192.0], [8192.0]]))     # batch, m, n, k -> ns
"""

from astrarium.compute.kernels.files import from_sheet, generic, load, named, names, read, with_torch, write
from astrarium.compute.kernels.machine import Machine
from astrarium.compute.kernels.model import FAMILIES, DeviceModel, FamilyModel
from astrarium.compute.kernels.predict import KINDS, latency_ns

__all__ = [
           "FAMILIES",
           "KINDS",
           "DeviceModel",
           "FamilyModel",
           "Machine",
           "from_sheet",
           "generic",
           "latency_ns",
           "load",
           "named",
           "names",
           "read",
           "with_torch",
           "write",
]
