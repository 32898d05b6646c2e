"""Collectives as GPU kernels: programs of loads, stores and semaphores, written as data (design/0021)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.lazy import lazy

if TYPE_CHECKING:
    from astrarium.gpu.engine import Buffer, Launch, Operation, OpKind, Place, Stream, Workgroup, run_launch, together
    from astrarium.gpu.kernels.build import kernel_algorithm, kernel_launch, kernel_time
    from astrarium.gpu.kernels.device import CopyEngines, Gpu
    from astrarium.gpu.kernels.exam import examine_kernels
    from astrarium.gpu.kernels.gemm import Gemm, gemm_launch
    from astrarium.gpu.kernels.libraries import library_kernels, library_time
    from astrarium.gpu.kernels.overlap import GpuOverlap, Overlapped, gpu_overlap
    from astrarium.gpu.kernels.programs import prove_program
    from astrarium.gpu.kernels.settings import Kernels, KernelTimes
    from astrarium.gpu.kernels.uneven import uneven_all_to_all
    from astrarium.gpu.msccl.exam import examine_msccl
    from astrarium.gpu.msccl.launch import msccl_launch
    from astrarium.gpu.msccl.text import algo_xml
    from astrarium.gpu.msccl.write import kernel_algo
    from astrarium.gpu.msccl.xml import parse_msccl
    from astrarium.gpu.mscclpp.launch import mscclpp_launch
    from astrarium.gpu.mscclpp.read import read_mscclpp
    from astrarium.gpu.mscclpp.write import mscclpp_plan

__all__ = ["Buffer", "CopyEngines", "Gemm", "Gpu", "GpuOverlap", "KernelTimes", "Kernels", "Launch", "OpKind",
           "Operation", "Overlapped", "Place", "Stream", "Workgroup", "algo_xml", "examine_kernels", "examine_msccl",
           "gemm_launch", "gpu_overlap", "kernel_algo", "kernel_algorithm", "kernel_launch", "kernel_time",
           "library_kernels", "library_time", "msccl_launch", "mscclpp_launch", "mscclpp_plan", "parse_msccl",
           "prove_program", "read_mscclpp", "run_launch", "together", "uneven_all_to_all"]
__getattr__ = lazy(__name__)
