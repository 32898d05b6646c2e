"""Collectives as GPU kernels: programs of loads, stores and semaphores, written as data (design/0020)."""

from __future__ import annotations

from astrarium.collective.kernels.build import ALGORITHMS, KernelAlgorithm, Kernels, kernel_launch, kernel_time
from astrarium.collective.kernels.device import Gpu
from astrarium.collective.kernels.exam import examine_kernels

__all__ = ["ALGORITHMS", "Gpu", "KernelAlgorithm", "Kernels", "examine_kernels", "kernel_launch", "kernel_time"]
