"""The device at hand: what PyTorch and the driver say of it, its clocks and power."""

from __future__ import annotations

import importlib
import os
import platform
import subprocess
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from astrarium.errors import InputError, install_line

__all__ = ["Driver", "Found", "driver_of", "free_bytes", "probed", "torch_here"]

QUERY = "clocks.sm,power.draw,clocks.max.sm,power.limit,driver_version"
CPU_L2 = 1 << 25


class Found(Struct, frozen=True):
    """`device`: cuda or cpu; `name`: the driver's; `units`: multiprocessors; `memory`, `l2`: bytes; `fp8`: whether
    products have the format; `versions`: of what ran, as text."""

    device: str
    name: str
    units: int
    memory: int
    l2: int
    fp8: bool
    versions: str


class Driver(Struct, frozen=True):
    """What the driver says. `read`: (MHz of the multiprocessors, W) now, None: unknown; `highest`: MHz; `limit`: W;
    `missing`: why there are no clocks, else ""."""

    read: Callable[[], tuple[float, float] | None]
    highest: float = 0.0
    limit: float = 0.0
    version: str = ""
    missing: str = ""


def torch_here(asks: str) -> Any:
    """PyTorch. Raises InputError without it; `asks` is what needs it."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise InputError(asks, "PyTorch is not installed", expected=install_line("torch")) from None


def probed(torch: Any) -> Found:
    """The first visible GPU, else the CPU."""
    if not torch.cuda.is_available():
        return Found("cpu", platform.processor() or platform.machine(), os.cpu_count() or 1, _host_bytes(), CPU_L2,
                     False, f"PyTorch {torch.__version__}")
    sheet = torch.cuda.get_device_properties(torch.cuda.current_device())
    amd = getattr(torch.version, "hip", None)
    below = f"ROCm {amd}" if amd else f"CUDA {torch.version.cuda}"
    return Found("cuda", str(sheet.name), int(sheet.multi_processor_count), int(sheet.total_memory),
                 int(getattr(sheet, "L2_cache_size", 1 << 26)), not amd and (sheet.major, sheet.minor) >= (8, 9),
                 f"PyTorch {torch.__version__}, {below}")


def free_bytes(torch: Any, device: str) -> int:
    """Memory that operands may take: of a GPU what is free, of a host what is available."""
    if device == "cpu":
        return _host_bytes()
    free, _ = torch.cuda.mem_get_info()
    return int(free) + int(torch.cuda.memory_reserved()) - int(torch.cuda.memory_allocated())


def _host_bytes() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 1 << 30


def driver_of(torch: Any, found: Found) -> Driver:
    """Clocks and power of the GPU: by NVML (`pip install nvidia-ml-py`), else by nvidia-smi."""
    if found.device == "cpu":
        return Driver(lambda: None, missing="a CPU: no clocks, no power")
    place = torch.cuda.current_device()
    identity = getattr(torch.cuda.get_device_properties(place), "uuid", None)
    if identity is None and torch.cuda.device_count() > 1:
        return Driver(lambda: None, missing="this PyTorch does not say which of several GPUs it uses: no clocks, no "
                                            "power (CUDA_VISIBLE_DEVICES names one)")
    name = "0" if identity is None else f"GPU-{str(identity).removeprefix('GPU-')}"
    return _by_nvml(name) or _by_command(name)


def _by_nvml(name: str) -> Driver | None:
    """By the Python bindings of NVML, where these are."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0) if name == "0" else nvml.nvmlDeviceGetHandleByUUID(name)
        highest = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)
        limit, version = nvml.nvmlDeviceGetEnforcedPowerLimit(handle), nvml.nvmlSystemGetDriverVersion()
    except nvml.NVMLError:
        return None

    def read() -> tuple[float, float] | None:
        try:
            return (float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
                    nvml.nvmlDeviceGetPowerUsage(handle) / 1e3)
        except nvml.NVMLError:
            return None

    text = version.decode() if isinstance(version, bytes) else str(version)
    return Driver(read, float(highest), limit / 1e3, text)


def _by_command(name: str) -> Driver:
    """By nvidia-smi."""
    first = _asked(name)
    if first is None:
        return Driver(lambda: None, missing="neither pynvml (`pip install nvidia-ml-py`) nor nvidia-smi answers: no "
                                            "clocks, no power")

    def read() -> tuple[float, float] | None:
        found = _asked(name)
        try:
            return None if found is None else (float(found[0]), float(found[1]))
        except ValueError:      # "[N/A]"
            return None

    try:
        return Driver(read, float(first[2]), float(first[3]), first[4])
    except ValueError:
        return Driver(read, version=first[4], missing="nvidia-smi states no limits of clock and power")


def _asked(name: str) -> list[str] | None:
    """Cells of QUERY; None where nvidia-smi does not answer."""
    try:
        said = subprocess.run(["nvidia-smi", "-i", name, f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    cells = [each.strip() for each in said.splitlines()[0].split(",")] if said.strip() else []
    return cells if len(cells) == len(QUERY.split(",")) else None
