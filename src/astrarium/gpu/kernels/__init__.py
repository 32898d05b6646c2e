"""Builders of GPU kernels, and the exam that proves what they compute."""
