"""Collectives as GPU kernels: programs of loads, stores and semaphores, written as data (design/0021)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.lazy import lazy

if TYPE_CHECKING:
    from astrarium.collective.kernels.build import kernel_algorithm, kernel_launch, kernel_time
    from astrarium.collective.kernels.device import CopyEngines, Gpu
    from astrarium.collective.kernels.exam import examine_kernels
    from astrarium.collective.kernels.gemm import Gemm, gemm_launch
    from astrarium.collective.kernels.libraries import library_kernels, library_time
    from astrarium.collective.kernels.msccl_launch import msccl_launch
    from astrarium.collective.kernels.msccl_write import kernel_algo
    from astrarium.collective.kernels.mscclpp import read_mscclpp
    from astrarium.collective.kernels.mscclpp_launch import mscclpp_launch
    from astrarium.collective.kernels.mscclpp_write import mscclpp_plan
    from astrarium.collective.kernels.overlap import GpuOverlap, Overlapped, gpu_overlap
    from astrarium.collective.kernels.programs import prove_program
    from astrarium.collective.kernels.settings import Kernels, KernelTimes
    from astrarium.collective.kernels.uneven import uneven_all_to_all

__all__ = ["CopyEngines", "Gemm", "Gpu", "GpuOverlap", "KernelTimes", "Kernels", "Overlapped", "examine_kernels",
           "gemm_launch", "gpu_overlap", "kernel_algo", "kernel_algorithm", "kernel_launch", "kernel_time",
           "library_kernels", "library_time", "msccl_launch", "mscclpp_launch", "mscclpp_plan", "prove_program",
           "read_mscclpp", "uneven_all_to_all"]
__getattr__ = lazy(__name__)
