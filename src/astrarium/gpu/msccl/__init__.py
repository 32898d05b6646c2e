"""MSCCL programs (XML): read, proved, launched and written."""
