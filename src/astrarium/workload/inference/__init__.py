"""Inference: prefill, decode, chunks, speculation, disaggregation; what every rank runs, and what it must hold."""
