"""MSCCL++ plans (JSON): read, launched and written."""
