"""Measured serving rows: what each states -> a deployment under load -> TTFT, TPOT, throughput -> errors."""
